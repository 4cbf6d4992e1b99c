"""Plain binary records: whole numbers little-endian, byte strings with their length before them.

A reader takes exactly what a writer wrote; anything else is a `DataError`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError

__all__ = ["MessageReader", "MessageWriter", "malformed"]


def malformed(what: str) -> DataError:
    """Return the error for bytes that are no message."""
    return DataError(
        what, where="secure aggregation message", remedy="refuse the message and its sender"
    )


class MessageWriter:
    r"""Puts fields one after the other.

    Examples
    --------
    >>> MessageWriter().number(3).sized(b"ab").done()
    b'\x03\x00\x00\x00\x02\x00\x00\x00ab'
    """

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []

    def raw(self, content: bytes) -> MessageWriter:
        """Put bytes whose length the reader knows."""
        self._parts.append(content)
        return self

    def number(self, value: int) -> MessageWriter:
        """Put a whole number below 2^32."""
        return self.raw(value.to_bytes(4, "little"))

    def sized(self, content: bytes) -> MessageWriter:
        """Put bytes with their length before them."""
        return self.number(len(content)).raw(content)

    def words(self, values: NDArray[np.uint64]) -> MessageWriter:
        """Put a vector of 64-bit words with its length in bytes before it."""
        self._parts += [
            (8 * len(values)).to_bytes(4, "little"),
            values.astype("<u8", copy=False).data,
        ]
        return self

    def rising(self, values: Sequence[int]) -> MessageWriter:
        """Put numbers, each larger than the one before."""
        return self.number(len(values)).raw(struct.pack(f"<{len(values)}I", *values))

    def done(self) -> bytes:
        """Return all fields."""
        return b"".join(self._parts)


class MessageReader:
    """Takes fields one after the other, and nothing that is not there."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    def raw(self, n_bytes: int) -> bytes:
        """Take so many bytes."""
        end = self._place + n_bytes
        if end > len(self._content):
            raise malformed("the message ends too early")
        taken = self._content[self._place : end]
        self._place = end
        return taken

    def number(self) -> int:
        """Take a whole number."""
        return int.from_bytes(self.raw(4), "little")

    def sized(self) -> bytes:
        """Take bytes with their length before them."""
        return self.raw(self.number())

    def words(self) -> NDArray[np.uint64]:
        """Take a vector of 64-bit words: a read-only view of the message."""
        n_bytes = self.number()
        end = self._place + n_bytes
        if n_bytes % 8 or end > len(self._content):
            raise malformed("a vector has 8 bytes a value, and all of them are there")
        values = np.frombuffer(self._content, "<u8", n_bytes // 8, self._place)
        self._place = end
        return values.astype(np.uint64, copy=False)

    def text(self) -> str:
        """Take a text in UTF-8."""
        try:
            return self.sized().decode()
        except UnicodeDecodeError:
            raise malformed("a text is not UTF-8") from None

    def rising(self) -> tuple[int, ...]:
        """Take numbers that rise."""
        n_values = self.number()
        values: tuple[int, ...] = struct.unpack(f"<{n_values}I", self.raw(4 * n_values))
        check_rising(values)
        return values

    def end(self) -> None:
        """Raise if anything is left."""
        if self._place != len(self._content):
            raise malformed("there are bytes after the end of the message")


def check_rising(values: Sequence[int]) -> None:
    """Raise unless each number is larger than the one before."""
    if any(left >= right for left, right in itertools.pairwise(values)):
        raise malformed("numbers of clients do not rise")
