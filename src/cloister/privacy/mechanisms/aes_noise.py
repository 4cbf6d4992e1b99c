"""Discrete noise for hundreds of millions of counts: a table of the distribution, words from AES.

A draw reads one word of 64 random bits as the first digits of a number u in [0, 1) and returns the
least x with u < P(X <= x) (inversion). The table holds the first 64 bits of each P(X <= x). A word
that differs from all of them has decided already, whatever digits of u would follow. A word that
equals one has not: then 1,024 further bits of u are drawn, and compared with the exact sums. That
happens to about one draw in 10^17, and also stands for the tails, which the table need not hold.

What the draws are worth:

- Against the exact distribution: 1,088 bits of u decide every draw, and the sums are known to more;
  the statistical distance of a draw is below 2^-1000. Values that are the same in two neighbouring
  inputs get the same noise in both and tell nothing, so only the d values that differ count: a
  guarantee (epsilon, delta) of exact noise becomes (epsilon, delta + (1 + e^epsilon) d 2^-1000),
  which double precision does not tell from delta for any epsilon below 600.
- The words are AES-256 in counter mode under a key from the operating system that is kept nowhere.
  The guarantee is hence computational: it holds against whoever cannot tell AES-256 from a random
  function.
- Nothing is claimed about how long a draw takes: do not let others time it.

Which noise a value gets depends on its place in the stream only, not on the number of threads.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import inline_kernel, parallel_kernel
from cloister.privacy.mechanisms.noise_table import GUIDE_BITS, MORE_BITS, NoiseTable

__all__ = ["AesWords", "SeededWords", "Words", "add_noise"]

KEY_BYTES: Final = 32
CHUNK: Final = 1 << 21  # words made at a time: 16 megabytes
PIECE: Final = 1 << 13  # values that a thread noises together
_WORD: Final = 1 << 64

Words64 = NDArray[np.uint64]


class Words(Protocol):
    """A stream of random words that can be read from any place."""

    @property
    def simulated(self) -> bool:
        """Whether the words can be made again by whoever knows a seed."""

    def fill(self, out: Words64, *, purpose: int, first: int) -> None:
        """Fill an array with a purpose's words from the (even) place ``first`` on."""

    def more_bits(self) -> int:
        """Return 1,024 fresh bits."""


