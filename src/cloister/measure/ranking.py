"""From scores to rankings: the rows of each query, best first.

The best ``depth`` rows of a query are kept in order while its scores are read once; only where
many rows are wanted are all of them sorted. Queries are spread over threads and write to places of
their own, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, get_args

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.counter_random import philox
from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel, parallel_kernel
from cloister.measure.ragged import checked_cutoff, checked_offsets

__all__ = ["RankedRows", "Ties", "rank_rows"]

Ties = Literal["input", "random"]

# Up to here selecting beat sorting for 40 to 10,000 documents in random order; where scores rise
# from row to row, its worst case, it took about as long as sorting a random order.
SELECT_AT_MOST: Final = 64
RUN: Final = 16  # rows that are sorted by insertion before merging
_32: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)


class RankedRows(NamedTuple):
    """Rows of the flat arrays in ranked order, and where each query's part begins."""

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]


def rank_rows(
    scores: ArrayLike,
    offsets: ArrayLike,
    *,
    depth: int | None = None,
    ties: Ties = "input",
    rng: np.random.Generator | None = None,
) -> RankedRows:
    """Rank the rows of every query by falling score.

    Parameters
    ----------
    scores
        One score a row; infinities are allowed, NaN is an error.
    offsets
        Where each query's rows begin, and the number of rows at the end.
    depth
        How many rows of a query to keep; all of them by default.
    ties
        What decides between equal scores: ``"input"`` keeps the order given, ``"random"`` draws
        an order from ``rng``, as papers on online learning to rank do.
    rng
        Source of one 64-bit seed for random ties; not used otherwise.

    Examples
    --------
    >>> rank_rows([0.1, 0.9, 0.5, 7.0], [0, 3, 4], depth=2)
    RankedRows(rows=array([1, 2, 3]), offsets=array([0, 2, 3]))
    """
    scores = _checked_scores(scores)
    offsets = checked_offsets(offsets, len(scores))
    seed, random = _tie_seed(ties, rng)
    lengths = np.diff(offsets)
    if depth is not None:
        lengths = np.minimum(lengths, checked_cutoff(depth, name="depth"))
    ranked_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    rows = np.empty(int(ranked_offsets[-1]), np.int64)
    nan_rows = np.empty(len(lengths), np.int64)
    _rank_queries(scores, offsets, ranked_offsets, seed, random, rows, nan_rows)
    if (nan_rows >= 0).any():
        query = int(np.argmax(nan_rows >= 0))
        raise DataError(
            "the score is not a number",
            where=f"scores[{nan_rows[query]}], query {query}",
            remedy="look for weights that have overflowed",
        )
    return RankedRows(rows, ranked_offsets)


