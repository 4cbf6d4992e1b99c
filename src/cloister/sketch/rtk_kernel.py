"""Kernels of the reverse top-K query: gather candidates, estimate their counts, keep the best k."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel
from cloister.index.best_k import is_worse, keep_best, sort_best
from cloister.sketch.medians import BLOCK, insert_lane
from cloister.sketch.rtk_lists import RtkLists

__all__ = [
    "MEAN",
    "MEDIAN",
    "Scratch",
    "estimate_given",
    "left_out_means",
    "reverse_top",
    "reverse_top_terms",
    "robust_centre",
    "tie_break",
]

Floats = NDArray[np.float64]


class Scratch(NamedTuple):
    """Memory that a query works in: zeros for every document before and after."""

    n_lists: NDArray[np.uint16]  # [n_documents] in how many lists a document is
    slots: NDArray[np.int32]  # [n_documents] 1 more than a candidate's place, 0 for others
    candidates: NDArray[np.int32]  # the candidates' numbers; room for all that lists can hold
    rows: Floats  # their rows, a column each; then a line for the estimate, one for the score


MEDIAN: Final = 0  # the median of the rows; of equal medians the larger clipped mean is better
MEAN: Final = 1  # Huber's mean of the rows, from the median in three steps
N_STEPS: Final = 3  # a Huber mean of few rows has settled by then
CENTRE: Final = -2  # lines of `Scratch.rows`
SCORE: Final = -1
TIE_SHARE: Final = 1e-3  # how far the clipped mean may move a median: less than medians differ


@kernel
def reverse_top_terms(
    lists: RtkLists,
    shown: int,
    columns: NDArray[np.uint32],
    signs: NDArray[np.int8],
    n_columns: int,
    n_rows: int,
    imputed: Floats,
    least_rows: int,
    estimator: int,
    cut: float,
    scratch: Scratch,
    found: NDArray[np.int32],
    counts: Floats,
) -> None:
    """Do `reverse_top` for each term; ``imputed`` is that of every cell and side."""
    cells, sides = np.empty(n_rows, np.int64), np.empty(n_rows, np.int8)
    own = np.empty(n_rows)
    for term in range(len(columns)):
        for row in range(n_rows):
            cells[row] = row * n_columns + columns[term, row]
            sides[row] = signs[term, row] < 0
            own[row] = imputed[cells[row], sides[row]]
        reverse_top(
            lists, shown, cells, sides, own, least_rows, estimator, cut, scratch,
            found[term], counts[term],
        )  # fmt: skip


@kernel
def reverse_top(
    lists: RtkLists,
    shown: int,
    cells: NDArray[np.int64],
    sides: NDArray[np.int8],
    imputed: Floats,
    least_rows: int,
    estimator: int,
    cut: float,
    scratch: Scratch,
    found: NDArray[np.int32],
    counts: Floats,
) -> int:
    """Write the best documents of one term, best first; return how many there are.

    ``found`` and ``counts`` have k places; those that stay empty get -1 and 0. A document that
    fewer than half of the lists have cannot have a median above what missing rows are imputed
    with: where k others are above that, it is not even looked at. With one row or two, one list
    is half.
    """
    half = (len(cells) + 1) // 2 if estimator == MEDIAN else 0
    least = max(least_rows, 2)
    _count_lists(lists, shown, cells, sides, scratch, 1)
    n = _gather(lists, shown, cells, sides, imputed, max(least, half), scratch)
    n_found = _score(n, len(cells), estimator, cut, scratch, found, counts)
    settled = half > 1 and n_found == len(found) and counts[0] > imputed.max() + TIE_SHARE
    if not settled and half > least:
        _forget(n, scratch)
        n = _gather(lists, shown, cells, sides, imputed, least, scratch)
        n_found = _score(n, len(cells), estimator, cut, scratch, found, counts)
    if not settled and least_rows <= 1:
        n, n_found = _add_single(
            lists, shown, cells, sides, imputed, estimator, cut, scratch, n, found, counts, n_found
        )
    sort_best(found, counts, n_found)
    for i in range(n_found):
        counts[i] = scratch.rows[CENTRE, scratch.slots[found[i]] - 1]
    found[n_found:] = -1
    counts[n_found:] = 0.0
    _forget(n, scratch)
    _count_lists(lists, shown, cells, sides, scratch, 0)
    return n_found


@kernel
def _count_lists(
    lists: RtkLists,
    shown: int,
    cells: NDArray[np.int64],
    sides: NDArray[np.int8],
    scratch: Scratch,
    step: int,
) -> None:
    """Count in how many lists each document is; a step of 0 takes all counts back to 0."""
    n_lists = scratch.n_lists
    for row in range(len(cells)):
        cell, side = cells[row], sides[row]
        listed = lists.ids[cell, side, : min(lists.sizes[cell, side], shown)]
        if step:
            for document in listed:
                n_lists[np.uint32(document)] += 1
        else:
            for document in listed:
                n_lists[np.uint32(document)] = 0


@kernel
def _gather(
    lists: RtkLists,
    shown: int,
    cells: NDArray[np.int64],
    sides: NDArray[np.int8],
    imputed: Floats,
    least: int,
    scratch: Scratch,
) -> int:
    """Make candidates of documents that at least so many lists have; return how many they are."""
    n_lists, slots, rows = scratch.n_lists, scratch.slots, scratch.rows
    n = 0
    for row in range(len(cells)):
        cell, side = cells[row], sides[row]
        for i in range(min(lists.sizes[cell, side], shown)):
            document = np.uint32(lists.ids[cell, side, i])
            if n_lists[document] < least:
                continue
            slot = slots[document]
            if slot == 0:
                n = _admit(document, n, imputed, scratch)
                slot = n
            rows[row, slot - 1] = lists.values[cell, side, i]
    return n


@kernel
def _admit(document: Any, n: int, imputed: Floats, scratch: Scratch) -> int:
    """Make a document a candidate, in whose rows nothing is known yet."""
    scratch.slots[document] = n + 1
    scratch.candidates[n] = document
    for row in range(len(imputed)):
        scratch.rows[row, n] = imputed[row]
    return n + 1


@kernel
def _forget(n: int, scratch: Scratch) -> None:
    for i in range(n):
        scratch.slots[scratch.candidates[i]] = 0


@kernel
def _score(
    n: int,
    n_rows: int,
    estimator: int,
    cut: float,
    scratch: Scratch,
    found: NDArray[np.int32],
    counts: Floats,
) -> int:
    """Estimate the candidates' counts and keep the best; return how many were kept."""
    _estimate(n, n_rows, estimator, cut, scratch.rows)
    scores = scratch.rows[SCORE]
    n_found = 0
    for i in range(n):
        if n_found == len(found) and scores[i] < counts[0]:
            continue
        n_found = keep_best(found, counts, n_found, scratch.candidates[i], scores[i])
    return n_found


