"""Looking before opening: whether there is a ledger, and whether it may only be read.

Nothing here changes a file, neither its content nor its journal mode.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa

from cloister.core.errors import NotFound, StoreError
from cloister.core.file_errors import explained
from cloister.privacy.ledger.tables import DELIVERIES, ENTRIES, OUTBOX, SPENDING
from cloister.store.addresses import Address, parse_address
from cloister.store.database import Database

__all__ = ["look", "opened_for_reading"]

BUSY_TIMEOUT_S: Final = 10.0
HOW_TO_MAKE_ONE: Final = (
    "check the address, or make a ledger with a limit (a number, or the word none): "
    "cloister ledger limit PARTY --epsilon E --new --ledger ADDRESS"
)


def look(address: str | Path, *, must_exist: bool) -> None:
    """Raise if there is no ledger and there must be one, or if its tables are somebody else's."""
    parsed = parse_address(address)
    if _is_file(parsed) and not Path(parsed.shown).exists():
        if must_exist:
            raise NotFound("there is no ledger here", where=parsed.shown, remedy=HOW_TO_MAKE_ONE)
        return
    database = _unchanging(parsed) if _is_file(parsed) else Database.open(address)
    with database:
        _see_tables(database, parsed, must_exist=must_exist)


@contextmanager
def opened_for_reading(address: str | Path) -> Iterator[Database]:
    """Open the database of a ledger that exists, with no right to change it.

    A SQLite file that this user may not write is read as it lies. If somebody writes to it at the
    same time, that is an error at the end: what was read cannot be relied on.
    """
    look(address, must_exist=True)
    parsed = parse_address(address)
    if not _is_file(parsed) or _may_write(Path(parsed.shown)):
        with Database.open(address) as database:
            yield database
        return
    as_it_lies = not _has_log(parsed)
    before = _state(parsed)
    with _unchanging(parsed) as database:
        yield database
    if as_it_lies and _state(parsed) != before:
        raise StoreError(
            "it was changed while it was read",
            where=parsed.shown,
            remedy="read it again, or read a copy",
        )


def _is_file(address: Address) -> bool:
    return address.url.drivername == "sqlite+pysqlite"


def _may_write(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK)


def _has_log(address: Address) -> bool:
    """Say whether somebody has the file open, or had when the machine stopped."""
    return Path(f"{address.shown}-wal").exists()


def _state(address: Address) -> tuple[int, int, int]:
    now = Path(address.shown).stat()
    return now.st_ino, now.st_size, now.st_mtime_ns


def _unchanging(address: Address) -> Database:
    """Open a SQLite file that is there, and leave neither a change nor files beside it.

    With a log, SQLite reads a consistent state while others write. Without one it would make the
    log's files itself, which may be impossible or be in the owner's way: so it is told that
    nothing changes.
    """
    file = Path(address.shown)
    with explained(file), file.open("rb"):  # SQLite would not say why it cannot
        pass
    options = "mode=ro" if _has_log(address) else "mode=ro&immutable=1"
    uri = f"file:{quote(address.shown)}?{options}"
    engine = sa.create_engine(
        "sqlite+pysqlite://",
        creator=lambda: _connected(uri, address),
        poolclass=sa.NullPool,
        hide_parameters=True,
    )
    sa.event.listen(engine, "begin", _begin)
    return Database(engine, address)


def _connected(uri: str, address: Address) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        connection.execute("SELECT 1 FROM sqlite_master").close()
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"it cannot be read without the right to write ({error})",
            where=address.shown,
            remedy="wait until nobody writes to it, or read a copy",
        ) from None
    return connection


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _see_tables(database: Database, address: Address, *, must_exist: bool) -> None:
    present = database.run(_tables, read_only=True)
    if not present:
        if must_exist:
            raise NotFound(
                "there is no ledger in this database",
                where=address.shown,
                remedy=HOW_TO_MAKE_ONE,
            )
        return
    for table in (ENTRIES, OUTBOX, DELIVERIES, SPENDING):
        if not {column.name for column in table.columns} <= present.get(table.name, set()):
            raise StoreError(
                f"the table {table.name} is missing or has other columns than a ledger's",
                where=address.shown,
                remedy="use the ledger's own database, or restore it from a backup",
            )


def _tables(connection: sa.Connection) -> dict[str, set[str]]:
    """Return those of the ledger's tables that are there, with their columns."""
    inspector = sa.inspect(connection)
    return {
        table.name: {column["name"] for column in inspector.get_columns(table.name)}
        for table in (ENTRIES, OUTBOX, DELIVERIES, SPENDING)
        if inspector.has_table(table.name)
    }
