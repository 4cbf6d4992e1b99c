"""Content-addressed files: bytes under the name of their SHA-256, checked when they are read.

Layout below the root: ``ab/cd...`` for a digest ``abcd...``, ``incoming/`` for files being written,
``lock`` between those who add and those who remove. A file is complete and on the disk before it
has its name, so a reader never sees a part of one. Only the owner may read what is stored.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from cloister.core.errors import Damaged, DataError, NotFound, StoreError
from cloister.core.ids import content_id
from cloister.store.incoming import Incoming, incoming_file, lock_held, sweep, sync_folder

__all__ = ["FileRef", "Files", "Inspection"]

CHUNK_BYTES: Final = 1 << 20
N_SHARDS: Final = 256  # folders named by the first two digits keep each folder small
GRACE_S: Final = 3600.0  # time for a caller to record a reference to what it has just put
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class FileRef(NamedTuple):
    """A stored file: the SHA-256 of its bytes in hexadecimal, and how many they are."""

    digest: str
    size_bytes: int


class Inspection(NamedTuple):
    """What `Files.verify` saw; ``damaged`` lists the digests that no longer fit."""

    n_files: int
    size_bytes: int
    damaged: tuple[str, ...]


class Files:
    """A folder of files named by their content. Threads and processes may share it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     files = Files(folder)
    ...     ref = files.put(b"a model")
    ...     files.read(ref.digest)
    b'a model'
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self._incoming = self.root / "incoming"
        self._lock = self.root / "lock"
        with _reported(self.root):
            self._make_folders()
            sweep(self._incoming)

    def put(self, content: bytes | bytearray | memoryview | Path | BinaryIO) -> FileRef:
        """Store bytes, a file or a binary stream; on return they are on the disk.

        Content that is there already is not stored twice; if its file was damaged, it is repaired.
        """
        with _reported(self.root), _opened(content) as source:
            with incoming_file(self._incoming) as incoming:
                ref = _copy(source, incoming)
                with lock_held(self._lock, exclusive=False):
                    self._settle(incoming, ref.digest)
            return ref

    def read(self, digest: str) -> bytes:
        """Return the bytes, or raise `Damaged` where they do not match their digest."""
        target = self._target(digest)
        with _reported(target):
            content = target.read_bytes()
        if content_id(content) != digest:
            raise _damaged(target)
        return content

    def path(self, digest: str, *, verify: bool = True) -> Path:
        """Return where the bytes lie, for memory-mapping, after a check of the whole file.

        ``verify=False`` skips the check; the file must then exist, and may be damaged.
        """
        target = self._target(digest)
        with _reported(target):
            if not verify:
                target.stat()
            elif _digest_of(target) != digest:
                raise _damaged(target)
        return target

    def __contains__(self, digest: str) -> bool:
        return self._target(digest).exists()

    def digests(self) -> Iterator[str]:
        """Yield the digests of all stored files, in order."""
        for shard in self._shards():
            for path in sorted(shard.iterdir()):
                if _DIGEST.fullmatch(digest := shard.name + path.name):
                    yield digest

    def verify(self) -> Inspection:
        """Check every stored file."""
        n_files = size_bytes = 0
        damaged = []
        for digest in self.digests():
            target = self._target(digest)
            try:
                sound = _digest_of(target) == digest
                size_bytes += target.stat().st_size
            except FileNotFoundError:
                continue  # removed since it was listed
            except OSError:
                sound = False  # the disk cannot read it
            n_files += 1
            damaged += [] if sound else [digest]
        return Inspection(n_files, size_bytes, tuple(damaged))

    def remove_unreferenced(
        self, keep: Iterable[str], *, older_than_s: float = GRACE_S
    ) -> tuple[FileRef, ...]:
        """Remove the files whose digests are not in ``keep``, and what crashed writers left.

        Parameters
        ----------
        older_than_s
            Spare files that were put, or put again, in the last so many seconds: their references
            may not be recorded yet.
        """
        kept = {_checked_digest(digest) for digest in keep}
        removed = []
        with _reported(self.root):
            for digest in self.digests():
                if digest not in kept:
                    removed += self._remove_if_old(digest, older_than_s)
            sweep(self._incoming)
        return tuple(removed)

    def _target(self, digest: str) -> Path:
        _checked_digest(digest)
        return self.root / digest[:2] / digest[2:]

    def _shards(self) -> Iterator[Path]:
        return (self.root / f"{shard:02x}" for shard in range(N_SHARDS))

    def _make_folders(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._incoming, *self._shards()):
            folder.mkdir(mode=0o700, exist_ok=True)
        self._lock.touch(mode=0o600)
        sync_folder(self.root)

    def _settle(self, incoming: Incoming, digest: str) -> None:
        target = self._target(digest)
        if target.exists() and _digest_of(target) == digest:
            os.utime(target)  # put again: the time of grace begins anew
        else:
            incoming.settle(target)
        sync_folder(target.parent)  # also where another writer named the file: it may not have yet

    def _remove_if_old(self, digest: str, older_than_s: float) -> list[FileRef]:
        target = self._target(digest)
        with lock_held(self._lock, exclusive=True):
            try:
                state = target.stat()
            except FileNotFoundError:
                return []
            if time.time() - state.st_mtime < older_than_s:
                return []
            target.unlink()
        return [FileRef(digest, state.st_size)]


def _checked_digest(digest: object) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise DataError("a digest has 64 hexadecimal digits in lower case", where=repr(digest)[:80])
    return digest


def _copy(source: BinaryIO, incoming: Incoming) -> FileRef:
    sha256 = hashlib.sha256()
    size_bytes = 0
    while chunk := source.read(CHUNK_BYTES):
        sha256.update(chunk)
        incoming.stream.write(chunk)
        size_bytes += len(chunk)
    return FileRef(sha256.hexdigest(), size_bytes)


def _digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _damaged(path: Path) -> Damaged:
    return Damaged(
        "the bytes do not match their checksum",
        where=str(path),
        remedy="put the same content again, or restore the file from a copy",
    )


@contextmanager
def _opened(content: bytes | bytearray | memoryview | Path | BinaryIO) -> Iterator[BinaryIO]:
    """Read from anything; a stream that the caller opened stays open."""
    if isinstance(content, Path):
        with content.open("rb") as stream:
            yield stream
    elif isinstance(content, bytes | bytearray | memoryview):
        yield io.BytesIO(content)
    else:
        yield content


@contextmanager
def _reported(where: Path) -> Iterator[None]:
    """Raise errors of the file system in Cloister's words."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("no such file", where=str(error.filename or where)) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(
            f"the file system refused: {error.strerror or error}",
            where=str(error.filename or where),
            remedy="free some space" if full else "check the folder and who may write there",
        ) from error
