"""Long contents in chunks: the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár 2015).

Each stream has a key of its own. A chunk's nonce is its position and whether it is the last, so a
chunk that is missing, moved, repeated or added, and an end that comes too early, are all detected.
Chunks have one size and their number is padded by Padmé: the relay sees a size class.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from cloister.core.errors import SettingsError
from cloister.privacy.contents import as_bytes
from cloister.privacy.sealed.aead import TAG_BYTES, Aead
from cloister.privacy.sealed.padding import padme
from cloister.privacy.sealed.refusals import MessageRefused

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from cloister.privacy.sealed.replay import SeenNumbers, SessionName

__all__ = ["IncomingStream", "chunk_size", "head_content", "opened_chunks", "sealed_chunks"]

MAX_CHUNK_BYTES: Final = 2**24  # what a recipient is willing to hold in memory
_LENGTH: Final = struct.Struct(">I")


def head_content(chunk_bytes: int) -> bytes:
    """Write what the head of a stream carries."""
    return _LENGTH.pack(chunk_bytes)


def chunk_size(head: bytes, *, where: str) -> int:
    """Read the size of the chunks from the head of a stream."""
    if len(head) != _LENGTH.size:
        raise MessageRefused("the head of the stream is not valid", where=where)
    (chunk_bytes,) = _LENGTH.unpack(head)
    if not 1 <= chunk_bytes <= MAX_CHUNK_BYTES:
        raise MessageRefused(f"chunks of {chunk_bytes} bytes are too large", where=where)
    return int(chunk_bytes)


def sealed_chunks(cipher: Aead, source: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """Seal all of ``source``; one chunk is held in memory, and one more to know the end."""
    for index, (part, last) in enumerate(_with_end(_parts(source, chunk_bytes))):
        n_padding = padme(index + 1) - (index + 1) if last else 0
        yield _sealed(cipher, index, part, chunk_bytes, last=last and not n_padding)
        for ahead in range(1, n_padding + 1):
            yield _sealed(cipher, index + ahead, b"", chunk_bytes, last=ahead == n_padding)


def opened_chunks(
    cipher: Aead, pieces: Iterable[bytes], chunk_bytes: int, *, where: str
) -> Iterator[bytes]:
    """Open chunks in their order; raise where one is wrong or the end is missing."""
    index = -1
    for index, (piece, last) in enumerate(_with_end(pieces)):
        if len(piece) != _LENGTH.size + chunk_bytes + TAG_BYTES:
            raise MessageRefused(f"chunk {index} has a wrong length", where=where)
        if content := _opened(cipher, index, piece, last=last, where=where):
            yield content
    if index < 0:
        raise MessageRefused("the stream has no chunks", where=where)


class IncomingStream:
    """A stream that is being opened: iterate over its parts, then `accept` it.

    Each part is authentic when it appears, but only the end shows that nothing is missing. Keep
    what was read aside, and act on it in the transaction that accepts the stream.

    There is one iteration: a second loop goes on where the first one stopped. After an error every
    further step is refused, for what follows is not known to follow what was read.
    """

    def __init__(
        self,
        topic: str,
        session: SessionName,
        number: int,
        parts: Iterator[bytes],
        seen: SeenNumbers,
    ) -> None:
        self.sender = session.sender
        self.topic = topic
        self.number = number
        self.finished = False
        self._session = session
        self._parts = parts
        self._seen = seen
        self._broken = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.finished:
            raise StopIteration
        if self._broken:
            raise MessageRefused(
                "reading it failed before its end",
                where=f"stream {self.number} of {self.sender}",
                remedy="drop what was read and ask for the stream again",
            )
        self._broken = True  # unless what comes now is a part, or the verified end
        try:
            part = next(self._parts)
        except StopIteration:
            self.finished = True
            raise
        self._broken = False
        return part

    def accept(self, connection: Connection) -> None:
        """Count the stream as seen in the caller's transaction; raise `Replayed` if it was."""
        if not self.finished:
            raise SettingsError(
                "the stream was not read to its end",
                where=f"{self.sender}: {self.topic}",
                remedy="iterate over all its parts first",
            )
        self._seen.mark(connection, self._session, self.number)

    def __repr__(self) -> str:
        return f"<IncomingStream from {self.sender}, number {self.number}>"


def _parts(source: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """Read full chunks, whatever a single read returns; an empty source has one empty chunk."""

    def read(n_bytes: int) -> bytes:
        return as_bytes(source.read(n_bytes), where="source of a stream")

    n_parts = 0
    while part := read(chunk_bytes):
        while len(part) < chunk_bytes and (more := read(chunk_bytes - len(part))):
            part += more
        yield part
        n_parts += 1
    if not n_parts:
        yield b""


def _with_end(parts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Say of each part whether it is the last."""
    before: bytes | None = None
    for part in parts:
        if before is not None:
            yield before, False
        before = as_bytes(part, where="piece of a stream")
    if before is not None:
        yield before, True


def _sealed(cipher: Aead, index: int, part: bytes, chunk_bytes: int, *, last: bool) -> bytes:
    padding = bytes(chunk_bytes - len(part))
    return cipher.seal(_nonce(index, last=last), b"", (part, padding, _LENGTH.pack(len(part))))


def _opened(cipher: Aead, index: int, piece: bytes, *, last: bool, where: str) -> bytes:
    from cryptography.exceptions import InvalidTag

    def read_end(plain: memoryview) -> int:
        (n_content,) = _LENGTH.unpack_from(plain, len(plain) - _LENGTH.size)
        if n_content > len(plain) - _LENGTH.size:
            raise MessageRefused(f"chunk {index} says a wrong length", where=where)
        return int(n_content)

    try:
        return cipher.open(_nonce(index, last=last), b"", memoryview(piece), read_end)
    except InvalidTag:
        raise MessageRefused(
            f"chunk {index} was altered, is out of its place, or is not the end",
            where=where,
            remedy="drop what was read and ask for the stream again",
        ) from None


def _nonce(index: int, *, last: bool) -> bytes:
    return index.to_bytes(11, "big") + bytes((last,))
