"""Migrations: how a component's tables came to be, one numbered step after the other.

Each component (the ledger, a federation, ...) has its own linear history. A step and its record
are one transaction, in SQLite as in PostgreSQL, so a killed process leaves a step done or not
begun. Two processes that migrate at once take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from cloister.core.contention import patiently
from cloister.core.errors import StoreError
from cloister.core.ids import checked_id

if TYPE_CHECKING:
    from alembic.operations import Operations

    from cloister.store.database import Database

__all__ = [
    "HISTORY",
    "METADATA",
    "Migration",
    "Schema",
    "migrate",
    "operations_on",
    "sole_migrator",
]

_LOCK_KEY: Final = int.from_bytes(b"cloister", "big")  # PostgreSQL's advisory locks are numbers

METADATA: Final = sa.MetaData()
HISTORY: Final = sa.Table(
    "cloister_migration",
    METADATA,
    sa.Column("component", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("applied_at", sa.Text, nullable=False),  # ISO 8601, UTC
)


@dataclass(frozen=True)
class Migration:
    """One step: what it does to the tables, through alembic's operations.

    Where SQLite cannot change a table in place, ``operations.batch_alter_table`` can. A step that
    was ever applied somewhere must not be edited; add the next one.
    """

    number: int
    name: str
    upgrade: Callable[[Operations], None]


@dataclass(frozen=True)
class Schema:
    """The history of one component, numbered 1, 2, 3, ...

    Examples
    --------
    >>> schema = Schema("ledger", (Migration(1, "releases", lambda operations: None),))
    >>> schema.migrations[0].name
    'releases'
    """

    component: str
    migrations: tuple[Migration, ...]

    def __post_init__(self) -> None:
        checked_id(self.component)
        numbers = [migration.number for migration in self.migrations]
        if numbers != list(range(1, len(numbers) + 1)):
            raise StoreError(
                f"migrations are numbered {numbers}",
                where=self.component,
                remedy="number them 1, 2, 3, ... in order",
            )

    def missing_after(self, applied: list[str]) -> tuple[Migration, ...]:
        """Return the steps still to do, given the names of those recorded, or refuse."""
        names = [migration.name for migration in self.migrations]
        if len(applied) > len(names):
            raise StoreError(
                f"the database is newer than this program: it has migration {len(applied)} "
                f"({applied[-1]!r}), the program knows {len(names)}",
                where=self.component,
                remedy="install the newer version of Cloister",
            )
        for number, (recorded, known) in enumerate(zip(applied, names, strict=False), start=1):
            if recorded != known:
                raise StoreError(
                    f"migration {number} is {recorded!r} in the database and {known!r} here",
                    where=self.component,
                    remedy="use the program that made this database, or another database",
                )
        return self.migrations[len(applied) :]


def migrate(database: Database, schema: Schema) -> tuple[Migration, ...]:
    """Apply what is missing, each step in its own transaction; return what was applied here."""
    if not database.run(partial(_missing, schema), read_only=True):
        return ()
    applied: list[Migration] = []
    patiently(partial(_apply_all, database, schema, applied))
    return tuple(applied)


def _missing(schema: Schema, connection: sa.Connection) -> tuple[Migration, ...]:
    if not sa.inspect(connection).has_table(HISTORY.name):
        return schema.missing_after([])
    query = (
        sa.select(HISTORY.c.number, HISTORY.c.name)
        .where(HISTORY.c.component == schema.component)
        .order_by(HISTORY.c.number)
    )
    rows = connection.execute(query).all()
    if [row.number for row in rows] != list(range(1, len(rows) + 1)):
        raise StoreError("the record of migrations has gaps", where=schema.component)
    return schema.missing_after([row.name for row in rows])


def _apply_all(database: Database, schema: Schema, applied: list[Migration]) -> None:
    with sole_migrator(database):
        while (migration := _apply_next(database, schema)) is not None:
            applied.append(migration)


@contextmanager
def sole_migrator(database: Database) -> Iterator[None]:
    """Keep other migrators out.

    PostgreSQL: by an advisory lock, held by a transaction of its own, because one that waits for
    the lock would go on to read the state from before its wait. SQLite: a writer is always alone.
    """
    if database.kind == "sqlite":
        yield
        return
    with database.transaction() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_KEY)))
        yield


def _apply_next(database: Database, schema: Schema) -> Migration | None:
    with database.restructuring() as connection:
        METADATA.create_all(connection)
        missing = _missing(schema, connection)
        if not missing:
            return None
        migration = missing[0]
        migration.upgrade(operations_on(connection))
        connection.execute(
            HISTORY.insert().values(
                component=schema.component,
                number=migration.number,
                name=migration.name,
                applied_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )
    return migration


def operations_on(connection: sa.Connection) -> Operations:
    """Return alembic's operations on a connection."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    return Operations(MigrationContext.configure(connection))