class AesWords:
    """Words from AES-256 in counter mode: two a block; the block's number is (purpose, place / 2).

    Parameters
    ----------
    key
        32 bytes, for tests only; drawn from the operating system if not given. It is not kept
        anywhere else, and whoever has it can take the noise off.

    Examples
    --------
    >>> words = np.empty(4, np.uint64)
    >>> AesWords().fill(words, purpose=0, first=0)
    """

    simulated: Final = False

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(KEY_BYTES) if key is None else bytes(key)
        if len(self._key) != KEY_BYTES:
            raise SettingsError(f"a key of {KEY_BYTES} bytes is needed", where="AesWords")
        self._zeros = bytes(0)

    def fill(self, out: Words64, *, purpose: int, first: int) -> None:
        """Fill an array with a purpose's words from the (even) place ``first`` on."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        counter = purpose.to_bytes(8, "big") + _block(first).to_bytes(8, "big")
        cipher = Cipher(algorithms.AES256(self._key), modes.CTR(counter)).encryptor()
        if len(self._zeros) != out.nbytes:
            self._zeros = bytes(out.nbytes)
        cipher.update_into(self._zeros, out.view(np.uint8).data)

    def more_bits(self) -> int:
        """Return 1,024 fresh bits from the operating system."""
        return secrets.randbits(MORE_BITS)

    def __repr__(self) -> str:
        return "AesWords()"


class SeededWords:
    """Words from NumPy's Philox generator: for experiments, since they protect nobody.

    Parameters
    ----------
    seed
        At least 0; one seed gives the same words for ever.
    """

    simulated: Final = True

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < _WORD:
            raise SettingsError(f"must be 0 to 2^64 - 1 (given: {seed})", where="seed")
        self.seed = seed
        self._n_more = 0

    def fill(self, out: Words64, *, purpose: int, first: int) -> None:
        """Fill an array with a purpose's words from the (even) place ``first`` on."""
        skipped, block = first % 4, _block(first) // 2  # four words a block
        made = self._generator(purpose, block).random_raw(len(out) + skipped)
        out[:] = made[skipped:]

    def more_bits(self) -> int:
        """Return the next 1,024 bits of a stream of their own."""
        self._n_more += 1
        words = self._generator(_WORD - 1, self._n_more * MORE_BITS).random_raw(MORE_BITS // 64)
        return int.from_bytes(words.tobytes(), "big")

    def _generator(self, purpose: int, block: int) -> np.random.Philox:
        # Purposes differ in the key. The counter goes up before the first block is made.
        return np.random.Philox(key=[self.seed, purpose], counter=block)


def add_noise(
    values: NDArray[Any], table: NoiseTable, words: Words, *, purpose: int = 0, first: int = 0
) -> None:
    """Add noise to whole numbers in place; sums that the type cannot hold are cut to its ends.

    Cutting looks at the noisy sum only: it is post-processing and costs nothing.

    Parameters
    ----------
    values
        A contiguous array of int16, int32 or int64.
    table
        The noise.
    words
        Where it comes from. Words of one purpose and place must not be used twice.
    purpose
        Tells apart the streams of one source.
    first
        The place of the first value's word, an even number.

    Examples
    --------
    >>> from cloister.privacy.mechanisms.noise_table import noise_table
    >>> values = np.zeros(1000, np.int16)
    >>> add_noise(values, noise_table("discrete-gaussian", 5.0), SeededWords(1))
    >>> bool(4.5 < values.std() < 5.5)
    True
    """
    if values.dtype not in (np.int16, np.int32, np.int64) or not values.flags.c_contiguous:
        raise DataError("a contiguous array of signed whole numbers is needed", where="add_noise")
    flat = values.reshape(-1)
    limits = np.iinfo(flat.dtype)
    drawn = np.empty(min(CHUNK, len(flat)), np.uint64)
    unsettled = np.zeros(max(1, -(-len(drawn) // PIECE)), np.bool_)
    for begin in range(0, len(flat), CHUNK):
        part = flat[begin : begin + CHUNK]
        fresh = drawn[: len(part)]
        words.fill(fresh, purpose=purpose, first=first + begin)
        _add(part, fresh, table.bounds, table.guide, table.low, limits.min, limits.max, unsettled)
        if unsettled.any():
            _settle(part, fresh, table, words, limits)


def _settle(
    part: NDArray[Any], fresh: Words64, table: NoiseTable, words: Words, limits: Any
) -> None:
    """Draw again, with more bits, the noise that a word left open; nothing was added there yet."""
    open_ = np.isin(fresh, table.bounds) | (fresh == 0) | (fresh == np.uint64(_WORD - 1))
    for i in np.flatnonzero(open_):
        noisy = int(part[i]) + table.settle(int(fresh[i]), words.more_bits())
        part[i] = min(max(noisy, int(limits.min)), int(limits.max))


def _block(first: int) -> int:
    if first < 0 or first % 2:
        raise SettingsError(f"an even place is needed (given: {first})", where="first")
    return first // 2


@parallel_kernel
def _add(
    values: NDArray[Any],
    words: Words64,
    bounds: Words64,
    guide: NDArray[np.int32],
    low: int,
    least: int,
    most: int,
    unsettled: NDArray[np.bool_],
) -> None:
    """Add the noise of each word that decides; tell of pieces where some did not."""
    for piece in numba.prange((len(values) + PIECE - 1) // PIECE):
        open_ = False
        for j in range(piece * PIECE, min((piece + 1) * PIECE, len(values))):
            word = words[j]
            i = np.int64(guide[word >> np.uint64(64 - GUIDE_BITS)])
            if i < 0:
                i = np.searchsorted(bounds, word, side="right")
                if _is_open(word, bounds, i):
                    open_ = True
                    continue
            values[j] = min(max(np.int64(values[j]) + low + i, least), most)
        unsettled[piece] = open_


@inline_kernel
def _is_open(word: Any, bounds: Words64, n_passed: int) -> bool:
    """Tell whether further digits decide: the word equals a bound, or lies in a tail."""
    at_end = word == np.uint64(0) or word == np.uint64(0xFFFFFFFFFFFFFFFF)
    return at_end or (n_passed > 0 and bounds[n_passed - 1] == word)
