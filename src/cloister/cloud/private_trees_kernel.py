"""Kernels of private trees: codes of values, and scores of coded rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel

__all__ = ["code_values", "score_rows", "trees_are_sound"]

ZERO: Final = float(np.float32(1e-35))  # LightGBM's kZeroThreshold: so close to 0 is 0
ZERO_IS_MISSING: Final = 1  # LightGBM's MissingType
NAN_IS_MISSING: Final = 2
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)


@inline_kernel
def _high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    return a1 * b1 + (middle >> _32) + ((a0 * b1 + (middle & _LOW)) >> _32)


@kernel
def code_values(
    values: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    ends: NDArray[np.int64],
    missing: int,
    to_left: bool,
    words: NDArray[np.uint64],
    codes: NDArray[np.int64],
) -> None:
    """Give each value a code between the ends of its interval, chosen by its word."""
    for i in range(len(values)):
        value = values[i]
        is_nan = np.isnan(value)
        if abs(value) <= ZERO or (is_nan and missing != NAN_IS_MISSING):
            value = 0.0
        if (missing == NAN_IS_MISSING and is_nan) or (missing == ZERO_IS_MISSING and value == 0.0):
            interval = 0 if to_left else len(thresholds)
        else:
            interval = np.searchsorted(thresholds, value)  # thresholds below the value
        before = ends[interval - 1] if interval > 0 else np.int64(-1)
        width = np.uint64(ends[interval] - before)
        codes[i] = before + np.int64(1) + np.int64(_high_product(words[i], width))


@kernel
def score_rows(
    rows: NDArray[np.int64],
    roots: NDArray[np.int32],
    columns: NDArray[np.int32],
    codes: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    values: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    """Add the leaf of each tree to the row's score, tree after tree as LightGBM does."""
    for tree in range(len(roots)):
        for row in range(len(rows)):
            node = roots[tree]
            while node >= 0:
                node = left[node] if rows[row, columns[node]] <= codes[node] else right[node]
            scores[row] += values[-1 - node]


@kernel
def trees_are_sound(
    roots: NDArray[np.int32],
    columns: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    n_leaves: int,
    n_columns: int,
) -> bool:
    """Say whether every walk from a root stays inside the arrays and ends at a leaf."""
    n_nodes = len(columns)
    for root in roots:
        if not -n_leaves <= root < n_nodes:
            return False
    for node in range(n_nodes):
        if not 0 <= columns[node] < n_columns:
            return False
        for child in (left[node], right[node]):
            if not -n_leaves <= child < n_nodes or 0 <= child <= node:
                return False
    return True
