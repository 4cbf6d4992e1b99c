"""Reciprocal rank: MRR over relevant documents, MaxRR over clicked ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ragged import checked_offsets
from cloister.measure.ranked import NO_CUTOFF, RankedLabels

__all__ = ["max_rr", "reciprocal_rank", "reciprocal_rank_of_page"]


def reciprocal_rank(
    ranked: RankedLabels,
    *,
    k: int | None = None,
    relevant_grade: int = 1,
    nothing_relevant: NothingRelevant = "skip",
) -> NDArray[np.float64]:
    """Return 1 / rank of each query's first relevant document, 0 where the top k hold none.

    Parameters
    ----------
    ranked
        Labels in ranked order.
    k
        The cut-off; None looks at the whole ranking.
    relevant_grade
        The lowest grade that counts as relevant.
    nothing_relevant
        What a query without a relevant document gets: NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> from cloister.measure.ranked import rank_labels
    >>> reciprocal_rank(rank_labels([0.1, 0.9, 0.5], [2, 0, 1], [0, 3]))
    array([0.5])
    """
    n_relevant = ranked.n_relevant(relevant_grade)
    values = _first_rank(ranked.labels, ranked.offsets, relevant_grade, ranked.cutoff(k))
    return settle(values, n_relevant > 0, nothing_relevant)


def max_rr(clicks: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
    """Return 1 / rank of the highest click on each page, 0 for a page without a click.

    It is the reward of federated evolution strategies: with ten results a page it takes the
    values 0, 1/10, 1/9, ..., 1 (thesis, section 3.1).

    Parameters
    ----------
    clicks
        1 or True where a shown result was clicked, page after page, best-ranked first.
    offsets
        Where each page begins, and the number of shown results at the end.

    Examples
    --------
    >>> max_rr([0, 1, 1, 0, 0], [0, 3, 5])
    array([0.5, 0. ])
    """
    clicked = np.asarray(clicks) != 0
    if clicked.ndim != 1:
        raise DataError(
            f"one click a shown result is needed, not the shape {clicked.shape}",
            where="clicks",
            remedy="give the pages one after another: clicks.ravel(), and their offsets",
        )
    clicked = np.ascontiguousarray(clicked)
    return _first_rank(clicked, checked_offsets(offsets, len(clicked)), 1, NO_CUTOFF)


@kernel
def reciprocal_rank_of_page(labels: NDArray[Any], n: int, relevant_grade: int) -> float:
    """Return 1 / rank of the first of ``n`` labels (or clicks) that reaches a grade, else 0.

    Examples
    --------
    >>> reciprocal_rank_of_page(np.array([0, 0, 1, 1]), 4, 1) == 1 / 3
    True
    """
    for position in range(n):
        if labels[position] >= relevant_grade:
            return 1.0 / (position + 1)
    return 0.0


@kernel
def _first_rank(
    labels: NDArray[Any], offsets: NDArray[np.int64], relevant_grade: int, k: int
) -> NDArray[np.float64]:
    values = np.empty(len(offsets) - 1, np.float64)
    for query in range(len(values)):
        page = labels[offsets[query] : offsets[query + 1]]
        values[query] = reciprocal_rank_of_page(page, min(len(page), k), relevant_grade)
    return values
