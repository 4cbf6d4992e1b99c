"""One process a service: a lock beside its file, with the number of the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cloister.core.errors import Conflict
from cloister.core.file_errors import writing

__all__ = ["process_of", "sole_process"]

LOCK: Final = "service.lock"


@contextmanager
def sole_process(file: Path) -> Iterator[None]:
    """Hold a service's lock; raise `Conflict` where another process runs the service.

    The system lets go of it when the process ends, however it ends.
    """
    with writing(file.parent), (file.parent / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(
                "this service runs already",
                where=str(file),
                remedy="end the other process first",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def process_of(file: Path) -> int | None:
    """Return the process that runs a service; None where nobody does."""
    path = file.parent / LOCK
    if not path.exists():
        return None
    with path.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            text = lock.read().strip()
            return int(text) if text.isdecimal() else None
    return None