def _checked_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Return one-dimensional scores of the one type that kernels are compiled for."""
    array: NDArray[Any] = np.asarray(scores)
    if array.ndim != 1:
        raise DataError(f"one score a row is needed, not the shape {array.shape}", where="scores")
    return np.require(array, np.float64, ["C", "W"])  # exact from float32: the order stays


def _tie_seed(ties: Ties, rng: np.random.Generator | None) -> tuple[np.uint64, bool]:
    """Return the seed of the tie keys, and whether ties are broken at random."""
    if ties not in get_args(Ties):
        raise SettingsError(f"unknown way {ties!r}", where="ties", remedy='use "input" or "random"')
    if ties == "input":
        return np.uint64(0), False
    if rng is None:
        raise SettingsError("random ties need a generator", where="rng", remedy="pass rng=...")
    return rng.integers(2**64, dtype=np.uint64), True


@parallel_kernel
def _rank_queries(
    scores: NDArray[np.float64],
    offsets: NDArray[np.int64],
    ranked_offsets: NDArray[np.int64],
    seed: np.uint64,
    random: bool,
    rows: NDArray[np.int64],
    nan_rows: NDArray[np.int64],
) -> None:
    """Fill ``rows``; note the first row with a NaN of each query, -1 where there is none."""
    for query in numba.prange(len(offsets) - 1):
        first, last = offsets[query], offsets[query + 1]
        ranked = rows[ranked_offsets[query] : ranked_offsets[query + 1]]
        if len(ranked) <= SELECT_AT_MOST:
            nan_rows[query] = _select_best(scores, first, last, seed, random, ranked)
        else:
            nan_rows[query] = _sort_all(scores, first, last, seed, random, ranked)


@kernel
def _select_best(
    scores: NDArray[np.float64],
    first: int,
    last: int,
    seed: np.uint64,
    random: bool,
    ranked: NDArray[np.int64],
) -> int:
    """Keep the best rows in order while reading; return a row with a NaN, or -1."""
    k = len(ranked)
    best = np.empty(k, np.float64)
    keys = np.zeros(k, np.uint64)
    n = 0
    for row in range(first, last):
        score = scores[row]
        if n == k and score < best[k - 1]:
            continue
        if np.isnan(score):
            return row
        key = _tie_key(seed, row) if random else np.uint64(0)
        place = n
        if n == k:
            place = k - 1
            if score == best[place] and key <= keys[place]:
                continue
        else:
            n += 1
        while place > 0 and (
            score > best[place - 1] or (score == best[place - 1] and key > keys[place - 1])
        ):
            best[place] = best[place - 1]
            keys[place] = keys[place - 1]
            ranked[place] = ranked[place - 1]
            place -= 1
        best[place] = score
        keys[place] = key
        ranked[place] = row
    return -1


@kernel
def _sort_all(
    scores: NDArray[np.float64],
    first: int,
    last: int,
    seed: np.uint64,
    random: bool,
    ranked: NDArray[np.int64],
) -> int:
    """Merge-sort a query's rows, equal ones in the order given, and keep the best.

    Return a row with a NaN, or -1. Numba's own ``argsort`` knows no second key, and takes many
    times longer to compile.
    """
    own = scores[first:last]
    keys = np.zeros(len(own), np.uint64)
    for i in range(len(own)):
        if np.isnan(own[i]):
            return first + i
        if random:
            keys[i] = _tie_key(seed, first + i)
    order = np.arange(len(own))
    spare = np.empty_like(order)
    _sort_runs(own, keys, order)
    width = RUN
    while width < len(own):
        for begin in range(0, len(own), 2 * width):
            middle = min(begin + width, len(own))
            _merge(own, keys, order, spare, begin, middle, min(middle + width, len(own)))
        order, spare = spare, order
        width *= 2
    for place in range(len(ranked)):
        ranked[place] = first + order[place]
    return -1


@kernel
def _sort_runs(
    scores: NDArray[np.float64], keys: NDArray[np.uint64], order: NDArray[np.int64]
) -> None:
    """Sort each `RUN` of rows by insertion."""
    for begin in range(0, len(order), RUN):
        for i in range(begin + 1, min(begin + RUN, len(order))):
            row = order[i]
            place = i
            while place > begin and _before(scores, keys, row, order[place - 1]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = row


@kernel
def _merge(
    scores: NDArray[np.float64],
    keys: NDArray[np.uint64],
    order: NDArray[np.int64],
    merged: NDArray[np.int64],
    begin: int,
    middle: int,
    end: int,
) -> None:
    """Merge two sorted parts; the left one goes first where they are equal."""
    left, right = begin, middle
    for place in range(begin, end):
        if left == middle or (right < end and _before(scores, keys, order[right], order[left])):
            merged[place] = order[right]
            right += 1
        else:
            merged[place] = order[left]
            left += 1


@kernel
def _before(scores: NDArray[np.float64], keys: NDArray[np.uint64], a: int, b: int) -> bool:
    """Say whether row a ranks strictly before row b."""
    return bool(scores[a] > scores[b] or (scores[a] == scores[b] and keys[a] > keys[b]))


@kernel
def _tie_key(seed: np.uint64, row: int) -> Any:
    """Return 64 random bits for a row: a pure function of the seed and the row."""
    place = np.uint64(row)
    a, b, _, _ = philox(
        np.uint32(place & _LOW),
        np.uint32(place >> _32),
        np.uint32(0),
        np.uint32(0),
        np.uint32(seed & _LOW),
        np.uint32(seed >> _32),
    )
    return (np.uint64(a) << _32) | np.uint64(b)
