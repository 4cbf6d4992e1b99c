"""Normalised discounted cumulative gain (Jarvelin and Kekalainen, 2002), gain 2^r - 1.

The gain is that of Burges et al. (2005), as in all papers on online learning to rank here:
DCG@k = sum over ranks i = 1 .. k of (2^r_i - 1) / log2(i + 1), divided by the DCG@k of the best
ranking of *all* candidates, not only of those shown.

`dcg_of_page` and `ndcg_of_page` can be called from other kernels.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ragged import checked_cutoff
from cloister.measure.ranked import NO_CUTOFF, RankedLabels, count_grades

__all__ = ["dcg", "dcg_of_page", "discount", "gain", "ideal_dcg", "ndcg", "ndcg_of_page"]

_DISCOUNTS: Final = 1.0 / np.log2(np.arange(2, 1026))  # of the first 1,024 ranks


def ndcg(
    ranked: RankedLabels, *, k: int | None = None, nothing_relevant: NothingRelevant = "skip"
) -> NDArray[np.float64]:
    """Return nDCG@k of each query.

    Parameters
    ----------
    ranked
        Labels in ranked order.
    k
        The cut-off; None looks at the whole ranking.
    nothing_relevant
        What a query without a relevant document gets: NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> from cloister.measure.ranked import rank_labels
    >>> ndcg(rank_labels([0.1, 0.9, 0.5], [2, 0, 1], [0, 3]), k=10).round(4)
    array([0.5869])
    """
    k = ranked.cutoff(k)
    ideal = _ideal_dcg(ranked.grade_counts, k)
    achieved = _dcg(ranked.labels, ranked.offsets, k)
    values = np.divide(achieved, ideal, out=np.zeros_like(ideal), where=ideal > 0)
    return settle(values, ideal > 0, nothing_relevant)


def dcg(ranked: RankedLabels, *, k: int | None = None) -> NDArray[np.float64]:
    """Return DCG@k of each query, not normalised; 0 where nothing is relevant."""
    return _dcg(ranked.labels, ranked.offsets, ranked.cutoff(k))


def ideal_dcg(labels: ArrayLike, offsets: ArrayLike, *, k: int | None) -> NDArray[np.float64]:
    """Return the DCG@k of each query's best ranking.

    Examples
    --------
    >>> ideal_dcg([0, 2, 1], [0, 3], k=1)
    array([3.])
    """
    cutoff = NO_CUTOFF if k is None else checked_cutoff(k)
    return _ideal_dcg(count_grades(labels, offsets), cutoff)


@kernel
def gain(label: int) -> float:
    """Return 2^label - 1; a negative label gains nothing."""
    return float((np.int64(1) << label) - 1) if label > 0 else 0.0


@kernel
def discount(position: int) -> float:
    """Return 1 / log2(rank + 1) of a position that counts from 0: rank 1 is position 0."""
    if position < len(_DISCOUNTS):
        return float(_DISCOUNTS[position])
    return float(1.0 / np.log2(position + 2.0))


@kernel
def dcg_of_page(labels: NDArray[Any], n: int, k: int) -> float:
    """Return the DCG@k of one page: the first ``n`` labels, in the order shown.

    Examples
    --------
    >>> dcg_of_page(np.array([2, 0, 1], np.int8), 3, 10)
    3.5
    """
    total = 0.0
    for position in range(min(n, k)):
        total += gain(labels[position]) * discount(position)
    return total


@kernel
def ndcg_of_page(labels: NDArray[Any], n: int, k: int, ideal: float) -> float:
    """Return the nDCG@k of one page; 0 where the query's ideal DCG is 0 (online convention).

    Examples
    --------
    >>> ndcg_of_page(np.array([2, 0, 1], np.int8), 3, 10, 7.0)
    0.5
    """
    return dcg_of_page(labels, n, k) / ideal if ideal > 0.0 else 0.0


@kernel
def _dcg(labels: NDArray[Any], offsets: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    values = np.empty(len(offsets) - 1, np.float64)
    for query in range(len(values)):
        page = labels[offsets[query] : offsets[query + 1]]
        values[query] = dcg_of_page(page, len(page), k)
    return values


@kernel
def _ideal_dcg(grade_counts: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Add up in the order in which `dcg_of_page` does: a perfect ranking gets exactly 1."""
    n_queries, n_grades = grade_counts.shape
    values = np.zeros(n_queries, np.float64)
    for query in range(n_queries):
        position = 0
        for grade in range(n_grades - 1, 0, -1):
            for _ in range(min(grade_counts[query, grade], k - position)):
                values[query] += gain(grade) * discount(position)
                position += 1
    return values
