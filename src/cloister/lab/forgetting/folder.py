"""A federation's folder: one writer at a time, places for its files, and what SQLite leaves."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import IO, Final

from cloister.core.contention import WAIT_S, lock_patiently
from cloister.core.errors import StoreError
from cloister.core.file_errors import refused_remedy, wrong_place

__all__ = ["DATABASE", "WriterLock", "log_is_worked_in", "make_places"]

DATABASE: Final = "federation.db"
READERS_TIMEOUT_S: Final = 2.0  # how long others may go on reading what is deleted
_PLACES: Final = ("", "incoming", "certificates")


class WriterLock:
    """A lock on a folder that the system lets go when this process ends, however it ends.

    Parameters
    ----------
    folder
        Which; it must exist when the lock is taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def take(self) -> bool:
        """Take the lock, after whoever has it; say whether it was not held yet."""
        if self._file is not None:
            return False
        file = (self._folder / "lock").open("ab")
        try:
            where = str(self._folder)
            lock_patiently(file, what="this federation", where=where, timeout_s=WAIT_S)
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def let_go(self) -> None:
        """Let the lock go, if it is held."""
        if self._file is not None:
            self._file.close()
            self._file = None


def make_places(folder: Path) -> None:
    """Make a federation's folders where they are missing, and see that files can be written."""
    try:
        for name in _PLACES:
            place = folder / name
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"\0")
    except OSError as error:
        where = str(error.filename or folder)
        raise wrong_place(error, where) or StoreError(
            f"no file can be written here ({error.strerror}); nothing was changed",
            where=where,
            remedy=refused_remedy(error),
        ) from None


def log_is_worked_in(folder: Path) -> bool:
    """Empty SQLite's write-ahead log into the database; say whether nobody stood in the way.

    Somebody who reads an old state needs the bytes of it.
    """
    try:
        with closing(sqlite3.connect(folder / DATABASE, timeout=READERS_TIMEOUT_S)) as database:
            busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        return False
    return not busy
