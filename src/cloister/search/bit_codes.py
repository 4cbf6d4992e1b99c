"""Numbers of any size in few bits: Rice's code and Elias' gamma code, inside kernels.

A number in Rice's code with parameter r is its upper part in unary (as many zeros, then a one) and
its r lower bits. One from 1 on in Elias' gamma code is the number of bits after its first in unary,
and these bits. Numbers have up to 32 bits.

What is read may be hostile. Whatever reads stops at the given end and never looks beyond the words
of `padded_words`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cloister.core.kernel import inline_kernel, kernel
from cloister.index.bit_packing import Words, bits_for, read_bits, write_bits

__all__ = [
    "MAX_VALUE",
    "gamma_bits",
    "padded_words",
    "read_gamma",
    "read_number",
    "read_rice",
    "rice_bits",
    "rice_parameter",
    "write_gamma",
    "write_rice",
]

MAX_VALUE: Final = 2**32 - 1
_MAX_ZEROS: Final = 31  # of a gamma code
_SPARE_WORDS: Final = 3  # a code that begins before the end reaches into two further words


def padded_words(content: bytes) -> Words:
    """Return bytes as words, with what reading needs behind them.

    Examples
    --------
    >>> padded_words(bytes([1]))
    array([1, 0, 0, 0], dtype=uint64)
    """
    words = np.zeros(-(-len(content) // 8) + _SPARE_WORDS, "<u8")
    words.view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)
    return words.astype(np.uint64)


@kernel
def rice_parameter(total: int, n: int) -> int:
    """Return a good parameter for n numbers of which the total is known.

    Examples
    --------
    >>> [rice_parameter(1000, n) for n in (1, 20, 1000)]
    [9, 5, 0]
    """
    return max(bits_for(total // max(n, 1)) - 1, 0)


@kernel
def rice_bits(value: int, parameter: int) -> int:
    """Return the bits of a number in Rice's code.

    Examples
    --------
    >>> [rice_bits(value, 2) for value in (0, 3, 4, 100)]
    [3, 3, 4, 28]
    """
    return (value >> parameter) + 1 + parameter


@kernel
def gamma_bits(value: int) -> int:
    """Return the bits of a number from 1 on in Elias' gamma code.

    Examples
    --------
    >>> [gamma_bits(value) for value in (1, 2, 3, 4)]
    [1, 3, 3, 5]
    """
    return 2 * bits_for(value) - 1


@kernel
def _write_unary(words: Words, position: int, value: int) -> int:
    position += value
    words[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
    return position + 1


@kernel
def write_rice(words: Words, position: int, value: int, parameter: int) -> int:
    """Write a number where all bits are still 0; return where it ends."""
    position = _write_unary(words, position, value >> parameter)
    if parameter:
        write_bits(words, position, parameter, value & ((1 << parameter) - 1))
    return position + parameter


@kernel
def write_gamma(words: Words, position: int, value: int) -> int:
    """Write a number from 1 on where all bits are still 0; return where it ends."""
    rest = bits_for(value) - 1
    position = _write_unary(words, position, rest)
    if rest:
        write_bits(words, position, rest, value - (1 << rest))
    return position + rest


@inline_kernel
def read_number(words: Words, position: Any, bits: Any) -> Any:
    """Return a number of up to 32 bits."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    return np.int64(read_bits(words, np.uint64(position), mask))


@kernel
def _read_unary(words: Words, position: int, end: int) -> int:
    """Return how many zeros come before the next one; -1 where no one comes before the end."""
    zeros = 0
    while position + zeros < end:
        at = position + zeros
        if (words[at >> 6] >> np.uint64(at & 63)) & np.uint64(1):
            return zeros
        zeros += 1
    return -1


@kernel
def read_rice(words: Words, position: int, end: int, parameter: int) -> tuple[int, int]:
    """Return a number and where the next one begins; -1 twice where there is none.

    Numbers above `MAX_VALUE` are none.
    """
    upper = _read_unary(words, position, end)
    if upper < 0 or upper > MAX_VALUE >> parameter:
        return -1, -1
    position += upper + 1
    return (upper << parameter) | read_number(words, position, parameter), position + parameter


@kernel
def read_gamma(words: Words, position: int, end: int) -> tuple[int, int]:
    """Return a number from 1 on and where the next one begins; -1 twice where there is none."""
    rest = _read_unary(words, position, min(end, position + _MAX_ZEROS + 1))
    if rest < 0:
        return -1, -1
    position += rest + 1
    return (1 << rest) | read_number(words, position, rest), position + rest
