"""Updates kept in a database: SQLite's file, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.core.errors import Damaged
from cloister.federate.update_store import Keep, KeptRound, UpdateStore, kept_already
from cloister.store.database import Database
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["DatabaseUpdateStore", "kept_in", "overwrite_deleted"]

_ROWS: Final = sa.table(
    "cloister_kept_update",
    sa.column("round", sa.BigInteger),
    sa.column("client", sa.BigInteger),
    sa.column("length", sa.Double),
    sa.column("content", sa.LargeBinary),  # the update in single precision; NULL for a length
)


def _create_table(operations: Operations) -> None:
    operations.create_table(
        "cloister_kept_update",
        sa.Column("round", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("client", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("length", sa.Double, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=True),
    )


class DatabaseUpdateStore(UpdateStore):
    """Keeps updates in a database, a row a client and round.

    A round is one transaction: a process that is killed leaves all rounds up to the last whole one.

    Parameters
    ----------
    database
        Where; the table may lie beside others. It holds one training.
    keep_every, keep
        As for `UpdateStore`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.federate.tampering import Sent
    >>> with TemporaryDirectory() as folder, Database.open(Path(folder, "state.db")) as database:
    ...     store = DatabaseUpdateStore(database, keep_every=1)
    ...     store.observe(Sent(np.array([[3.0, 4.0]]), np.array([7]), np.zeros(2), 0))
    ...     store.kept_rounds()[0].lengths
    array([5.])
    """

    schema: ClassVar[Schema] = Schema(
        "kept-updates", (Migration(1, "create the table", _create_table),)
    )

    def __init__(self, database: Database, *, keep_every: int = 10, keep: Keep = "lengths") -> None:
        super().__init__(keep_every=keep_every, keep=keep)
        self.database = database
        database.migrate(self.schema)

    def forget(self, clients: Collection[int]) -> int:
        """Delete what is kept of these clients; return how many updates or lengths that was."""
        return self.database.run(lambda connection: self.forget_in(connection, clients))

    def forget_in(self, connection: sa.Connection, clients: Collection[int]) -> int:
        """Delete inside a caller's transaction.

        SQLite writes zeros over what is deleted. Copies of it are gone once its write-ahead log
        has been worked in, which readers of an old state hold up, and at the latest when the last
        connection to the database is closed; blocks that the disk has not written over, snapshots
        and backups are beyond its reach. PostgreSQL keeps deleted rows until it vacuums the table.
        """
        overwrite_deleted(connection)
        chosen = _ROWS.c.client.in_(sorted(map(int, clients)))
        return int(connection.execute(_ROWS.delete().where(chosen)).rowcount)

    def replace_in(self, connection: sa.Connection, rounds: Iterable[KeptRound]) -> None:
        """Keep these rounds, and nothing else, inside a caller's transaction."""
        overwrite_deleted(connection)
        connection.execute(_ROWS.delete())
        if rows := [row for kept in rounds for row in _rows_of(kept)]:
            connection.execute(_ROWS.insert(), rows)

    def _put(self, kept: KeptRound) -> None:
        rows = _rows_of(kept)

        def work(connection: sa.Connection) -> None:
            last = connection.scalar(sa.select(sa.func.max(_ROWS.c.round)))
            if last is not None and kept.round <= last:
                raise kept_already(kept.round)
            if rows:
                connection.execute(_ROWS.insert(), rows)

        self.database.run(work)

    def _all(self) -> Iterable[KeptRound]:
        return self.database.run(lambda connection: list(kept_in(connection)), read_only=True)


def overwrite_deleted(connection: sa.Connection) -> None:
    """Let SQLite write zeros over what this connection deletes."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def kept_in(connection: sa.Connection) -> Iterator[KeptRound]:
    """Yield all kept rounds inside a caller's transaction, by round."""
    query = sa.select(_ROWS.c.round, _ROWS.c.client, _ROWS.c.length, _ROWS.c.content)
    found = connection.execute(query.order_by(_ROWS.c.round, _ROWS.c.client))
    for number, group in groupby(found, key=lambda row: int(row[0])):
        rows = list(group)
        contents = [row[3] for row in rows if row[3] is not None]
        if contents and len(contents) < len(rows):
            raise Damaged("a kept update is missing", where=f"round {number}")
        yield KeptRound(
            number,
            np.array([row[1] for row in rows], np.int64),
            _lengths([row[2] for row in rows], number),
            _stacked(contents, number) if contents else None,
        )


def _lengths(values: list[Any], number: int) -> NDArray[np.float64]:
    try:
        lengths = np.array(values, np.float64)
    except (TypeError, ValueError):
        lengths = np.full(len(values), np.nan)
    if not (np.isfinite(lengths) & (lengths >= 0)).all():
        raise Damaged("a kept length is not a finite number from 0", where=f"round {number}")
    return lengths


def _stacked(contents: list[bytes], number: int) -> NDArray[np.float32]:
    if len({len(content) for content in contents}) != 1 or len(contents[0]) % 4:
        raise Damaged("kept updates differ in length", where=f"round {number}")
    return np.stack([np.frombuffer(content, "<f4") for content in contents]).astype(np.float32)


def _rows_of(kept: KeptRound) -> list[dict[str, Any]]:
    """Return a round as rows of the table."""
    contents: list[bytes | None] = [None] * len(kept.clients)
    if kept.updates is not None:
        contents = [update.astype("<f4").tobytes() for update in kept.updates]
    return [
        {"round": kept.round, "client": client, "length": length, "content": content}
        for client, length, content in zip(
            kept.clients.tolist(), kept.lengths.tolist(), contents, strict=True
        )
    ]
