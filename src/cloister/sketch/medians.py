"""Medians of many short columns at once."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel

__all__ = ["column_medians"]

Floats = NDArray[np.float64]
BLOCK: Final = 256  # columns that a thread works through together
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
def _medians_of(values: Floats, first: int, last: int, medians: Floats) -> None:
    """Sort each column by insertion and take its middle."""
    n_rows = values.shape[0]
    middle = n_rows // 2
    ordered = np.empty(n_rows)
    for column in range(first, last):
        for row in range(n_rows):
            value = values[row, column]
            place = row
            while place > 0 and ordered[place - 1] > value:
                ordered[place] = ordered[place - 1]
                place -= 1
            ordered[place] = value
        if n_rows % 2:
            medians[column] = ordered[middle]
        else:
            medians[column] = (ordered[middle - 1] + ordered[middle]) / 2


@parallel_kernel
def _medians(values: Floats, medians: Floats) -> None:
    n_columns = values.shape[1]
    for block in numba.prange((n_columns + BLOCK - 1) // BLOCK):
        _medians_of(values, block * BLOCK, min((block + 1) * BLOCK, n_columns), medians)
