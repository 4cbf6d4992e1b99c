"""A sequence of short texts kept as one block of bytes, so that it can be memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByteStrings"]


class ByteStrings(Sequence[str]):
    """Texts that are decoded only when somebody asks for them.

    Examples
    --------
    >>> names = ByteStrings.of(["ann", "", "bo"])
    >>> names[2], len(names), list(names[:2])
    ('bo', 3, ['ann', ''])
    """

    def __init__(self, block: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.block = block
        self.offsets = offsets

    @classmethod
    def of(cls, texts: Sequence[str]) -> ByteStrings:
        """Put texts into one block."""
        return _from_bytes([text.encode() for text in texts])

    @classmethod
    def joined(cls, parts: Sequence[Sequence[str]]) -> ByteStrings:
        """Put several sequences of texts one behind the other."""
        strings = [part.compact() if isinstance(part, cls) else cls.of(part) for part in parts]
        ends = np.cumsum([0] + [len(part.block) for part in strings])
        offsets = [part.offsets[1:] + end for part, end in zip(strings, ends, strict=False)]
        blocks = [part.block for part in strings]
        return cls(np.concatenate(blocks), np.concatenate([np.zeros(1, np.int64), *offsets]))

    def raw(self, index: int) -> bytes:
        """Return the bytes of a text: other than UTF-8 they are not lost there."""
        return self.block[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def take(self, positions: NDArray[np.int64]) -> ByteStrings:
        """Return some of the texts, in the order given."""
        return _from_bytes([self.raw(int(i)) for i in positions])

    def compact(self) -> ByteStrings:
        """Return the same texts in a block that holds no others."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        return ByteStrings(self.block[first:last], self.offsets - first)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> ByteStrings: ...

    def __getitem__(self, index: int | slice) -> str | ByteStrings:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return ByteStrings(self.block, self.offsets[start : max(start, stop) + 1])
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return (
            self.block[self.offsets[index] : self.offsets[index + 1]]
            .tobytes()
            .decode(errors="replace")
        )

    def __repr__(self) -> str:
        return f"<ByteStrings of {len(self)} texts>"


def _from_bytes(texts: list[bytes]) -> ByteStrings:
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return ByteStrings(np.frombuffer(b"".join(texts), np.uint8), offsets)
