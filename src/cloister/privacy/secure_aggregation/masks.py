"""Masks: the AES-256-CTR key stream of a 32-byte seed, as integers modulo 2^64.

The function PRG of Bonawitz et al. (2017), section 3.4. Each seed is used for one vector only.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError

__all__ = ["SEED_BYTES", "MaskStream"]

SEED_BYTES: Final = 32
_BLOCK_BYTES: Final = 16
_CHUNK: Final = 32_768  # values made and added at a time: 256 KiB stay in the processor's cache
_FIRST_COUNTER: Final = bytes(_BLOCK_BYTES)


class MaskStream:
    """Adds masks to vectors of one length, and takes them away again.

    Examples
    --------
    >>> vector = np.arange(3, dtype=np.uint64)
    >>> stream = MaskStream(3)
    >>> stream.add(vector, b"k" * 32)
    >>> stream.subtract(vector, b"k" * 32)
    >>> vector
    array([0, 1, 2], dtype=uint64)
    """

    def __init__(self, n_values: int) -> None:
        self._n_values = n_values
        chunk = min(n_values, _CHUNK)
        self._zeros = bytes(8 * chunk)
        self._room = bytearray(8 * chunk + _BLOCK_BYTES - 1)
        self._words = np.frombuffer(self._room, "<u8", chunk)

    def add(self, vector: NDArray[np.uint64], seed: bytes) -> None:
        """Add the mask of a seed, in place."""
        self._apply(np.add, vector, seed)

    def subtract(self, vector: NDArray[np.uint64], seed: bytes) -> None:
        """Take the mask of a seed away, in place."""
        self._apply(np.subtract, vector, seed)

    def _apply(self, operation: np.ufunc, vector: NDArray[np.uint64], seed: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        if vector.shape != (self._n_values,) or len(seed) != SEED_BYTES:
            raise SettingsError("the vector or the seed has another length", where="MaskStream")
        cipher = Cipher(algorithms.AES256(seed), modes.CTR(_FIRST_COUNTER)).encryptor()
        for begin in range(0, self._n_values, _CHUNK):
            part = vector[begin : begin + _CHUNK]
            zeros = self._zeros if 8 * len(part) == len(self._zeros) else bytes(8 * len(part))
            cipher.update_into(zeros, self._room)
            operation(part, self._words[: len(part)], out=part)
