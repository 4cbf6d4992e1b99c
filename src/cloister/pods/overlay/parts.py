"""A sealed answer in parts that a broker takes; each says its place and how many there are."""

from __future__ import annotations

import struct
from typing import Final

from cloister.core.errors import DataError

__all__ = ["PartsOfOne", "REFUSAL", "in_parts"]

PART_BYTES: Final = 500_000  # brokers take a megabyte, where nobody changed it
MAX_PARTS: Final = 64
REFUSAL: Final = b"\0"  # the same for every reason
_HEAD: Final = struct.Struct(">BHH")  # kind, place, number of parts
_PART: Final = 1


def in_parts(message: bytes, part_bytes: int = PART_BYTES) -> list[bytes]:
    """Cut a message into parts.

    Examples
    --------
    >>> parts = in_parts(b"a long answer", part_bytes=5)
    >>> together = PartsOfOne()
    >>> [together.add(part) for part in reversed(parts)]
    [None, None, b'a long answer']
    """
    n_parts = max(-(-len(message) // part_bytes), 1)
    if n_parts > MAX_PARTS:
        raise DataError("too long for an answer", where="answer", remedy="ask for less")
    return [
        _HEAD.pack(_PART, place, n_parts) + message[place * part_bytes : (place + 1) * part_bytes]
        for place in range(n_parts)
    ]


class PartsOfOne:
    """Collects the parts of one message, in any order."""

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._n_parts = 0

    def add(self, part: bytes) -> bytes | None:
        """Take a part; return the message when it is whole. Wrong parts raise `DataError`."""
        if len(part) < _HEAD.size or len(part) > _HEAD.size + PART_BYTES:
            raise DataError("not a part of an answer", where="answer")
        kind, place, n_parts = _HEAD.unpack_from(part)
        wanted = self._n_parts or n_parts
        if kind != _PART or n_parts != wanted or not place < n_parts <= MAX_PARTS:
            raise DataError("not a part of an answer", where="answer")
        if place in self._parts:
            raise DataError("a part came twice", where="answer")
        self._n_parts = n_parts
        self._parts[place] = part[_HEAD.size :]
        if len(self._parts) < n_parts:
            return None
        return b"".join(self._parts[place] for place in range(n_parts))
