"""An empty database that becomes the one of a backup, inside one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from cloister.core.errors import SettingsError, StoreError
from cloister.store.backup import MAX_ROW_BYTES, backed_up_tables
from cloister.store.backup_archive import MemberStream, damaged
from cloister.store.backup_manifest import BackupManifest, BackupTable
from cloister.store.backup_rows import (
    columns_of,
    decoded_row,
    refuse_what_cannot_be_held,
    table_of,
)
from cloister.store.database import Database
from cloister.store.migrations import (
    HISTORY,
    METADATA,
    Migration,
    Schema,
    operations_on,
    sole_migrator,
)

__all__ = ["RowWriter", "restructured"]

N_ROWS_AT_ONCE: Final = 500
MOST_BYTES_AT_ONCE: Final = 1 << 22


@contextmanager
def restructured(
    database: Database, manifest: BackupManifest, known: Mapping[str, Schema]
) -> Iterator[tuple[sa.Connection, RowWriter]]:
    """Give a transaction in which an empty database has the backup's tables, without rows.

    Raises `SettingsError` where the database has tables of Cloister's, and `StoreError` where the
    backup comes from migrations that this program does not know.
    """
    applied = _applied(manifest, known)
    with sole_migrator(database), database.restructuring() as connection:
        if backed_up_tables(connection):
            raise SettingsError(
                "there is something of Cloister's in this database",
                where=database.shown,
                remedy="restore into an empty one",
            )
        METADATA.create_all(connection)
        for component, names in applied.items():
            for migration in known[component].migrations[: len(names)]:
                migration.upgrade(operations_on(connection))
        _check_tables(connection, manifest)
        yield connection, RowWriter(connection, database.kind, manifest, known)


def _applied(manifest: BackupManifest, known: Mapping[str, Schema]) -> dict[str, list[str]]:
    """Return the names of the backup's migrations by component, all of which are known."""
    applied: dict[str, list[str]] = defaultdict(list)
    for one in manifest.migrations:
        if one.component not in known:
            raise StoreError(
                "this program knows no such component",
                where=one.component,
                remedy=f"restore it with the version that made it ({manifest.version}) or a newer",
            )
        applied[one.component].append(one.name)
        if one.number != len(applied[one.component]):
            raise damaged("the record of migrations has gaps", one.component)
    for component, names in applied.items():
        known[component].missing_after(names)
    return applied


def _check_tables(connection: sa.Connection, manifest: BackupManifest) -> None:
    """Raise unless the migrations made just the tables that the backup holds."""
    made = {name: columns_of(connection, name) for name in backed_up_tables(connection)}
    if not manifest.tables:
        return
    for table in manifest.tables:
        if set(made.pop(table.name, ())) != set(table.typed):
            raise damaged("not a table that its migrations make", table.name)
    for name in made:
        raise damaged("a table is missing in the backup", name)


class RowWriter:
    """Puts rows into tables, many at a time."""

    def __init__(
        self,
        connection: sa.Connection,
        database_kind: str,
        manifest: BackupManifest,
        known: Mapping[str, Schema],
    ) -> None:
        self._connection = connection
        self._kind = database_kind
        self._manifest = manifest
        self._known = known
        self._tables = {table.name: table for table in manifest.tables}
        self._n_rows: Counter[str] = Counter()
        for table in reversed(manifest.tables):  # what migrations put in is in the backup, too
            connection.execute(sa.delete(table_of(table.name, table.typed)))

    def write(self, name: str, member: MemberStream) -> None:
        """Write the rows of a member."""
        table = self._tables[name]
        rows: list[dict[str, Any]] = []
        n_bytes = 0
        for line in member.lines(longest=MAX_ROW_BYTES):
            rows.append(self._row(line, table))
            n_bytes += len(line)
            if len(rows) >= N_ROWS_AT_ONCE or n_bytes >= MOST_BYTES_AT_ONCE:
                self._insert(table, rows)
                rows, n_bytes = [], 0
        self._insert(table, rows)

    def finish(self) -> None:
        """See that all rows came, and bring the tables up to date."""
        for table in self._manifest.tables:
            if self._n_rows[table.name] != table.n_rows:
                raise damaged("rows are missing, or too many", table.name)
        if self._kind == "sqlite":  # which looks at the end only, when folders have their names
            for broken in self._connection.exec_driver_sql("PRAGMA foreign_key_check"):
                raise damaged("a row refers to one that does not exist", broken[0])
        else:
            for table in self._manifest.tables:
                _count_on(self._connection, table)
        for component in sorted({one.component for one in self._manifest.migrations}):
            self._bring_up_to_date(self._known[component])

    def _row(self, line: bytes, table: BackupTable) -> dict[str, Any]:
        columns = table.typed
        row = decoded_row(line, columns, where=table.name)
        refuse_what_cannot_be_held(row, columns, self._kind, where=table.name)
        return dict(zip((one.name for one in columns), row, strict=True))

    def _insert(self, table: BackupTable, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(sa.insert(table_of(table.name, table.typed)), rows)
            self._n_rows[table.name] += len(rows)

    def _bring_up_to_date(self, schema: Schema) -> None:
        done = [one.name for one in self._manifest.migrations if one.component == schema.component]
        for migration in schema.missing_after(done):
            migration.upgrade(operations_on(self._connection))
            self._connection.execute(HISTORY.insert().values(**_record(schema, migration)))


def _record(schema: Schema, migration: Migration) -> dict[str, Any]:
    return {
        "component": schema.component,
        "number": migration.number,
        "name": migration.name,
        "applied_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _count_on(connection: sa.Connection, table: BackupTable) -> None:
    """Let PostgreSQL number new rows after those that came from the backup."""
    for column in table.typed:
        if column.kind != "integer":
            continue
        find = sa.func.pg_get_serial_sequence(f'"{table.name}"', column.name)
        sequence = connection.scalar(sa.select(find))
        if sequence is None:
            continue
        clause = table_of(table.name, table.typed)
        last = connection.scalar(sa.select(sa.func.max(clause.c[column.name])))
        if last is not None and last > 0:
            connection.execute(sa.select(sa.func.setval(sequence, last)))
