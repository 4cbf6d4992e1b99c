"""A counter-based random generator for kernels: Philox4x32-10.

The n-th block of random words is a pure function of ``(seed, round, client, purpose, n)``. Nothing
is stored for a client and nothing is drawn in order, so the result does not depend on the number
of threads, and a million clients cost nothing to seed.

Two different tuples never share a block: the seed is Philox's key, and the other four are laid
side by side in its 128-bit counter (n 32 bits, client 32, round 32, purpose 32).

The generator is that of Salmon et al., *Parallel random numbers: as easy as 1, 2, 3* (2011). It is
for simulation only: it is not cryptographic, and noise that protects anyone must not come from it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import inline_kernel, kernel
from cloister.core.random import whole_number

__all__ = [
    "checked_stream",
    "draw_below",
    "fill_uniform",
    "new_stream",
    "next_uniform",
    "next_word",
    "philox",
    "start_stream",
]

_M0: Final = np.uint64(0xD2511F53)  # multipliers and Weyl constants of Philox4x32
_M1: Final = np.uint64(0xCD9E8D57)
_W0: Final = np.uint32(0x9E3779B9)
_W1: Final = np.uint32(0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)
_9: Final = np.uint32(9)
_UNIT: Final = np.float32(2.0**-23)
_HALF: Final = np.float32(0.5)

# Layout of a stream: key (2 words), counter (4), the last block (4), words already used of it (1).
STREAM_WORDS: Final = 11
_N: Final = 2
_BLOCK: Final = 6
_USED: Final = 10

Word = Any  # numpy.uint32, inside kernels


@inline_kernel
def philox(
    c0: Word, c1: Word, c2: Word, c3: Word, k0: Word, k1: Word
) -> tuple[Word, Word, Word, Word]:
    """Return the four words of one block: ten rounds of Philox4x32."""
    for _ in range(10):
        p0 = np.uint64(c0) * _M0
        p1 = np.uint64(c2) * _M1
        c0 = np.uint32(np.uint32(p1 >> _32) ^ c1 ^ k0)
        c2 = np.uint32(np.uint32(p0 >> _32) ^ c3 ^ k1)
        c1 = np.uint32(p1 & _LOW)
        c3 = np.uint32(p0 & _LOW)
        k0 = np.uint32(k0 + _W0)
        k1 = np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@kernel
def start_stream(
    state: NDArray[np.uint32], seed: int | np.uint64, round: int, client: int, purpose: int
) -> None:
    """Set ``state`` to the beginning of one stream."""
    state[0] = np.uint32(np.uint64(seed) & _LOW)
    state[1] = np.uint32(np.uint64(seed) >> _32)
    state[_N] = np.uint32(0)
    state[_N + 1] = np.uint32(client)
    state[_N + 2] = np.uint32(round)
    state[_N + 3] = np.uint32(purpose)
    state[_USED] = np.uint32(4)  # no block drawn yet


def new_stream(seed: int, *, round: int = 0, client: int = 0, purpose: int = 0) -> NDArray[Any]:
    """Return a stream for use in kernels.

    Examples
    --------
    >>> stream = new_stream(7, round=2, client=5)
    >>> float(next_uniform(stream)) == float(next_uniform(new_stream(7, round=2, client=5)))
    True
    """
    numbers = checked_stream(seed, round=round, client=client, purpose=purpose)
    state = np.zeros(STREAM_WORDS, np.uint32)
    start_stream(state, *numbers)
    return state


def checked_stream(
    seed: int, *, round: int = 0, client: int = 0, purpose: int = 0
) -> tuple[np.uint64, int, int, int]:
    """Return the four numbers of a stream as `start_stream` takes them, else raise.

    Kernels check nothing, and numbers that do not fit would wrap to another stream: whoever hands
    a seed or a round to a kernel checks them here first.

    Examples
    --------
    >>> checked_stream(7, round=2)
    (np.uint64(7), 2, 0, 0)
    >>> checked_stream(7, round=2**32)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: round: must be 0 to 2^32 - 1 (given: 4294967296); ...
    """
    return (
        np.uint64(_fitting(seed, 64, "seed")),
        _fitting(round, 32, "round"),
        _fitting(client, 32, "client"),
        _fitting(purpose, 32, "purpose"),
    )


def _fitting(value: int, bits: int, name: str) -> int:
    number = whole_number(value, where=name)
    if not 0 <= number < 2**bits:
        raise SettingsError(f"must be 0 to 2^{bits} - 1 (given: {number})", where=name)
    return number


@kernel
def next_word(state: NDArray[np.uint32]) -> Word:
    """Return the next 32 random bits of a stream."""
    used = state[_USED]
    if used == 4:
        words = philox(state[2], state[3], state[4], state[5], state[0], state[1])
        state[_BLOCK], state[_BLOCK + 1], state[_BLOCK + 2], state[_BLOCK + 3] = words
        state[_N] += np.uint32(1)
        used = np.uint32(0)
    state[_USED] = used + np.uint32(1)
    return state[_BLOCK + used]


@kernel
def draw_below(state: NDArray[np.uint32], n: int) -> Any:
    """Draw a whole number from 0 to n - 1; the bias is below n / 2^32.

    Examples
    --------
    >>> 0 <= draw_below(new_stream(7), 10) < 10
    True
    """
    return np.int64((np.uint64(next_word(state)) * np.uint64(n)) >> _32)


@inline_kernel
def _unit_interval(word: Word) -> Any:
    """Map a word to the middle of one of 2^23 equal parts of (0, 1): neither end is possible.

    With 24 bits the middle of the last part would be rounded up to 1 in single precision.
    """
    return (np.float32(word >> _9) + _HALF) * _UNIT


@kernel
def next_uniform(state: NDArray[np.uint32]) -> Any:
    """Return the next number of a stream, strictly between 0 and 1 (23 bits)."""
    return _unit_interval(next_word(state))


@kernel
def fill_uniform(state: NDArray[np.uint32], out: NDArray[np.float32]) -> None:
    """Fill an array with the next numbers of a stream, from whole blocks.

    What is left of a block begun by ``next_word`` is passed over, and so is what this leaves of
    its last block.
    """
    n = len(out)
    k0, k1, c0, c1, c2, c3 = state[0], state[1], state[2], state[3], state[4], state[5]
    for block in range(n // 4):
        a, b, c, d = philox(np.uint32(c0 + np.uint32(block)), c1, c2, c3, k0, k1)
        out[4 * block] = _unit_interval(a)
        out[4 * block + 1] = _unit_interval(b)
        out[4 * block + 2] = _unit_interval(c)
        out[4 * block + 3] = _unit_interval(d)
    if n % 4:
        words = philox(np.uint32(c0 + np.uint32(n // 4)), c1, c2, c3, k0, k1)
        for i in range(n % 4):
            out[n - n % 4 + i] = _unit_interval(words[i])
    state[_N] += np.uint32((n + 3) // 4)
    state[_USED] = np.uint32(4)
