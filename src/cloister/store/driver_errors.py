"""Errors of the two database drivers in Cloister's words.

Values and passwords are kept out of the text: a message may travel further than the record that
it concerns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from sqlalchemy import exc

from cloister.core.contention import Busy
from cloister.core.errors import Damaged, StoreError
from cloister.store.addresses import Address

__all__ = ["translated"]


class _Meaning(NamedTuple):
    kind: type[StoreError]
    what: str
    remedy: str


_BUSY: Final = _Meaning(
    Busy,
    "another transaction holds the lock or changed what this one read",
    "try again, or use Database.run, which does; never open a transaction inside another",
)
_FULL: Final = _Meaning(StoreError, "no space is left", "free some space and try again")
_READ_ONLY: Final = _Meaning(
    StoreError,
    "the transaction or the database is read-only",
    "change things inside Database.transaction or Database.run, as a user who may write",
)
_DAMAGED: Final = _Meaning(
    Damaged, "the file is damaged or no SQLite database", "restore it from a copy"
)
_NO_TABLE: Final = _Meaning(
    StoreError, "a table is missing", "call Database.migrate with its schema first"
)
_LOST: Final = _Meaning(
    StoreError,
    "the connection was lost; if it broke during the commit, the change may have been made",
    "look whether the change is there before trying again",
)

_SQLITE: Final = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: _Meaning(
        StoreError, "the file cannot be opened", "check that its folder exists and is writable"
    ),
}
_POSTGRESQL: Final = {
    "40001": _BUSY,  # serialization failure
    "40P01": _BUSY,  # deadlock
    "55P03": _BUSY,  # lock timeout
    "25006": _READ_ONLY,
    "42P01": _NO_TABLE,
    "53100": _FULL,
    "53300": _Meaning(Busy, "the server has no connection left", "raise its max_connections"),
}


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Raise driver errors from the body as `StoreError`, with the traceback of the statement."""
    try:
        yield
    except exc.TimeoutError:
        raise Busy(
            "all connections of this process are in use",
            where=address.shown,
            remedy="use fewer threads, or shorter transactions",
        ) from None
    except exc.DBAPIError as error:
        meaning = _meaning(error)
        translation = meaning.kind(
            address.scrubbed(meaning.what), where=address.shown, remedy=meaning.remedy
        )
        # "from None": a driver's own text may quote the values of a record.
        raise translation.with_traceback(error.__traceback__) from None


def _meaning(error: exc.DBAPIError) -> _Meaning:
    driver_error = error.orig
    if isinstance(driver_error, sqlite3.Error):
        return _meaning_in_sqlite(driver_error)
    state: str | None = getattr(driver_error, "sqlstate", None)
    if state in _POSTGRESQL:
        return _POSTGRESQL[state]
    if error.connection_invalidated:
        return _LOST
    if state is None and isinstance(error, exc.OperationalError):
        return _Meaning(
            StoreError,
            f"cannot connect: {' '.join(str(driver_error).split())}",
            "check that the server runs, and the host, port, user, password and database",
        )
    return _Meaning(StoreError, _primary_message(driver_error, state or "unknown"), "")


def _meaning_in_sqlite(error: sqlite3.Error) -> _Meaning:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code in _SQLITE:
        return _SQLITE[code]
    if str(error).startswith("no such table"):
        return _NO_TABLE
    return _Meaning(StoreError, str(error), "")  # SQLite names columns, never values


def _primary_message(error: BaseException | None, state: str) -> str:
    """Return PostgreSQL's first line; its details, and data exceptions (22), quote values."""
    message = getattr(getattr(error, "diag", None), "message_primary", None)
    if not message or state.startswith("22"):
        message = f"{type(error).__name__}"
    return f"{message} (SQLSTATE {state})"
