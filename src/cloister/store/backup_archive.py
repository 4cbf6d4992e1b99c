"""The file of a backup: a tar archive whose every byte is checked, encrypted where wanted.

It holds regular files alone, with names that Cloister gives them: ``tables/NAME/000000`` (rows),
``files/SHA256``, ``home/000000`` and ``included/000000``, then ``manifest.json``, which lists all
of them with their SHA-256, and ``manifest.json.sha256``. Any program that reads tar can unpack
it.

Reading is strict: heads must be byte by byte what Cloister writes, gaps must be zero, and nothing
may follow the end. So no single byte can change unnoticed. That finds damage, not forgery: whoever
can write the file can make another one, unless it is encrypted.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from cloister.core.errors import Damaged, StoreError

__all__ = [
    "ArchiveReader",
    "ArchiveWriter",
    "ByteSink",
    "ByteSource",
    "Member",
    "MemberStream",
    "damaged",
]

BLOCK: Final = 512
PIECE_BYTES: Final = 1 << 20
END: Final = bytes(2 * BLOCK)
_NAME: Final = re.compile(
    r"tables/cloister_[a-z0-9_]{1,54}/[0-9]{6,9}"
    r"|files/[0-9a-f]{64}"
    r"|(home|included)/[0-9]{6,9}"
    r"|manifest\.json(\.sha256)?"
)


class ByteSink(Protocol):
    """What an archive is written to."""

    def write(self, content: bytes, /) -> int: ...  # noqa: D102


class ByteSource(Protocol):
    """What an archive is read from: fewer bytes than asked for come at the end only."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102


class Member(NamedTuple):
    """One file of an archive."""

    name: str
    size_bytes: int
    sha256: str


class ArchiveWriter:
    """Writes one member after the other.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> archive = ArchiveWriter(file)
    >>> archive.add("home/000000", 5, [b"hello"]).size_bytes
    5
    >>> archive.finish()
    >>> _ = file.seek(0)
    >>> [member.read(10) for member in ArchiveReader(file)]
    [b'hello']
    """

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink

    def add(self, name: str, size_bytes: int, pieces: Iterable[bytes]) -> Member:
        """Write a member of which the size is known; raise where the pieces are more or fewer."""
        self._sink.write(_head(name, size_bytes))
        sha256 = hashlib.sha256()
        n_written = 0
        for piece in pieces:
            n_written += len(piece)
            if n_written > size_bytes:
                break
            sha256.update(piece)
            self._sink.write(piece)
        if n_written != size_bytes:
            raise StoreError(
                "it changed while it was read", where=name, remedy="make the backup again"
            )
        self._sink.write(bytes(-size_bytes % BLOCK))
        return Member(name, size_bytes, sha256.hexdigest())

    def finish(self) -> None:
        """Write the end."""
        self._sink.write(END)


class MemberStream:
    """A member while it is read; its SHA-256 is known at its end."""

    def __init__(self, source: ByteSource, name: str, size_bytes: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self._source = source
        self._left = size_bytes
        self._sha256 = hashlib.sha256()
        self._finished = False

    def read(self, size: int = PIECE_BYTES) -> bytes:
        """Return so many bytes or fewer, and none at the end only."""
        if not self._left:
            return b""
        piece = self._source.read(min(size, self._left))
        if not piece:
            raise damaged("the archive ends in the middle of a member", self.name)
        self._left -= len(piece)
        self._sha256.update(piece)
        return piece

    def pieces(self) -> Iterator[bytes]:
        """Yield what is left."""
        while piece := self.read(PIECE_BYTES):
            yield piece

    def lines(self, *, longest: int) -> Iterator[bytes]:
        """Yield lines; raise where one is too long or the last one has no end."""
        line = bytearray()
        for piece in self.pieces():
            first, *others = piece.split(b"\n")
            line += first
            for other in others:
                yield bytes(line)
                line = bytearray(other)
            if len(line) > longest:
                raise damaged("a row is too long", self.name)
        if line:
            raise damaged("the last row has no end", self.name)

    def finish(self) -> Member:
        """Read the rest and what fills the last block; return the member with its SHA-256."""
        for _ in self.pieces():
            pass
        n_filled = 0 if self._finished else -self.size_bytes % BLOCK
        if self._source.read(n_filled) != bytes(n_filled):
            raise damaged("the bytes between two members are not zero", self.name)
        self._finished = True
        return Member(self.name, self.size_bytes, self._sha256.hexdigest())


class ArchiveReader:
    """Gives the members of an archive in their order; each must be finished before the next."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def __iter__(self) -> Iterator[MemberStream]:
        while (head := self._head()) is not None:
            member = MemberStream(self._source, *head)
            yield member
            member.finish()
        if self._source.read(1):
            raise damaged("something follows the end", "archive")

    def _head(self) -> tuple[str, int] | None:
        content = self._source.read(BLOCK)
        if content == END[:BLOCK]:
            if self._source.read(BLOCK) != END[:BLOCK]:
                raise damaged("the end of the archive is missing", "archive")
            return None
        try:
            told = tarfile.TarInfo.frombuf(content, "ascii", "strict")
            right = _NAME.fullmatch(told.name) is not None and told.size >= 0
            same = right and _head(told.name, told.size) == content
        except (tarfile.HeaderError, ValueError):
            same = False
        if not same:
            raise damaged("not a backup, or a member that no backup has", "archive")
        return told.name, told.size


def _head(name: str, size_bytes: int) -> bytes:
    """Return the one head that a member of this name and size can have."""
    told = tarfile.TarInfo(name)
    told.size = size_bytes
    told.mode = 0o600
    return told.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")  # sizes beyond 8 GiB fit


def damaged(what: str, where: str) -> Damaged:
    """Return the error of an archive that cannot be used."""
    return Damaged(what, where=where, remedy="nothing was changed; take another copy of the backup")
