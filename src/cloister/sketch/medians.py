"""Medians of many short columns at once."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel

__all__ = ["BLOCK", "column_medians", "insert_lane"]

Floats = NDArray[np.float64]
BLOCK: Final = 512  # columns that are sorted together: they stay in the nearest cache
MANY: Final = 4096  # columns from which on several threads pay


def column_medians(values: Floats) -> Floats:
    """Return the median of each column; of an even number, the mean of the middle two.

    Examples
    --------
    >>> column_medians(np.array([[1.0, 5.0], [3.0, 4.0], [2.0, 9.0]]))
    array([2., 5.])
    """
    medians = np.empty(values.shape[1])
    if values.shape[1] < MANY:
        _medians_of(values, 0, values.shape[1], medians)
    else:
        _medians(values, medians)
    return medians


@kernel
def insert_lane(lanes: NDArray[Any], row: int, n: int) -> None:
    """Insert a row into the sorted rows above it, in each of the first ``n`` columns.

    Minima and maxima over whole rows, which run in vector registers.
    """
    for above in range(row, 0, -1):
        upper, lower = lanes[above - 1, :n], lanes[above, :n]
        for i in range(len(upper)):  # not range(n): with the length known, vectors are used
            one, two = upper[i], lower[i]
            upper[i] = min(one, two)
            lower[i] = max(one, two)


@kernel
def _medians_of(values: Floats, first: int, last: int, medians: Floats) -> None:
    """Sort each column by insertion and take its middle."""
    n_rows = values.shape[0]
    lanes = np.empty((n_rows, BLOCK))
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        for row in range(n_rows):
            lanes[row, :n] = values[row, begin : begin + n]
            insert_lane(lanes, row, n)
        for i in range(n):
            medians[begin + i] = 0.5 * (lanes[(n_rows - 1) // 2, i] + lanes[n_rows // 2, i])


@parallel_kernel
def _medians(values: Floats, medians: Floats) -> None:
    n_columns = values.shape[1]
    for block in numba.prange((n_columns + BLOCK - 1) // BLOCK):
        _medians_of(values, block * BLOCK, min((block + 1) * BLOCK, n_columns), medians)