@kernel
def _estimate(n: int, n_rows: int, estimator: int, cut: float, rows: Floats) -> None:
    """Write `robust_centre` of each candidate and its score, a block of candidates at a time."""
    lanes, sums = np.empty((n_rows, BLOCK)), np.empty(BLOCK)
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        for row in range(n_rows):
            lanes[row, :size] = rows[row, begin : begin + size]
            insert_lane(lanes, row, size)
        centre = rows[CENTRE, begin : begin + size]
        score = rows[SCORE, begin : begin + size]
        upper, lower = lanes[n_rows // 2, :size], lanes[(n_rows - 1) // 2, :size]
        for i in range(len(centre)):
            centre[i] = 0.5 * (upper[i] + lower[i])
        if estimator == MEAN:
            for _ in range(N_STEPS):
                _clipped_sums(rows, begin, n_rows, centre, cut, sums)
                for i in range(size):
                    centre[i] += sums[i] / n_rows
            score[:] = centre
        else:
            _clipped_sums(rows, begin, n_rows, centre, cut, sums)
            for i in range(size):
                score[i] = centre[i] + TIE_SHARE * (sums[i] / n_rows) / cut


@kernel
def _clipped_sums(
    rows: Floats, begin: int, n_rows: int, centre: Floats, cut: float, sums: Floats
) -> None:
    """Sum each candidate's rows, less the centre and clipped; in their order, as one would."""
    sums[:] = 0.0
    for row in range(n_rows):
        values = rows[row, begin : begin + len(centre)]
        for i in range(len(centre)):
            apart = values[i] - centre[i]
            apart = -cut if apart < -cut else apart
            sums[i] += cut if apart > cut else apart


@kernel
def _add_single(
    lists: RtkLists,
    shown: int,
    cells: NDArray[np.int64],
    sides: NDArray[np.int8],
    imputed: Floats,
    estimator: int,
    cut: float,
    scratch: Scratch,
    n: int,
    found: NDArray[np.int32],
    counts: Floats,
    n_found: int,
) -> tuple[int, int]:
    """Go through the documents that only one list has.

    They are most of all, but equal values in one list have equal scores, and values fall: a list
    is left where its scores fall below the worst of k.
    """
    ordered, alone = np.empty(len(cells)), np.empty(len(cells))
    for row in range(len(cells)):
        cell, side = cells[row], sides[row]
        values = lists.values[cell, side]
        centre = score = 0.0
        scored = False
        for i in range(min(lists.sizes[cell, side], shown)):
            if not scored or values[i] != values[i - 1]:
                alone[:] = imputed
                alone[row] = values[i]
                centre = score = robust_centre(alone, ordered, estimator, cut)
                if estimator == MEDIAN:
                    score += tie_break(alone, centre, cut)
                scored = True
                if n_found == len(found) and score < counts[0]:
                    break
            document = lists.ids[cell, side, i]
            if scratch.n_lists[document] != 1:
                continue
            if n_found < len(found) or is_worse(found[0], counts[0], document, score):
                n = _admit(document, n, imputed, scratch)
                scratch.rows[CENTRE, n - 1] = centre
                n_found = keep_best(found, counts, n_found, document, score)
    return n, n_found


@kernel
def robust_centre(row: Floats, ordered: Floats, estimator: int, cut: float) -> float:
    """Return the estimate from all rows: their median, or Huber's mean; ``ordered`` is scratch."""
    n = len(row)
    for i in range(n):  # insertion without branches: the larger of two is carried on
        value = row[i]
        for place in range(i):
            smaller = min(ordered[place], value)
            value = max(ordered[place], value)
            ordered[place] = smaller
        ordered[i] = value
    centre: float = 0.5 * (ordered[n // 2] + ordered[(n - 1) // 2])
    if estimator == MEAN:
        for _ in range(N_STEPS):
            centre += _clipped_mean(row, centre, cut)
    return centre


@kernel
def tie_break(row: Floats, centre: float, cut: float) -> float:
    """Return what a median's score is moved by, so that equal medians get an order."""
    return TIE_SHARE * _clipped_mean(row, centre, cut) / cut


@kernel
def _clipped_mean(row: Floats, centre: float, cut: float) -> float:
    total = 0.0
    for value in row:
        total += min(max(value - centre, -cut), cut)
    return total / len(row)


@parallel_kernel
def left_out_means(
    values: NDArray[np.int16], sizes: NDArray[np.int32], shown: int, n_documents: int
) -> Floats:
    """Return, for each list, the mean value of the documents that it does not show.

    Random signs make a cell's sum over documents about zero, exact or with noise, so what is not
    shown sums to minus what is.
    """
    means = np.zeros(sizes.shape)
    for cell in numba.prange(len(sizes)):
        for side in range(2):
            n_shown = min(sizes[cell, side], shown)
            total = 0.0
            for i in range(n_shown):
                total += values[cell, side, i]
            if n_documents > n_shown:
                means[cell, side] = -total / (n_documents - n_shown)
    return means


@kernel
def estimate_given(
    lists: RtkLists,
    shown: int,
    cells: NDArray[np.int64],
    sides: NDArray[np.int8],
    imputed: Floats,
    estimator: int,
    cut: float,
    slots: NDArray[np.int32],
    documents: NDArray[np.int64],
    out: Floats,
) -> None:
    """Write the estimates of one term for given documents, which may repeat.

    ``slots`` has an entry for every document, all 0 before and after.
    """
    ids, values, sizes, _ = lists
    rows = np.empty((len(documents), len(cells)))
    for i in range(len(documents)):
        slots[documents[i]] = i + 1  # where one repeats, the last counts for all
        for row in range(len(cells)):
            rows[i, row] = imputed[row]
    for row in range(len(cells)):
        cell, side = cells[row], sides[row]
        for i in range(min(sizes[cell, side], shown)):
            slot = slots[ids[cell, side, i]] - 1
            if slot >= 0:
                rows[slot, row] = values[cell, side, i]
    ordered = np.empty(len(cells))
    for i in range(len(documents)):
        out[i] = robust_centre(rows[slots[documents[i]] - 1], ordered, estimator, cut)
    for document in documents:
        slots[document] = 0
