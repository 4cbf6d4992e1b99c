"""Cover rate: the share of the true top K that an approximate search returned.

CS-F-LTR, theorem 4: K' / K, where K' documents are in both lists. Term counts are often equal, so
the true top K is seldom unique: of the documents that tie for its last places any will do, but no
more of them than there are such places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.measure.mean import NothingRelevant, settle
from cloister.measure.ragged import checked_cutoff, checked_offsets
from cloister.measure.ranking import RankedRows, rank_rows

__all__ = ["cover_rate"]


def cover_rate(
    found: RankedRows,
    true_scores: ArrayLike,
    offsets: ArrayLike,
    *,
    k: int,
    above: float = -np.inf,
    nothing_relevant: NothingRelevant = "skip",
) -> NDArray[np.float64]:
    """Return the cover rate of each query.

    Parameters
    ----------
    found
        What was returned: rows of the flat arrays, best first, as `rank_rows` gives them for
        estimated scores. -1 stands for a document that is no candidate; a row that is repeated
        counts once; only the first k count.
    true_scores, offsets
        The exact score of every candidate (a term's count, say), query after query.
    k
        Size of the top list. A query with fewer candidates is measured on those it has.
    above
        Candidates belong to the true top only above this score: 0 for term counts.
    nothing_relevant
        What a query with no such candidate gets: NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> estimates, counts, offsets = [9, 7, 8, 1], [9, 8, 3, 1], [0, 4]
    >>> cover_rate(rank_rows(estimates, offsets, depth=2), counts, offsets, k=2)
    array([0.5])
    """
    k = checked_cutoff(k)
    true_scores = np.ascontiguousarray(true_scores, np.float64)
    offsets = checked_offsets(offsets, len(true_scores))
    _check_found(found, offsets)
    top = rank_rows(true_scores, offsets, depth=k)
    n_covered, n_true = _count_covered(
        found.rows, found.offsets, true_scores, true_scores[top.rows], top.offsets, k, above
    )
    return settle(n_covered / np.maximum(n_true, 1), n_true > 0, nothing_relevant)


def _check_found(found: RankedRows, offsets: NDArray[np.int64]) -> None:
    """Raise unless every found row belongs to its query."""
    if len(checked_offsets(found.offsets, len(found.rows))) != len(offsets):
        raise DataError(
            f"{len(found.offsets) - 1} lists for {len(offsets) - 1} queries", where="found"
        )
    queries = np.repeat(np.arange(len(offsets) - 1), np.diff(found.offsets))
    own = (found.rows >= offsets[queries]) & (found.rows < offsets[queries + 1])
    strange = np.flatnonzero(~own & (found.rows != -1))
    if len(strange):
        raise DataError(
            f"row {found.rows[strange[0]]} is not one of query {queries[strange[0]]}",
            where=f"found.rows[{strange[0]}]",
            remedy="give rows of the flat arrays, or -1 for what is no candidate",
        )


@kernel
def _count_covered(
    found_rows: NDArray[np.int64],
    found_offsets: NDArray[np.int64],
    true_scores: NDArray[np.float64],
    top_scores: NDArray[Any],
    top_offsets: NDArray[np.int64],
    k: int,
    above: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many of the true top were found, and how many there are."""
    n_queries = len(top_offsets) - 1
    n_covered = np.zeros(n_queries, np.int64)
    n_true = np.zeros(n_queries, np.int64)
    seen = np.zeros(len(true_scores), np.bool_)
    for query in range(n_queries):
        top = top_scores[top_offsets[query] : top_offsets[query + 1]]
        while n_true[query] < len(top) and top[n_true[query]] > above:
            n_true[query] += 1
        if n_true[query] == 0:
            continue
        last = top[n_true[query] - 1]
        n_places = 0  # of those that tie for the last places
        for score in top[: n_true[query]]:
            n_places += score == last
        begin = found_offsets[query]
        for i in range(begin, begin + min(found_offsets[query + 1] - begin, k)):
            row = found_rows[i]
            if row < 0 or seen[row]:
                continue
            seen[row] = True
            if true_scores[row] > last:
                n_covered[query] += 1
            elif true_scores[row] == last and n_places > 0:
                n_covered[query] += 1
                n_places -= 1
    return n_covered, n_true
