"""What codes of private trees tell about the order of values, measured.

A code tells its value's interval between two thresholds, so B - 1 thresholds sort values into B
ordered classes. Where the classes are equally full, Spearman's rank correlation of codes and values
is 1 - 1/B^2 in expectation: `equal_classes_leak`. That is 0.75 for one threshold, 0.99 for nine and
0.9999 for 99: codes of a feature on which a forest splits often are nearly order-preserving. The
server also sees the thresholds' codes and so each value's class, which sorts better still.

Hiding the codes alone would not end it: a row's paths through the trees say on which side of the
thresholds it lies that it met. `path_places` turns them into an order.

Measured on the test rows of MQ2008, fold 1, with forests of the default settings (median over the
features that are split on, largest in brackets):

======  ====================  ==============  ==============  ==============
trees   thresholds a feature  by codes        by intervals    by paths
======  ====================  ==============  ==============  ==============
10      3.5                   0.803 (0.966)   0.902 (0.989)   0.275 (0.977)
50      12                    0.945 (0.991)   0.983 (0.997)   0.543 (0.986)
200     47.5                  0.976 (0.999)   0.998 (1.000)   0.951 (0.999)
======  ====================  ==============  ==============  ==============

Values of MQ2008 are often equal (0), which codes do not show; with values that are all different,
200 trees and some 120 thresholds a feature, codes reach 0.9997 and paths 0.995.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.private_trees import CodeColumn, PrivateForest, TreeCodes
from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.privacy.mechanisms.aes_noise import Words
from cloister.rank.labelled_rows import feature_matrix

__all__ = ["OrderLeak", "equal_classes_leak", "order_leaks", "path_places", "rank_correlation"]

Floats = NDArray[np.float64]


class OrderLeak(NamedTuple):
    """How well the order of one feature's values can be read off.

    Correlations are Spearman's with the values; 0 tells nothing, 1 or -1 all. Rows whose value is
    NaN are left out.
    """

    column: CodeColumn
    n_thresholds: int
    by_codes: float
    by_intervals: float  # codes brought to the places of their intervals, which the server sees
    by_paths: float


def equal_classes_leak(n_thresholds: int) -> float:
    """Return the expected rank correlation of codes where all intervals are equally full.

    Let U = (k + u) / B be a value's rank and V = (k + v) / B its code's, of B classes, u and v
    uniform and independent: E(U - V)^2 = 1 / (6 B^2), and the correlation is 1 - 6 E(U - V)^2.

    Examples
    --------
    >>> equal_classes_leak(0), equal_classes_leak(1), round(equal_classes_leak(99), 4)
    (0.0, 0.75, 0.9999)
    """
    if n_thresholds < 0:
        raise DataError("at least 0", where="n_thresholds")
    return 1 - 1 / (n_thresholds + 1) ** 2


def rank_correlation(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return Spearman's rank correlation; 0 where one of the two is constant.

    Examples
    --------
    >>> rank_correlation(np.array([1, 2, 3]), np.array([10, 30, 90]))
    1.0
    """
    from scipy.stats import rankdata

    a, b = (rankdata(values) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return round(float(a @ b) / spread, 12) if spread > 0 else 0.0


def order_leaks(
    codes: TreeCodes, rows: Any, forest: int = 0, *, words: Words | None = None
) -> list[OrderLeak]:
    """Measure for each column how well codes, and how well paths, sort some rows.

    Parameters
    ----------
    codes
        The client's codes.
    rows
        Plain features, as the server must not see them.
    forest
        Which of the forests.
    words
        Where the randomness comes from; see `TreeCodes.coded_rows`.
    """
    matrix = feature_matrix(rows, codes.n_features(forest))
    private, coded = codes.private_forest(forest), codes.coded_rows(matrix, forest, words)
    places = path_places(private, coded)
    leaks = []
    for place, column in enumerate(codes.columns(forest)):
        values = matrix[:, column.feature]
        known = ~np.isnan(values)
        leaks.append(
            OrderLeak(
                column,
                len(codes.thresholds(column, forest)),
                rank_correlation(values[known], coded[known, place]),
                rank_correlation(values[known], _intervals(private, coded, place)[known]),
                rank_correlation(values[known], places[known, place]),
            )
        )
    return leaks


def path_places(forest: PrivateForest, coded: NDArray[Any]) -> Floats:
    """Return where each row lies among each column's thresholds, as far as its paths tell.

    The middle of the interval, in numbers of thresholds, that the turns at the nodes that the row
    met leave for it. Codes are looked at for the outcome of comparisons only.
    """
    rows = np.ascontiguousarray(coded, np.int64)
    ranks, n_ranks = _threshold_ranks(forest)
    low = np.zeros(rows.shape, np.int32)
    high = np.repeat(n_ranks[None, :], len(rows), axis=0)
    trees = (forest.roots, forest.columns, forest.codes, forest.left, forest.right)
    _narrow(rows, *trees, ranks, low, high)
    return (low + high) / 2


def _intervals(forest: PrivateForest, coded: NDArray[Any], column: int) -> NDArray[np.int64]:
    """Return between which thresholds of this forest each row's code lies."""
    bounds = np.unique(forest.codes[forest.columns == column])
    return np.searchsorted(bounds, coded[:, column])


def _threshold_ranks(forest: PrivateForest) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return each node's place among the thresholds of its column, and their number."""
    ranks = np.empty(len(forest.codes), np.int32)
    n_ranks = np.zeros(forest.n_columns, np.int32)
    for column in range(forest.n_columns):
        asks = forest.columns == column
        found, which = np.unique(forest.codes[asks], return_inverse=True)
        ranks[asks], n_ranks[column] = which.reshape(-1), len(found)
    return ranks, n_ranks


@kernel
def _narrow(
    rows: NDArray[np.int64],
    roots: NDArray[np.int32],
    columns: NDArray[np.int32],
    codes: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    ranks: NDArray[np.int32],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
) -> None:
    """Walk every row down every tree; each turn bounds the row's interval in one column."""
    for row in range(len(rows)):
        for root in roots:
            node = root
            while node >= 0:
                column = columns[node]
                if rows[row, column] <= codes[node]:
                    high[row, column] = min(high[row, column], ranks[node])
                    node = left[node]
                else:
                    low[row, column] = max(low[row, column], ranks[node] + 1)
                    node = right[node]
