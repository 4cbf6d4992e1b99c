"""A component with a column of every kind, and what a killed process does with it."""

from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path

import sqlalchemy as sa
from alembic.operations import Operations

from cloister.store import Database, Files, Migration, Schema
from cloister.store.backup import BackupSource, write_backup
from cloister.store.backup_archive import MemberStream
from cloister.store.restore import BackupTarget, opened_backup, restore

VISITS = sa.table(
    "cloister_visit",
    sa.column("number", sa.BigInteger),
    sa.column("length", sa.Double),
    sa.column("note", sa.Text),
    sa.column("image", sa.LargeBinary),
    sa.column("paid", sa.Boolean),
)
TALLY = sa.table(
    "cloister_tally", sa.column("place", sa.Integer), sa.column("total", sa.BigInteger)
)


def _create(operations: Operations) -> None:
    operations.create_table(
        "cloister_tally",
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("total", sa.BigInteger, nullable=False),
    )
    operations.create_table(
        "cloister_visit",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("length", sa.Double),
        sa.Column("note", sa.Text),
        sa.Column("image", sa.LargeBinary),
        sa.Column("paid", sa.Boolean),
        sa.Column("place", sa.Integer, sa.ForeignKey("cloister_tally.place")),
    )
    operations.execute("INSERT INTO cloister_tally VALUES (1, 0)")


def _add_mood(operations: Operations) -> None:
    operations.add_column("cloister_visit", sa.Column("mood", sa.Text))
    operations.execute("UPDATE cloister_visit SET mood = 'unknown'")


FIRST = Schema("visits", (Migration(1, "create", _create),))
SECOND = Schema("visits", (*FIRST.migrations, Migration(2, "add mood", _add_mood)))

ROWS = [
    {"number": -(2**63), "length": 0.1, "note": "Zoë \U0001f3e5 'x'\n\\u0000", "image": b"\0\xff"},
    {"number": 2**63 - 1, "length": -math.inf, "note": "", "image": b"", "paid": True},
    {"number": 0, "length": -0.0, "note": "\ufeff\ue000\x7f\x01", "paid": False},
    {"number": 7, "length": 5e-324, "note": None, "image": None, "paid": None},
]


def filled(address: str, *, n_more: int = 0) -> Database:
    """Return a database with rows of every kind."""
    database = Database.open(address)
    database.migrate(FIRST)
    usual = {"length": None, "note": None, "image": None, "paid": None}
    more = [{**usual, "number": 100 + i, "note": "x" * 1000} for i in range(n_more)]
    with database.transaction() as connection:
        connection.execute(VISITS.insert(), [usual | row for row in ROWS] + more)
        connection.execute(TALLY.insert(), [{"place": 5, "total": 6}])
    return database


def rows(database: Database, table: sa.TableClause = VISITS) -> list[tuple[str, ...]]:
    """Return all rows, in the order of their first column; floats as they print, for -0.0."""
    query = sa.select(table).order_by(table.columns[0])
    with database.reading() as connection:
        return [tuple(repr(v) for v in row) for row in connection.execute(query)]


def die_backing_up(address: str, out: str) -> None:
    """Die after the tables, when files are asked for."""

    def dying() -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        yield

    source = BackupSource(Database.open(address), home=dying())  # type: ignore[arg-type]
    write_backup(source, out, version="1")


def die_restoring(path: str, address: str, folder: str, when: str) -> None:
    """Die while the rows are written, or in the transaction's last moment."""

    def die(*ignored: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if when == "in the home":
        MemberStream.pieces = die  # type: ignore[assignment,method-assign]
    target = BackupTarget(
        Database.open(address), [FIRST], Path(folder, "files"), Path(folder, "home")
    )
    if when == "after the folders":
        Database._check_foreign_keys = die  # type: ignore[assignment,method-assign]
    with opened_backup(path) as opened:
        also = die if when == "before the folders" else lambda connection: None
        restore(opened, target, also=also)


def store_files(folder: Path) -> Files:
    files = Files(folder)
    files.put(b"a model")
    files.put(b"m" * 3_000_000)
    return files


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
