"""Labelled rows as learners from labels take them: checked features, grades and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData

__all__ = ["checked_parameters", "feature_matrix", "require_finite", "row_weights"]

Floats = NDArray[np.float64]


def feature_matrix(data: RankingData | Any, n_features: int) -> NDArray[Any]:
    """Return the features of a data set or a matrix in single or double precision, checked.

    Examples
    --------
    >>> feature_matrix([[1, 2], [3, 4]], 2).dtype
    dtype('float64')
    """
    matrix = np.asarray(data.features if isinstance(data, RankingData) else data)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise DataError(
            f"documents need {n_features} features (given: {matrix.shape})", where="features"
        )
    return np.ascontiguousarray(matrix)


def row_weights(weights: NDArray[Any] | None, data: RankingData) -> Floats:
    """Return how much each row counts, brought to the mean 1; all alike where not given.

    Examples
    --------
    >>> data = RankingData(np.zeros((2, 1)), np.zeros(2, np.int8), np.array([0, 2]))
    >>> row_weights(np.array([1.0, 3.0]), data).tolist()
    [0.5, 1.5]
    """
    if weights is None:
        return np.ones(data.n_rows)
    given = np.asarray(weights, np.float64)
    if given.shape != (data.n_rows,) or not np.isfinite(given).all() or (given < 0).any():
        raise DataError(f"{data.n_rows} weights of at least 0 are needed", where="weights")
    mean = float(given.mean()) if data.n_rows else 1.0
    if mean <= 0:
        raise DataError("all weights are 0", where="weights")
    return given / mean


def checked_parameters(parameters: NDArray[Any], n_parameters: int) -> Floats:
    """Return a copy of a parameter vector in double precision, if it has the length needed."""
    vector = np.array(parameters, np.float64)
    if vector.shape != (n_parameters,):
        raise DataError(
            f"{n_parameters} parameters are needed (given: {vector.shape})", where="parameters"
        )
    return vector


def require_finite(parameters: Floats) -> Floats:
    """Return what a pass has learnt, unless its steps have run away."""
    if not np.isfinite(parameters).all():
        raise DataError(
            "the steps were too large, and a parameter is no longer finite",
            where="sgd_pass",
            remedy="normalise the features, or lower the learning rate",
        )
    return parameters
