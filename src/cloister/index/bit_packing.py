"""Numbers of few bits, side by side in 64-bit words; inside kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel

__all__ = ["bits_for", "read_bits", "write_bits"]

Words = NDArray[np.uint64]


@kernel
def bits_for(value: int) -> int:
    """Return how many bits a number from 0 on needs; 0 needs none.

    Examples
    --------
    >>> [bits_for(value) for value in (0, 1, 2, 255, 256)]
    [0, 1, 2, 8, 9]
    """
    bits = 0
    while value > 0:
        value >>= 1
        bits += 1
    return bits


@inline_kernel
def read_bits(words: Words, position: Any, mask: Any) -> Any:
    """Return the number at a position, which is counted in bits.

    The word after the last one that was written must be there: it is read, though not used.

    Parameters
    ----------
    mask
        As many ones, from the lowest bit, as the number has bits.

    Examples
    --------
    >>> words = np.zeros(3, np.uint64)
    >>> write_bits(words, 60, 10, 699)
    >>> int(read_bits(words, np.uint64(60), np.uint64(1023)))
    699
    """
    word, shift = position >> np.uint64(6), position & np.uint64(63)
    # A shift by 64 is undefined, so what comes from the next word is shifted in two steps.
    low = words[word] >> shift
    high = (words[word + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - shift)
    return (low | high) & mask


@kernel
def write_bits(words: Words, position: int, bits: int, value: int) -> None:
    """Write a number of up to 32 bits at a position where all bits are still 0."""
    word, shift = position >> 6, np.uint64(position & 63)
    words[word] |= np.uint64(value) << shift
    if (position & 63) + bits > 64:
        words[word + 1] |= np.uint64(value) >> (np.uint64(64) - shift)
