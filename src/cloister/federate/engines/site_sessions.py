"""What a site remembers of every session of secure aggregation, for as long as its database lives.

A session is joined once. What a site revealed in it, and that it will reveal no more, is written
down before it leaves or is signed. A masked input locks its pages to its session: they are *free*
again if nothing left the site, or if enough holders of the site's seed have promised to reveal
nothing of it (`cloister.federate.engines.session_end`). They are deleted if the round *counted*.
Anything else keeps them locked, until they are too old.

All functions take the caller's connection: a session changes in the transaction that keeps the
answer and the ledger's entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Conflict, DataError
from cloister.federate.engines.local_trainer import Settled
from cloister.federate.engines.round_messages import RoundAnnouncement
from cloister.store.migrations import Migration

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["SESSIONS_MIGRATION", "SessionKey", "SiteSessions"]

_NAME: Final = "cloister_site_session"
_SESSION_ID: Final = re.compile(r"[0-9a-f]{64}")
_FREED, _COUNTED = "freed", "counted"
_ROWS: Final = sa.table(
    _NAME,
    sa.column("training", sa.Text),
    sa.column("session_id", sa.Text),
    sa.column("round", sa.BigInteger),  # -1 where the site never joined, and never will
    sa.column("attempt", sa.BigInteger),
    sa.column("masked", sa.BigInteger),  # whether a masked input left
    sa.column("holders", sa.Text),  # JSON: who holds shares of this site's seed
    sa.column("n_to_abort", sa.BigInteger),
    sa.column("revealed", sa.Text),  # JSON: of whose seeds this site gave shares
    sa.column("ended", sa.BigInteger),  # whether it reveals no more
    sa.column("fate", sa.Text),  # of the pages in its masked input
)


def _create_table(operations: Operations) -> None:
    operations.create_table(
        _NAME,
        sa.Column("training", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("masked", sa.BigInteger, nullable=False),
        sa.Column("holders", sa.Text, nullable=False),
        sa.Column("n_to_abort", sa.BigInteger, nullable=False),
        sa.Column("revealed", sa.Text, nullable=False),
        sa.Column("ended", sa.BigInteger, nullable=False),
        sa.Column("fate", sa.Text, nullable=False),
    )


SESSIONS_MIGRATION: Final = Migration(2, "remember sessions", _create_table)


class SessionKey(NamedTuple):
    """Which session of which training."""

    training: str
    session_id: str


class SiteSessions:
    """The sessions of one site."""

    def check_new(self, connection: sa.Connection, told: RoundAnnouncement) -> None:
        """Raise `Conflict` where the session is known: joined, or ended before it was joined."""
        key = SessionKey(told.training, told.session_id)
        if self._row(connection, key) is not None:
            raise _over(key)

    def join(self, connection: sa.Connection, told: RoundAnnouncement) -> None:
        """Write a session down before its keys leave; a round in the open has none."""
        if told.session_id:
            self.check_new(connection, told)
            key = SessionKey(told.training, told.session_id)
            self._insert(connection, key, told.round_number, told.attempt, ended=0)

    def mask(
        self, connection: sa.Connection, key: SessionKey, holders: Collection[str], n_to_abort: int
    ) -> None:
        """Lock the session's pages: a masked input is about to leave."""
        held = json.dumps(sorted(holders))
        self._change(connection, key, masked=1, holders=held, n_to_abort=n_to_abort)

    def reveal(self, connection: sa.Connection, key: SessionKey, owners: Collection[str]) -> None:
        """Write down of whose seeds shares are about to leave."""
        self._change(connection, key, revealed=json.dumps(sorted(owners)))

    def check_open(self, connection: sa.Connection, key: SessionKey) -> None:
        """Raise `Conflict` where this site has not joined, or has promised to reveal no more."""
        row = self._row(connection, key)
        if row is None or row.ended:
            raise _over(key)

    def end(self, connection: sa.Connection, key: SessionKey) -> tuple[str, ...]:
        """Write down that nothing more is revealed; return of whose seeds shares have left.

        A session that the site never joined is written down too, so that it never will.
        """
        row = self._row(connection, key)
        if row is None:
            self._insert(connection, key, -1, -1, ended=1)
            return ()
        self._change(connection, key, ended=1)
        return tuple(json.loads(row.revealed))

    def free(self, connection: sa.Connection, key: SessionKey, promised: Collection[str]) -> bool:
        """Free the session's pages if enough holders have promised; say whether they are locked.

        Parameters
        ----------
        promised
            Who has signed that it gives no share of this site's seed.
        """
        row = self._row(connection, key)
        if row is None or not row.masked or row.fate:
            return False
        if len(set(json.loads(row.holders)).intersection(promised)) < row.n_to_abort:
            return True
        self._change(connection, key, fate=_FREED)
        return False

    def settled(
        self, connection: sa.Connection, told: RoundAnnouncement, held: Collection[str]
    ) -> Settled:
        """Say of the sessions that hold pages which have counted and which are free."""
        rows = connection.execute(
            sa.select(_ROWS.c.session_id, _ROWS.c.masked, _ROWS.c.fate).where(
                _ROWS.c.training == told.training, _ROWS.c.session_id.in_(sorted(held))
            )
        ).all()
        return Settled(
            session_id=told.session_id,
            last_counted=told.last_counted,
            counted=frozenset(row.session_id for row in rows if row.fate == _COUNTED),
            free=frozenset(row.session_id for row in rows if not row.masked or row.fate == _FREED),
        )

    def count(self, connection: sa.Connection, training: str, last_counted: int) -> None:
        """Note that a round has counted: that is the last session of it with a masked input.

        The coordinator says so, and may lie: then pages are deleted that have not counted. No page
        is freed.
        """
        query = (
            sa.select(_ROWS.c.session_id, _ROWS.c.fate)
            .where(_ROWS.c.training == training, _ROWS.c.round == last_counted)
            .where(_ROWS.c.masked == 1)
            .order_by(_ROWS.c.attempt.desc())
        )
        last = connection.execute(query.limit(1)).one_or_none()
        if last is not None and not last.fate:
            self._change(connection, SessionKey(training, last.session_id), fate=_COUNTED)

    def _row(self, connection: sa.Connection, key: SessionKey) -> Any:
        return connection.execute(sa.select(_ROWS).where(_here(key))).one_or_none()

    def _insert(
        self, connection: sa.Connection, key: SessionKey, round: int, attempt: int, *, ended: int
    ) -> None:
        if not _SESSION_ID.fullmatch(key.session_id):
            raise DataError("a session's id has 64 hexadecimal digits", where=key.training)
        nothing = {"masked": 0, "holders": "[]", "n_to_abort": 0, "revealed": "[]", "fate": ""}
        row = key._asdict() | nothing | {"round": round, "attempt": attempt, "ended": ended}
        connection.execute(_ROWS.insert(), row)

    def _change(self, connection: sa.Connection, key: SessionKey, **values: Any) -> None:
        connection.execute(_ROWS.update().where(_here(key)).values(**values))


def _here(key: SessionKey) -> sa.ColumnElement[bool]:
    return sa.and_(_ROWS.c.training == key.training, _ROWS.c.session_id == key.session_id)


def _over(key: SessionKey) -> Conflict:
    return Conflict(
        "this site joined the session already, or has promised to reveal nothing more in it",
        where=f"{key.training}, session {key.session_id[:12]}",
        remedy="begin a new attempt with a new session id",
    )
