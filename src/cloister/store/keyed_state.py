"""Small JSON records by namespace and key, each with a version number.

Every method takes the caller's connection, so several records and the caller's own tables can
change in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import sqlalchemy as sa

from cloister.core.errors import Conflict, SettingsError, StoreError
from cloister.core.ids import checked_id
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["Entry", "Json", "KeyedState"]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_NAME_BYTES: Final = 1024  # two such names fit into one index entry of PostgreSQL (2,704 bytes)

_table = sa.table(
    "cloister_keyed_state",
    sa.column("namespace", sa.Text),
    sa.column("name", sa.Text),
    sa.column("version", sa.BigInteger),
    sa.column("value", sa.Text),  # JSON in ASCII; NULL where the record was deleted
)


def _create_table(operations: Operations) -> None:
    operations.create_table(
        "cloister_keyed_state",
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Text, nullable=True),
    )


class Entry(NamedTuple):
    """A record as it was read: lists for JSON arrays, dicts for JSON objects."""

    value: Any
    version: int


class _Stored(NamedTuple):
    """A row; a deleted record keeps its row, with the version, and has no value."""

    version: int
    value: str | None


class KeyedState:
    """The records of one namespace.

    A record's version is 1 when it is first put and grows with every change. It goes on growing
    when a record is deleted and put again, so an old version number never fits a new record.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.store.database import Database
    >>> rounds = KeyedState("rounds")
    >>> with TemporaryDirectory() as folder, Database.open(Path(folder, "state.db")) as database:
    ...     _ = database.migrate(KeyedState.schema)
    ...     with database.transaction() as connection:
    ...         version = rounds.put(connection, "current", {"round": 3}, expected_version=0)
    ...         rounds.get(connection, "current")
    Entry(value={'round': 3}, version=1)
    """

    schema: ClassVar[Schema] = Schema(
        "keyed-state", (Migration(1, "create the table", _create_table),)
    )

    def __init__(self, namespace: str) -> None:
        self.namespace = _checked_name(namespace)

    def get(self, connection: sa.Connection, key: str) -> Entry | None:
        """Return the record, or None where there is none."""
        row = self._row(connection, key)
        if row is None or row.value is None:
            return None
        return Entry(json.loads(row.value), row.version)

    def put(
        self,
        connection: sa.Connection,
        key: str,
        value: Json,
        *,
        expected_version: int | None = None,
    ) -> int:
        """Store a value and return its version.

        Parameters
        ----------
        expected_version
            Raise `Conflict` unless the record has this version now; 0 stands for no record. By
            default the value is stored whatever was there.
        """
        text = _as_json(value, where=f"{self.namespace}/{key}")
        row = self._row(connection, key)
        self._expect(expected_version, row, key)
        if row is None:
            connection.execute(
                _table.insert().values(namespace=self.namespace, name=key, version=1, value=text)
            )
            return 1
        self._update(connection, key, version=row.version + 1, value=text)
        return row.version + 1

    def delete(
        self, connection: sa.Connection, key: str, *, expected_version: int | None = None
    ) -> bool:
        """Delete the record; return whether there was one."""
        row = self._row(connection, key)
        self._expect(expected_version, row, key)
        if row is None or row.value is None:
            return False
        self._update(connection, key, version=row.version + 1, value=None)
        return True

    def keys(self, connection: sa.Connection, *, prefix: str = "") -> list[str]:
        """Return the keys that start with ``prefix``, in the order of their code points."""
        query = sa.select(_table.c.name).where(
            _table.c.namespace == self.namespace, _table.c.value.is_not(None)
        )
        if prefix:
            query = query.where(sa.func.substr(_table.c.name, 1, len(prefix)) == prefix)
        return sorted(connection.scalars(query))

    def items(self, connection: sa.Connection, *, last: int | None = None) -> dict[str, Any]:
        """Return values by key in one query, or of the last so many keys.

        Keys come in the database's order of text, which for numbers of one length is their order.
        """
        query = sa.select(_table.c.name, _table.c.value).where(
            _table.c.namespace == self.namespace, _table.c.value.is_not(None)
        )
        newest_first = connection.execute(query.order_by(_table.c.name.desc()).limit(last)).all()
        return {row.name: json.loads(row.value) for row in reversed(newest_first)}

    def _here(self, key: str) -> sa.ColumnElement[bool]:
        return sa.and_(_table.c.namespace == self.namespace, _table.c.name == _checked_name(key))

    def _row(self, connection: sa.Connection, key: str) -> _Stored | None:
        query = sa.select(_table.c.version, _table.c.value).where(self._here(key))
        row = connection.execute(query).one_or_none()
        return None if row is None else _Stored(*row)

    def _update(
        self, connection: sa.Connection, key: str, *, version: int, value: str | None
    ) -> None:
        connection.execute(
            _table.update().where(self._here(key)).values(version=version, value=value)
        )

    def _expect(self, expected: int | None, row: _Stored | None, key: str) -> None:
        found = 0 if row is None or row.value is None else row.version
        if expected is not None and expected != found:
            raise Conflict(
                f"the record has version {found}, not {expected}",
                where=f"{self.namespace}/{key}",
                remedy="read it again and repeat the change",
            )


def _checked_name(name: str) -> str:
    checked_id(name)
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise SettingsError("a name must be valid Unicode", where=ascii(name[:80])) from None
    if size_bytes > MAX_NAME_BYTES:
        raise SettingsError(
            f"a name has at most {MAX_NAME_BYTES} bytes in UTF-8", where=repr(name[:80])
        )
    return name


def _as_json(value: Json, *, where: str) -> str:
    """Write a value as JSON, if it comes back as it was.

    The text is ASCII, with escapes for the rest: PostgreSQL's text has neither NUL characters nor
    lone surrogates, and a JSON string may have both.
    """
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
        if json.loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    raise StoreError(
        "the value would not come back from JSON as it is",
        where=where,
        remedy="use None, bool, int, finite float, str, lists, and dicts with str as keys",
    )
