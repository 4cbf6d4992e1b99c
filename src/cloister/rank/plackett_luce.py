"""The Plackett-Luce model: pages drawn from scores, and how likely a page is.

The next document is drawn with a chance that grows as the exponential of its score, from those
not yet drawn (thesis eq. 3.7 and 3.8). Adding independent Gumbel noise to every score and sorting
draws exactly so, without a loop over ranks.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import fill_uniform
from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import inline_kernel, kernel, summing_kernel
from cloister.core.single_precision import exp32, log32

__all__ = [
    "add_gumbel",
    "draw_page",
    "mass_of_rest",
    "sample_page",
    "top_places",
]

Floats = NDArray[np.float32]

_LANES: Final = 16
_31: Final = np.int32(31)
_32: Final = np.int64(32)
_ALL_BUT_SIGN: Final = np.int32(0x7FFFFFFF)
_LOW_HALF: Final = np.int64(0xFFFFFFFF)
_NOTHING: Final = np.int64(-(2**63))
_ALL: Final = np.int64(2**63 - 1)


@inline_kernel
def _rounded_up(n: int) -> int:
    """Return the next multiple of the numbers in a vector register."""
    return (n + _LANES - 1) // _LANES * _LANES


@kernel
def add_gumbel(scores: Floats, n: int, stream: NDArray[np.uint32], keys: Floats) -> None:
    """Write ``n`` scores with Gumbel noise added to ``keys``; one number is drawn for each.

    Where both arrays have room, what lies behind is overwritten too: whole vector registers are
    faster than a loop over what is left.
    """
    fill_uniform(stream, keys[:n])
    for i in range(min(_rounded_up(n), len(keys), len(scores))):
        keys[i] = scores[i] - log32(-log32(keys[i]))


@kernel
def top_places(keys: Floats, n: int, page: NDArray[np.int64], order: NDArray[np.int64]) -> int:
    """Write the places of the highest keys to ``page``, highest first; return how many there are.

    Of equal keys the first comes first. A key that is not a number is never taken. ``order`` is
    room for one whole number a key.

    Key and place are packed into one whole number that sorts as they do: the highest below the one
    found last is a maximum over a vector, with no branch to mispredict.
    """
    for i in range(n):
        key = np.float32(keys[i] + np.float32(0.0))  # -0 becomes 0
        bits = key.view(np.int32)
        sortable = np.int32(bits ^ np.int32(np.int32(bits >> _31) & _ALL_BUT_SIGN))
        packed = (np.int64(sortable) << _32) | (_LOW_HALF - np.int64(i))
        order[i] = packed if key == key else _NOTHING
    end = min(_rounded_up(n), len(order))
    for i in range(n, end):
        order[i] = _NOTHING
    above = _ALL
    for p in range(len(page)):
        highest = _NOTHING
        for i in range(end):
            highest = max(highest, order[i] if order[i] < above else _NOTHING)
        if highest == _NOTHING:
            return p
        page[p] = _LOW_HALF - (highest & _LOW_HALF)
        above = highest
    return len(page)


@kernel
def sample_page(
    scores: Floats,
    n: int,
    stream: NDArray[np.uint32],
    keys: Floats,
    page: NDArray[np.int64],
    order: NDArray[np.int64],
) -> int:
    """Draw a page inside a kernel: thesis eq. 3.8; return how many documents it shows.

    ``keys`` and ``order`` are room for one number a candidate.
    """
    add_gumbel(scores, n, stream, keys)
    return top_places(keys, n, page, order)


@summing_kernel
def mass_of_rest(
    scores: Floats, n: int, page: NDArray[np.int64], room: Floats
) -> tuple[float, float]:
    """Return the mass of the candidates that are not on the page, as two numbers.

    They are the highest of their scores and the sum of exp(score - highest): the mass is the sum
    times exp(highest). Without such candidates they are minus infinity and 0.
    """
    for i in range(n):
        room[i] = scores[i]
    for place in page:
        room[place] = -np.inf
    end = min(_rounded_up(n), len(room))
    for i in range(n, end):
        room[i] = -np.inf
    highest = np.float32(-np.inf)
    for i in range(end):
        highest = max(highest, room[i])
    if highest == np.float32(-np.inf):
        return -np.inf, 0.0
    total = np.float32(0.0)
    for i in range(end):
        total += exp32(room[i] - highest)
    return float(highest), float(total)


def draw_page(scores: NDArray[Any], k: int, *, stream: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Draw a page of up to ``k`` documents for a user; return their places, best rank first.

    Parameters
    ----------
    scores
        One a candidate.
    k
        Length of a page.
    stream
        Where the randomness comes from: :func:`cloister.core.counter_random.new_stream`.

    Examples
    --------
    >>> from cloister.core.counter_random import new_stream
    >>> draw_page(np.array([0.0, 50.0, 100.0]), 2, stream=new_stream(1)).tolist()
    [2, 1]
    """
    array = np.ascontiguousarray(scores, np.float32)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise DataError("one finite score for each candidate", where="scores")
    if k < 1:
        raise SettingsError(f"a page shows at least 1 document (given: {k})", where="k")
    page = np.empty(min(k, len(array)), np.int64)
    sample_page(
        array, len(array), stream, np.empty_like(array), page, np.empty(len(array), np.int64)
    )
    return page
