"""Precision at k: the share of relevant documents among the first k."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ranked import RankedLabels

__all__ = ["precision"]


def precision(
    ranked: RankedLabels,
    *,
    k: int,
    relevant_grade: int = 1,
    nothing_relevant: NothingRelevant = "skip",
) -> NDArray[np.float64]:
    """Return P@k of each query; a ranking shorter than k is still divided by k, as in trec_eval.

    Parameters
    ----------
    ranked
        Labels in ranked order.
    k
        The cut-off.
    relevant_grade
        The lowest grade that counts as relevant.
    nothing_relevant
        What a query without a relevant document gets: NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> from cloister.measure.ranked import rank_labels
    >>> precision(rank_labels([3, 2, 1], [1, 0, 2], [0, 3]), k=5)
    array([0.4])
    """
    n_relevant = ranked.n_relevant(relevant_grade)
    found = _n_found(ranked.labels, ranked.offsets, relevant_grade, ranked.cutoff(k))
    return settle(found / k, n_relevant > 0, nothing_relevant)


@kernel
def _n_found(
    labels: NDArray[Any], offsets: NDArray[np.int64], relevant_grade: int, k: int
) -> NDArray[np.int64]:
    """Count the relevant documents within the cut-off."""
    found = np.zeros(len(offsets) - 1, np.int64)
    for query in range(len(found)):
        first = offsets[query]
        for row in range(first, first + min(offsets[query + 1] - first, k)):
            found[query] += labels[row] >= relevant_grade
    return found
