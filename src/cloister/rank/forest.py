"""LambdaMART by LightGBM: gradient-boosted trees on LambdaRank's gradients.

Burges, *From RankNet to LambdaRank to LambdaMART* (2010). LightGBM comes with the extra ``trees``.
One thread and a fixed seed: the same data gives the same trees, byte for byte, with one version of
LightGBM on one kind of machine.

A forest is kept as LightGBM's model text, cut down to what a prediction needs
(`cloister.rank.tree_text`). Trees tell of the data they grew on: a threshold lies between feature
values of two training rows, and the value of a leaf comes from the labels of the rows in it. Both
stay, and nothing protects them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError, MissingDependency
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.rank.labelled_rows import feature_matrix, row_weights
from cloister.rank.tree_text import sound_trees

__all__ = ["Forest", "ForestMixture", "ForestSettings", "fit_forest"]

Floats = NDArray[np.float64]

MAX_QUERY_ROWS: Final = 10_000  # LightGBM's own limit for ranking


class ForestSettings(Settings):
    """How the trees grow; the defaults are for some hundred queries.

    Parameters
    ----------
    n_trees
        Trees; fewer where a validation set says so.
    learning_rate
        How much each tree counts.
    n_leaves
        Leaves of a tree, at most.
    min_leaf_rows
        Rows of a leaf, at least.
    l2
        Penalty on the values of leaves.
    row_share, feature_share
        Share of the rows and of the features that each tree sees.
    truncation
        Pairs count only if one of the two is among the first so many of the current ranking.
    patience
        With a validation set: stop after so many trees without a better nDCG@10 there.
    """

    n_trees: int = Field(default=100, ge=1)
    learning_rate: float = Field(default=0.05, gt=0, le=1)
    n_leaves: int = Field(default=15, ge=2)
    min_leaf_rows: int = Field(default=20, ge=1)
    l2: float = Field(default=1.0, ge=0)
    row_share: float = Field(default=1.0, gt=0, le=1)
    feature_share: float = Field(default=0.8, gt=0, le=1)
    truncation: int = Field(default=20, ge=1)
    patience: int = Field(default=30, ge=1)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as LightGBM writes them, and the spread of their scores over the training rows.

    Parameters
    ----------
    text
        LightGBM's model text; kept is what `cloister.rank.tree_text.sound_trees` makes of it.
    n_features
        Length of a feature vector.
    spread
        Standard deviation of the scores of the training rows; `ForestMixture` divides by it, since
        LambdaRank's scores have no scale of their own.

    Raises
    ------
    DataError
        If the text does not hold sound trees of so many features, or the spread is not above 0.
    """

    text: str
    n_features: int
    spread: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", sound_trees(self.text, self.n_features))
        if not 0 < self.spread < float("inf"):
            raise DataError(f"must be above 0 (given: {self.spread})", where="Forest.spread")

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.text.count("\nTree=")

    def score(self, data: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""
        matrix = feature_matrix(data, self.n_features)
        if not len(matrix):
            return np.empty(0)
        return np.asarray(self._booster.predict(matrix, num_threads=1), np.float64)

    @cached_property
    def _booster(self) -> Any:
        lightgbm = _lightgbm()
        try:
            return lightgbm.Booster(model_str=self.text)
        except lightgbm.basic.LightGBMError as error:
            raise DataError(f"LightGBM cannot read the trees: {error}", where="Forest") from None


@dataclass(frozen=True, eq=False)
class ForestMixture:
    """A weighted sum of forests, each divided by its spread.

    Parties can so rank together by exchanging trees in the place of features: each trains on its
    own rows, and everybody scores with all. What the trees tell is said in this module's beginning.

    Parameters
    ----------
    forests
        Of one number of features.
    weights
        At least 0, not all 0; brought to the sum 1. All alike where not given.
    """

    forests: Sequence[Forest]
    weights: Sequence[float] = ()

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights or [1.0] * len(self.forests), np.float64)
        sound = (
            len(self.forests) > 0
            and weights.shape == (len(self.forests),)
            and bool(np.isfinite(weights).all())
            and bool((weights >= 0).all())
            and float(weights.sum()) > 0
            and len({forest.n_features for forest in self.forests}) == 1
        )
        if not sound:
            raise DataError(
                "forests of equal features with as many weights of at least 0 are needed",
                where="ForestMixture",
            )
        object.__setattr__(self, "forests", tuple(self.forests))
        object.__setattr__(self, "weights", tuple((weights / weights.sum()).tolist()))

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return self.forests[0].n_features

    def score(self, data: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""
        matrix = feature_matrix(data, self.n_features)
        total = np.zeros(len(matrix))
        for forest, weight in zip(self.forests, self.weights, strict=True):
            if weight > 0:
                total += weight / forest.spread * forest.score(matrix)
        return total


def fit_forest(
    data: RankingData,
    settings: ForestSettings | None = None,
    *,
    seed: int = 0,
    weights: NDArray[Any] | None = None,
    validation: RankingData | None = None,
) -> Forest:
    """Grow trees on one data set; the same data, settings and seed give the same trees.

    Parameters
    ----------
    data
        Rows of one party, or of several if their features may be put together.
    settings
        How the trees grow.
    seed
        For the shares of rows and features, at most 2^31 - 1.
    weights
        How much each row counts, relative to the others; all alike where not given.
    validation
        Decides how many trees are kept, by nDCG@10; all where not given.

    Raises
    ------
    MissingDependency
        If LightGBM is not installed.
    DataError
        If there are no rows, a grade is negative or over 30, or a query has over 10,000 rows.
    """
    settings = settings or ForestSettings()
    _check(data)
    lightgbm = _lightgbm()
    train = _dataset(lightgbm, data, row_weights(weights, data))
    callbacks, sets = [], []
    if validation is not None:
        _check(validation)
        sets = [_dataset(lightgbm, validation, None, reference=train)]
        callbacks = [lightgbm.early_stopping(settings.patience, verbose=False)]
    booster = lightgbm.train(
        _parameters(settings, seed),
        train,
        num_boost_round=settings.n_trees,
        valid_sets=sets,
        callbacks=callbacks,
    )
    text = booster.model_to_string(num_iteration=booster.best_iteration or None)
    forest = Forest(text, data.n_features)
    spread = float(forest.score(data).std())
    return Forest(text, data.n_features, spread if spread > 0 else 1.0)


def _parameters(settings: ForestSettings, seed: int) -> dict[str, Any]:
    return {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.n_leaves,
        "min_data_in_leaf": settings.min_leaf_rows,
        "lambda_l2": settings.l2,
        "bagging_fraction": settings.row_share,
        "bagging_freq": 1 if settings.row_share < 1 else 0,
        "feature_fraction": settings.feature_share,
        "lambdarank_truncation_level": settings.truncation,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }


def _dataset(
    lightgbm: Any, data: RankingData, weights: Floats | None, reference: Any = None
) -> Any:
    lengths = data.lengths
    return lightgbm.Dataset(
        feature_matrix(data, data.n_features),
        label=data.labels,
        group=lengths[lengths > 0],
        weight=weights,
        reference=reference,
        params={"verbosity": -1, "num_threads": 1},
    )


def _check(data: RankingData) -> None:
    if not data.n_rows:
        raise DataError("there are no rows to learn from", where="data")
    if int(data.labels.min()) < 0 or int(data.labels.max()) > 30:
        raise DataError("grades are 0 to 30", where="labels")
    if int(data.lengths.max()) > MAX_QUERY_ROWS:
        raise DataError(f"a query has over {MAX_QUERY_ROWS} rows", where="offsets")


def _lightgbm() -> Any:
    try:
        return importlib.import_module("lightgbm")
    except ImportError:
        raise MissingDependency(
            "the package lightgbm is not installed",
            where="forest",
            remedy="pip install 'cloister[trees]'",
        ) from None
