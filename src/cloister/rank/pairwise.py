"""The pairwise linear ranker: RankNet's logistic loss on pairs, with linear scores.

A pair is two documents of one query with different grades. With s the score of the better one
minus that of the other, its loss is ln(1 + exp(-s)) (Burges et al., 2005; the hinge in its place
would be RankSVM). What is minimised is

    mean over queries of (mean over the query's pairs of weight * loss) + l2 / 2 * ||weights||^2

so that a query with many candidates does not drown the others; queries without a pair are left
out. The weight of a pair is the smaller one of its two rows' weights, which have the mean 1. The
parameters are one flat vector, a weight a feature: a bias would move all scores alike. Nothing in
it is protected: it tells of the rows it was learnt from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.rank.labelled_rows import (
    checked_parameters,
    feature_matrix,
    require_finite,
    row_weights,
)
from cloister.rank.pairwise_kernel import add_all_pairs, has_pairs, linear_scores, run_pass
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = [
    "PairwiseModel",
    "PairwiseSettings",
    "fit_pairwise",
    "initial_parameters",
    "pairwise_loss",
    "sgd_pass",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class PairwiseSettings(Settings):
    """How pairs are taken, and how the ranker learns.

    Parameters
    ----------
    pairs
        ``all`` pairs of a query, or ``sampled``: ``n_sampled`` of them, drawn with replacement.
    n_sampled
        Pairs drawn of each query in a pass.
    n_passes
        Passes over the data by `fit_pairwise`.
    batch_queries
        Queries of a mini-batch.
    learning_rate, decay
        Pass number p (from 0) takes steps of learning_rate / (1 + decay * p).
    l2
        Weight of the penalty.
    """

    pairs: Literal["all", "sampled"] = "all"
    n_sampled: int = Field(default=200, ge=1)
    n_passes: int = Field(default=30, ge=1)
    batch_queries: int = Field(default=4, ge=1)
    learning_rate: float = Field(default=0.5, gt=0)
    decay: float = Field(default=0.1, ge=0)
    l2: float = Field(default=1e-4, ge=0)


@dataclass(frozen=True, eq=False)
class PairwiseModel:
    """A pairwise linear ranker with its parameters.

    Examples
    --------
    >>> model = PairwiseModel(PairwiseSettings(), np.array([2.0, -1.0]))
    >>> model.score([[1.0, 1.0], [0.0, 3.0]])
    array([ 1., -3.])
    """

    settings: PairwiseSettings
    parameters: Floats

    def __post_init__(self) -> None:
        if np.ndim(self.parameters) != 1:
            raise DataError("parameters are one vector", where="PairwiseModel")
        parameters = checked_parameters(self.parameters, len(self.parameters))
        object.__setattr__(self, "parameters", parameters)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return len(self.parameters)

    def score(self, data: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""
        return linear_scores(self.parameters, feature_matrix(data, self.n_features))

    def to_ranker(self) -> Ranker:
        """Return the same ranker in single precision, as `cloister.rank.saving` keeps it."""
        settings = RankerSettings(n_features=self.n_features)
        return Ranker(settings, self.parameters.astype(np.float32))


def initial_parameters(n_features: int, settings: PairwiseSettings) -> Floats:
    """Return zeros, where every pairwise model begins."""
    return np.zeros(n_features)


def sgd_pass(
    parameters: NDArray[Any],
    data: RankingData,
    rng: np.random.Generator,
    settings: PairwiseSettings,
    *,
    weights: NDArray[Any] | None = None,
    n_done: int = 0,
) -> Floats:
    """Go once over the queries in a random order, a step a mini-batch; return new parameters.

    Parameters are as for `cloister.rank.pointwise.sgd_pass`; ``rng`` also draws pairs where they
    are sampled. Data without a single pair leaves the parameters as they are.

    Examples
    --------
    >>> data = RankingData(np.array([[0.0], [1.0]]), np.array([0, 1], np.int8), np.array([0, 2]))
    >>> sgd_pass([0.0], data, np.random.default_rng(0), PairwiseSettings(learning_rate=1)).tolist()
    [0.5]
    """
    vector, matrix, labels, counted = _checked(parameters, data, weights)
    order = rng.permutation(_usable(data))
    seed = np.uint64(rng.integers(2**63))
    n_sampled = settings.n_sampled if settings.pairs == "sampled" else 0
    step = settings.learning_rate / (1 + settings.decay * n_done)
    run_pass(
        vector,
        matrix,
        labels,
        counted,
        data.offsets,
        order,
        settings.batch_queries,
        n_sampled,
        seed,
        step,
        settings.l2,
    )
    return require_finite(vector)


def pairwise_loss(
    parameters: NDArray[Any],
    data: RankingData,
    settings: PairwiseSettings,
    *,
    weights: NDArray[Any] | None = None,
) -> tuple[float, Floats]:
    """Return what is minimised, over all pairs of all queries, and its gradient."""
    vector, matrix, labels, counted = _checked(parameters, data, weights)
    gradient = np.zeros_like(vector)
    scores = linear_scores(vector, matrix)
    loss, queries = 0.0, _usable(data)
    for query in queries:
        first, last = int(data.offsets[query]), int(data.offsets[query + 1])
        loss += add_all_pairs(scores, matrix, labels, counted, first, last, gradient)
    n_queries = max(len(queries), 1)
    penalty = settings.l2 / 2 * float(vector @ vector)
    return loss / n_queries + penalty, gradient / n_queries + settings.l2 * vector


def fit_pairwise(
    data: RankingData,
    settings: PairwiseSettings | None = None,
    *,
    seed: int = 0,
    weights: NDArray[Any] | None = None,
) -> PairwiseModel:
    """Learn a ranker from one data set by several passes; one seed gives one result.

    Examples
    --------
    >>> data = RankingData(np.array([[0.0], [1.0]]), np.array([0, 2], np.int8), np.array([0, 2]))
    >>> low, high = fit_pairwise(data).score(data)
    >>> bool(low < high)
    True
    """
    settings = settings or PairwiseSettings()
    rng = stream(seed, "pairwise")
    parameters = initial_parameters(data.n_features, settings)
    for done in range(settings.n_passes):
        parameters = sgd_pass(parameters, data, rng, settings, weights=weights, n_done=done)
    return PairwiseModel(settings, parameters)


def _checked(
    parameters: NDArray[Any], data: RankingData, weights: NDArray[Any] | None
) -> tuple[Floats, NDArray[Any], Integers, Floats]:
    return (
        checked_parameters(parameters, data.n_features),
        feature_matrix(data, data.n_features),
        data.labels.astype(np.int64),
        row_weights(weights, data),
    )


def _usable(data: RankingData) -> Integers:
    """Return the queries with at least two different grades."""
    return np.flatnonzero(has_pairs(data.labels.astype(np.int64), data.offsets))
