"""Normalisation of features: per query, global, or none."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import parallel_kernel
from cloister.data.ranking_data import RankingData

__all__ = ["ColumnScale", "Normalisation", "column_scale", "normalise"]

Normalisation = Literal["none", "query_minmax", "global_minmax", "global_zscore"]


class ColumnScale(NamedTuple):
    """A shift and a width for each feature, learnt from one data set and applied to others."""

    shift: NDArray[np.float64]
    width: NDArray[np.float64]


def column_scale(data: RankingData, method: Normalisation) -> ColumnScale:
    """Learn a global scale; NaN is left out, a constant feature gets the width infinity.

    Examples
    --------
    >>> data = RankingData(np.array([[1.0, 5], [3, 5]]), np.zeros(2, np.int8), np.array([0, 2]))
    >>> column_scale(data, "global_minmax")
    ColumnScale(shift=array([1., 5.]), width=array([ 2., inf]))
    """
    features = data.features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of NaN only
        if method == "global_minmax":
            shift = np.nanmin(features, axis=0).astype(np.float64)
            width = np.nanmax(features, axis=0) - shift
        elif method == "global_zscore":
            shift = np.nanmean(features, axis=0, dtype=np.float64)
            width = np.nanstd(features, axis=0, dtype=np.float64)
        else:
            raise SettingsError(f"no global scale for {method!r}", where="normalise")
    return ColumnScale(np.nan_to_num(shift), np.where(width > 0, width, np.inf))


def normalise(
    data: RankingData,
    method: Normalisation,
    *,
    scale: ColumnScale | None = None,
    in_place: bool = False,
) -> RankingData:
    """Return the data set with normalised features; constant columns become 0, NaN stays NaN.

    Parameters
    ----------
    data
        What to normalise.
    method
        ``none``, ``query_minmax``, ``global_minmax`` or ``global_zscore``.
    scale
        For the global methods: a scale learnt elsewhere, so that test data is treated as the
        training data was. Learnt from ``data`` itself where not given.
    in_place
        Whether the features may be overwritten.

    Examples
    --------
    >>> data = RankingData(np.array([[1.0, 5], [3, 5]]), np.zeros(2, np.int8), np.array([0, 2]))
    >>> normalise(data, "query_minmax").features.tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    if method == "none":
        return data
    features = data.features if in_place else data.features.copy()
    if method == "query_minmax":
        query_minmax(features, data.offsets)
    else:
        shift, width = scale or column_scale(data, method)
        if len(shift) != data.n_features:
            raise SettingsError(
                f"a scale of {len(shift)} columns for {data.n_features} features", where="scale"
            )
        apply_scale(features, shift, width)
    return replace(data, features=features)


@parallel_kernel
def query_minmax(features: NDArray[Any], offsets: NDArray[np.int64]) -> None:
    """Bring each query's columns to 0..1 in place; a constant column becomes 0."""
    n_columns = features.shape[1]
    for query in numba.prange(len(offsets) - 1):
        start, stop = offsets[query], offsets[query + 1]
        low = np.full(n_columns, np.inf, features.dtype)
        high = np.full(n_columns, -np.inf, features.dtype)
        for row in range(start, stop):
            for column in range(n_columns):
                value = features[row, column]
                if value < low[column]:
                    low[column] = value
                if value > high[column]:
                    high[column] = value
        for row in range(start, stop):
            for column in range(n_columns):
                value = features[row, column]
                if high[column] > low[column]:
                    features[row, column] = (value - low[column]) / (high[column] - low[column])
                elif not np.isnan(value):
                    features[row, column] = 0.0


@parallel_kernel
def apply_scale(
    features: NDArray[Any], shift: NDArray[np.float64], width: NDArray[np.float64]
) -> None:
    """Subtract the shift and divide by the width, in place."""
    for row in numba.prange(len(features)):
        for column in range(features.shape[1]):
            features[row, column] = (features[row, column] - shift[column]) / width[column]
