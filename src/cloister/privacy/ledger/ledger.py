"""The ledger: every release is recorded with its payload before it may be sent, or is refused.

A release and its payload are written in one transaction (a transactional outbox). Only then is the
payload sent, and after that reported as delivered. A crash leaves nothing recorded and nothing
sent, or recorded and waiting; then the same bytes are sent again, never noised anew. A recipient
may therefore get a payload twice, and knows it by its number.

What it proves: what was recorded, in which order, and that nobody changed an entry without changing
all later hashes. Whoever can rewrite the whole database can make a new chain; who wrote down an
earlier `Head` elsewhere can tell. It cannot know of what is sent past it, nor whether a release
truly had the noise that it states.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from cloister.core.errors import NotFound
from cloister.privacy.accounting import Accounting, Cost, composed_epsilon
from cloister.privacy.ledger.entry import (
    Entry,
    Head,
    Label,
    Receipt,
    checked_label,
    checked_name,
    checked_purpose,
)
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import note_delivery, payload_in, pending_in, put_pending
from cloister.privacy.ledger.reading import entries_in, head_in, limit_in
from cloister.privacy.ledger.spending import add_spent, losses_at, spent, spent_by
from cloister.privacy.ledger.tables import ENTRIES, LEDGER_SCHEMA
from cloister.privacy.ledger.writing import append, refuse_or_pass
from cloister.privacy.level import Level
from cloister.privacy.release import Release
from cloister.store.addresses import parse_address
from cloister.store.database import Database

__all__ = ["Ledger"]

Payload = bytes | Callable[[sa.Connection], bytes]


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """The releases of one or more parties. Threads and processes may share it.

    Parameters
    ----------
    database
        Where it is kept; the ledger's tables may lie beside others.
    require_limit
        Refuse releases of parties that have no limit.
    clock
        Tells the time of an entry.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.privacy.release import GaussianRelease
    >>> noisy = GaussianRelease(level="user", sigma=2.0, sensitivity=1.0)
    >>> with TemporaryDirectory() as folder, Ledger.open(Path(folder, "ledger.db")) as ledger:
    ...     _ = ledger.set_limit("clinic-a", Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
    ...     receipt = ledger.release(noisy, b"noised sums", party_id="clinic-a",
    ...                              recipient="coordinator", purpose="round 1")
    ...     ledger.release(noisy, b"noised sums", party_id="clinic-a",
    ...                    recipient="coordinator", purpose="round 2")
    Traceback (most recent call last):
    ...
    cloister.core.errors.BudgetExceeded: party "clinic-a" has spent epsilon 2.254... of 3 ...
    """

    def __init__(
        self,
        database: Database,
        *,
        require_limit: bool = False,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.database = database
        self.require_limit = require_limit
        self._clock = clock
        database.migrate(LEDGER_SCHEMA)

    @classmethod
    def open(cls, address: str | Path, *, create: bool = True, require_limit: bool = False) -> Self:
        """Open a ledger by its file or address.

        Parameters
        ----------
        address
            As for `Database.open`.
        create
            Make the ledger where there is none; else that is an error.
        require_limit
            As for the class.
        """
        if not create:
            _see_that_it_exists(address)
        database = Database.open(address)
        try:
            if not create and not database.run(_has_tables, read_only=True):
                raise NotFound(
                    "there is no ledger in this database",
                    where=parse_address(address).shown,
                    remedy="check the address",
                )
            return cls(database, require_limit=require_limit)
        except BaseException:
            database.close()
            raise

    def release(
        self, release: Release, payload: Payload, *, party_id: str, recipient: str, purpose: str
    ) -> Receipt:
        """Record a release with its payload, or refuse; send nothing before this returns.

        Parameters
        ----------
        release
            What protects the payload.
        payload
            The protected bytes, noise included; or a function that returns them and may store what
            else belongs to the release through the connection that it gets. It is called after the
            limit was checked, again if another transaction was in the way, and must change nothing
            but the database.
        party_id
            Whose privacy it costs.
        recipient
            Who gets it.
        purpose
            Why, in a line of text.
        """
        return self.database.run(
            partial(
                self.release_in,
                release=release,
                payload=payload,
                party_id=party_id,
                recipient=recipient,
                purpose=purpose,
            )
        )

    def release_in(
        self,
        connection: sa.Connection,
        release: Release,
        payload: Payload,
        *,
        party_id: str,
        recipient: str,
        purpose: str,
    ) -> Receipt:
        """Record a release inside a caller's transaction; the receipt counts once that commits.

        Several releases may share a transaction: then all of them are recorded or none.
        """
        label = checked_label(party_id, recipient, purpose)
        self._begin(connection)
        refuse_or_pass(connection, release, party_id, require_limit=self.require_limit)
        if callable(payload):
            payload = payload(connection)
            # It may have recorded releases of its own.
            refuse_or_pass(connection, release, party_id, require_limit=self.require_limit)
        body = release.canonical()
        entry = append(connection, Entry.draft("release", self._time(), label, body, payload))
        put_pending(connection, entry.number, payload)
        add_spent(connection, spent_by(entry))
        return entry.receipt()

    def set_limit(self, party_id: str, limit: Limit | None, *, purpose: str) -> Entry:
        """Set or take away (None) a party's limit; the change is an entry of its own.

        A limit below what was spent already refuses everything from now on.
        """
        label = Label(checked_name(party_id), "", checked_purpose(purpose))
        body = "null" if limit is None else limit.canonical()

        def work(connection: sa.Connection) -> Entry:
            self._begin(connection)
            return append(connection, Entry.draft("limit", self._time(), label, body, b""))

        return self.database.run(work)

    def limit(self, party_id: str) -> Limit | None:
        """Return the limit of a party, if it has one."""
        return self.database.run(partial(limit_in, party_id=party_id), read_only=True)

    def cost(
        self,
        party_id: str,
        *,
        delta: float,
        level: Level | str = Level.USER,
        recipient: str | None = None,
        simulated: bool = False,
        method: Accounting = "tightest",
    ) -> Cost:
        """Return what a party's releases have cost together.

        Parameters
        ----------
        party_id
            Whose releases.
        delta
            The chance with which the result may fail.
        level
            The unit that is meant.
        recipient
            Count what this one got only: it holds if recipients do not share. By default all count
            together, as limits do.
        simulated
            Count simulated releases, which protect nobody, instead of real ones.
        method
            As for `composed_epsilon`.
        """
        read = partial(spent, party_id=party_id, simulated=simulated, recipient=recipient)
        counted = self.database.run(read, read_only=True)
        return composed_epsilon(losses_at(Level(level), counted), delta, method=method)

    def pending(self, *, party_id: str | None = None, recipient: str | None = None) -> list[Entry]:
        """Return what is recorded and not yet delivered, oldest first."""
        read = partial(pending_in, party_id=party_id, recipient=recipient)
        return self.database.run(read, read_only=True)

    def payload(self, number: int) -> bytes:
        """Return the bytes of a pending release, checked against their digest."""
        return self.database.run(partial(payload_in, number=number), read_only=True)

    def delivered(self, number: int) -> None:
        """Note that a payload has arrived: the bytes are dropped, their digest stays.

        A second call for the same number changes nothing.
        """
        self.database.run(partial(note_delivery, number=number, delivered_at=self._time()))

    def deliver(self, send: Callable[[Entry, bytes], None], *, recipient: str | None = None) -> int:
        """Send all that is pending, oldest first; return how many were delivered.

        ``send`` raises where the recipient has not confirmed; what is left stays pending.
        """
        waiting = self.pending(recipient=recipient)
        for entry in waiting:
            send(entry, self.payload(entry.number))
            self.delivered(entry.number)
        return len(waiting)

    def head(self) -> Head:
        """Return the number and hash of the last entry."""
        return self.database.run(head_in, read_only=True)

    def entries(self, *, party_id: str | None = None) -> list[Entry]:
        """Return all entries in order, or those of one party; `entries_in` reads them one by one.

        The whole list is of one state of the ledger.
        """
        read = partial(entries_in, party_id=party_id)
        return self.database.run(lambda connection: list(read(connection)), read_only=True)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, connection: sa.Connection) -> None:
        """Let writers take turns.

        SQLite has one writer at a time. In PostgreSQL each new entry depends on the last, so that
        of two at once one would have to begin again; a lock comes before the transaction's view
        of the data is fixed, if it is the first statement.
        """
        if self.database.kind == "postgresql":
            connection.exec_driver_sql(f"LOCK TABLE {ENTRIES.name} IN EXCLUSIVE MODE")

    def _time(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="microseconds")


def _has_tables(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table(ENTRIES.name)


def _see_that_it_exists(address: str | Path) -> None:
    parsed = parse_address(address)
    if parsed.url.drivername == "sqlite+pysqlite" and not Path(parsed.shown).exists():
        raise NotFound("there is no ledger here", where=parsed.shown, remedy="check the address")
