"""Average precision; its mean over queries is MAP."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ranked import RankedLabels

__all__ = ["average_precision"]


def average_precision(
    ranked: RankedLabels,
    *,
    k: int | None = None,
    relevant_grade: int = 1,
    nothing_relevant: NothingRelevant = "skip",
) -> NDArray[np.float64]:
    """Return each query's sum of precisions at its relevant documents over their number.

    The number is that of all relevant documents, also of those below the cut-off or not ranked
    at all (``map`` and ``map_cut`` of trec_eval).

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
    >>> average_precision(rank_labels([3, 2, 1, 0], [1, 0, 0, 2], [0, 4]))  # (1/1 + 2/4) / 2
    array([0.75])
    """
    n_relevant = ranked.n_relevant(relevant_grade)
    sums = _precisions(ranked.labels, ranked.offsets, relevant_grade, ranked.cutoff(k))
    return settle(sums / np.maximum(n_relevant, 1), n_relevant > 0, nothing_relevant)


@kernel
def _precisions(
    labels: NDArray[Any], offsets: NDArray[np.int64], relevant_grade: int, k: int
) -> NDArray[np.float64]:
    """Add up the precision at each relevant document within the cut-off."""
    sums = np.zeros(len(offsets) - 1, np.float64)
    for query in range(len(sums)):
        first = offsets[query]
        n_found = 0
        for position in range(min(offsets[query + 1] - first, k)):
            if labels[first + position] >= relevant_grade:
                n_found += 1
                sums[query] += n_found / (position + 1)
    return sums
