"""Files on their way in: temporary, locked while their writer lives, swept away after a crash."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cloister.core.contention import lock_patiently

__all__ = ["Incoming", "incoming_file", "lock_held", "replace_file", "sweep", "sync_folder"]


class Incoming(NamedTuple):
    """An open temporary file."""

    path: Path
    stream: BinaryIO

    def settle(self, target: Path) -> None:
        """Bring the bytes to the disk, then give them their final name, which nothing undoes."""
        self.stream.flush()
        os.fchmod(self.stream.fileno(), 0o400)  # what is named by its content must not change
        os.fsync(self.stream.fileno())
        self.path.rename(target)


@contextmanager
def incoming_file(folder: Path) -> Iterator[Incoming]:
    """Give a new file in ``folder``; it is gone at the end unless it was settled."""
    incoming = _create(folder)
    try:
        yield incoming
    finally:
        incoming.path.unlink(missing_ok=True)
        incoming.stream.close()


def replace_file(path: Path, content: bytes) -> None:
    """Write a whole file, in the place of one that may be there; only its owner may read it.

    A crash leaves the old file or the new one.
    """
    with incoming_file(path.parent) as incoming:
        incoming.stream.write(content)
        incoming.stream.flush()
        os.fsync(incoming.stream.fileno())
        incoming.path.replace(path)
    sync_folder(path.parent)


def sweep(folder: Path) -> int:
    """Remove the files whose writers are dead; return how many there were."""
    n_removed = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            n_removed += 1
    return n_removed


@contextmanager
def lock_held(path: Path, *, exclusive: bool) -> Iterator[None]:
    """Hold a lock on a file; many may share it, or one has it alone. Raises `Busy` in the end."""
    with path.open("rb") as stream:
        where = str(path.parent)
        lock_patiently(stream, what="this folder", where=where, shared=not exclusive)
        yield


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(folder: Path) -> Incoming:
    while True:
        descriptor, name = tempfile.mkstemp(dir=folder)
        stream = os.fdopen(descriptor, "w+b")
        fcntl.flock(stream, fcntl.LOCK_EX)
        if Path(name).exists():
            return Incoming(Path(name), stream)
        stream.close()  # a sweep came between the making and the locking
