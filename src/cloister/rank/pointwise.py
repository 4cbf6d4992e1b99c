"""Pointwise linear rankers: each labelled document is an example by itself.

CS-F-LTR trains "a simple linear classification for a point-wise ranking model" and says no more.
Here that is multinomial logistic regression on the grades; a document's score is the grade to be
expected, the sum over grades of grade times probability. Linear regression on the grade is the
other choice. Both learn by mini-batch stochastic gradient descent on

    sum of weight * loss / number of rows + l2 / 2 * ||weights||^2      (biases are not penalised)

with the weights of the rows brought to the mean 1. The parameters are one flat vector, output by
output: the weights of the features, then the bias. So parties can hand it on from one to the next.
Nothing in it is protected: it tells of the rows it was learnt from.
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
from cloister.rank.pointwise_kernel import add_gradient, run_pass, score_rows

__all__ = [
    "PointwiseModel",
    "PointwiseSettings",
    "fit_pointwise",
    "initial_parameters",
    "pointwise_loss",
    "sgd_pass",
]

Floats = NDArray[np.float64]


class PointwiseSettings(Settings):
    """What is learnt, and how.

    Parameters
    ----------
    kind
        ``softmax``: multinomial logistic regression; ``regression``: least squares on the grade.
    n_grades
        Grades 0 to ``n_grades`` - 1.
    n_passes
        Passes over the data by `fit_pointwise`.
    batch_rows
        Rows of a mini-batch.
    learning_rate, decay
        Pass number p (from 0) takes steps of learning_rate / (1 + decay * p).
    l2
        Weight of the penalty.
    """

    kind: Literal["softmax", "regression"] = "softmax"
    n_grades: int = Field(default=3, ge=2, le=100)
    n_passes: int = Field(default=30, ge=1)
    batch_rows: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=0.2, gt=0)
    decay: float = Field(default=0.1, ge=0)
    l2: float = Field(default=1e-4, ge=0)

    @property
    def n_outputs(self) -> int:
        """Linear functions of the features that are learnt."""
        return self.n_grades if self.kind == "softmax" else 1


@dataclass(frozen=True, eq=False)
class PointwiseModel:
    """A pointwise linear ranker with its parameters.

    Examples
    --------
    >>> model = PointwiseModel(PointwiseSettings(kind="regression"), np.array([2.0, -1.0, 0.5]))
    >>> model.n_features, model.score([[1.0, 1.0], [0.0, 3.0]])
    (2, array([ 1.5, -2.5]))
    """

    settings: PointwiseSettings
    parameters: Floats

    def __post_init__(self) -> None:
        n_outputs = self.settings.n_outputs
        if np.ndim(self.parameters) != 1 or len(self.parameters) % n_outputs:
            raise DataError(
                f"not a vector of {n_outputs} equal parts: {np.shape(self.parameters)}",
                where="PointwiseModel",
            )
        parameters = checked_parameters(self.parameters, len(self.parameters))
        object.__setattr__(self, "parameters", parameters)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return len(self.parameters) // self.settings.n_outputs - 1

    def score(self, data: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""
        matrix = feature_matrix(data, self.n_features)
        scores = np.empty(len(matrix))
        score_rows(self.parameters, self.settings.n_outputs, matrix, scores)
        return scores


def initial_parameters(n_features: int, settings: PointwiseSettings) -> Floats:
    """Return zeros, where every pointwise model begins."""
    return np.zeros(settings.n_outputs * (n_features + 1))


def sgd_pass(
    parameters: NDArray[Any],
    data: RankingData,
    rng: np.random.Generator,
    settings: PointwiseSettings,
    *,
    weights: NDArray[Any] | None = None,
    n_done: int = 0,
) -> Floats:
    """Go once over the rows in a random order, a step a mini-batch; return new parameters.

    Parameters
    ----------
    parameters
        Where to begin; not changed.
    data
        Rows of one party, or of all.
    rng
        Decides the order of the rows.
    settings
        What is learnt, and how.
    weights
        How much each row counts, relative to the others; all alike where not given.
    n_done
        Passes done before, which the learning rate decays by.

    Examples
    --------
    >>> data = RankingData(np.array([[0.0], [1.0]]), np.array([0, 1], np.int8), np.array([0, 2]))
    >>> settings = PointwiseSettings(kind="regression")
    >>> begin = initial_parameters(1, settings)
    >>> after = sgd_pass(begin, data, np.random.default_rng(0), settings)
    >>> pointwise_loss(after, data, settings)[0] < pointwise_loss(begin, data, settings)[0]
    True
    """
    vector, matrix, labels, counted = _checked(parameters, data, settings, weights)
    step = settings.learning_rate / (1 + settings.decay * n_done)
    order = rng.permutation(len(matrix))
    run_pass(
        vector,
        settings.n_outputs,
        matrix,
        labels,
        counted,
        order,
        settings.batch_rows,
        step,
        settings.l2,
    )
    return require_finite(vector)


def pointwise_loss(
    parameters: NDArray[Any],
    data: RankingData,
    settings: PointwiseSettings,
    *,
    weights: NDArray[Any] | None = None,
) -> tuple[float, Floats]:
    """Return what is minimised, over all rows, and its gradient."""
    vector, matrix, labels, counted = _checked(parameters, data, settings, weights)
    gradient = np.zeros_like(vector)
    rows = np.arange(len(matrix))
    loss = add_gradient(vector, settings.n_outputs, matrix, labels, counted, rows, gradient)
    n_rows = max(len(matrix), 1)
    penalised = vector.reshape(settings.n_outputs, -1).copy()
    penalised[:, -1] = 0.0
    penalty = settings.l2 / 2 * float((penalised**2).sum())
    return loss / n_rows + penalty, gradient / n_rows + settings.l2 * penalised.ravel()


def fit_pointwise(
    data: RankingData,
    settings: PointwiseSettings | None = None,
    *,
    seed: int = 0,
    weights: NDArray[Any] | None = None,
) -> PointwiseModel:
    """Learn a ranker from one data set by several passes; one seed gives one result.

    Examples
    --------
    >>> data = RankingData(np.array([[0.0], [1.0]]), np.array([0, 2], np.int8), np.array([0, 2]))
    >>> low, high = fit_pointwise(data).score(data)
    >>> bool(low < high)
    True
    """
    settings = settings or PointwiseSettings()
    rng = stream(seed, "pointwise")
    parameters = initial_parameters(data.n_features, settings)
    for done in range(settings.n_passes):
        parameters = sgd_pass(parameters, data, rng, settings, weights=weights, n_done=done)
    return PointwiseModel(settings, parameters)


def _checked(
    parameters: NDArray[Any],
    data: RankingData,
    settings: PointwiseSettings,
    weights: NDArray[Any] | None,
) -> tuple[Floats, NDArray[Any], NDArray[np.int64], Floats]:
    labels = data.labels.astype(np.int64)
    if settings.kind == "softmax" and len(labels):
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest < 0 or highest >= settings.n_grades:
            raise DataError(
                f"grades from {lowest} to {highest}, and {settings.n_grades} are known",
                where="labels",
                remedy="raise n_grades",
            )
    vector = checked_parameters(parameters, settings.n_outputs * (data.n_features + 1))
    return vector, feature_matrix(data, data.n_features), labels, row_weights(weights, data)
