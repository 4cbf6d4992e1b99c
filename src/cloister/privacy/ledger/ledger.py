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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

import sqlalchemy as sa

from cloister.core.closing import Closing
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
from cloister.privacy.ledger.opening import look, opened_for_reading
from cloister.privacy.ledger.outbox import (
    checked_payload,
    note_delivery,
    payload_in,
    pending_in,
)
from cloister.privacy.ledger.reading import entries_in, head_in, limit_in
from cloister.privacy.ledger.spending import losses_at, spent
from cloister.privacy.ledger.tables import ENTRIES, LEDGER_SCHEMA
from cloister.privacy.ledger.writing import (
    Account,
    Outdated,
    Payload,
    account_in,
    append,
    record,
    refuse_or_pass,
    sole_writer,
)
from cloister.privacy.level import Level
from cloister.privacy.release import Release
from cloister.store.database import Database

__all__ = ["Ledger"]

T = TypeVar("T")

N_SNAPSHOTS: Final = 3  # checks of a limit before the next one is made with the writers' lock held


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger(Closing):
    """The releases of one or more parties. Threads and processes may share it.

    Parameters
    ----------
    database
        Where it is kept; the ledger's tables may lie beside others.
    require_limit
        Refuse releases of parties that have no limit.
    clock
        Tells the time of an entry.
    read_only
        Change nothing, not even the form of tables that an older program made.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.privacy.releases.gaussian import GaussianRelease
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
        read_only: bool = False,
    ) -> None:
        self.database = database
        self.require_limit = require_limit
        self._clock = clock
        if not read_only:
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
        look(address, must_exist=not create)
        database = Database.open(address)
        try:
            return cls(database, require_limit=require_limit)
        except BaseException:
            database.close()
            raise

    @classmethod
    @contextmanager
    def reading(cls, address: str | Path) -> Iterator[Self]:
        """Give a ledger that exists for reading alone; as `opened_for_reading` does."""
        with opened_for_reading(address) as database:
            yield cls(database, read_only=True)

    def release(
        self, release: Release, payload: Payload, *, party_id: str, recipient: str, purpose: str
    ) -> Receipt:
        """Record a release with its payload, or refuse; send nothing before this returns.

        What it costs is worked out before the transaction, which only sees that the party's
        account is still the same; after three changes meanwhile, inside it. Call it outside any
        transaction on the same database.

        Parameters
        ----------
        release
            What protects the payload.
        payload
            The protected bytes, noise included; or a function that returns them and may store what
            else belongs to the release through the connection that it gets. It is called after the
            limit was checked, again if another transaction was in the way, and must change nothing
            but the database. Releases of its own go through `release_in` with that connection.
        party_id
            Whose privacy it costs.
        recipient
            Who gets it.
        purpose
            Why, in a line of text.
        """
        label = checked_label(party_id, recipient, purpose)
        payload = payload if callable(payload) else checked_payload(payload)
        read = partial(account_in, party_id=party_id, simulated=release.simulated)
        for _ in range(N_SNAPSHOTS):
            seen = self.database.run(read, read_only=True)
            refuse_or_pass(seen, release, require_limit=self.require_limit)
            try:
                return self._write(partial(self._record, release, payload, label, seen))
            except Outdated:
                continue
        return self._write(partial(self._record, release, payload, label, None))

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

        Several releases may share a transaction: then all of them are recorded or none. The limit
        is checked inside it, and other writers wait meanwhile: for milliseconds as a rule, but for
        seconds where many different releases come near a limit. `release` spares them that.
        """
        label = checked_label(party_id, recipient, purpose)
        return self._record(release, payload, label, None, connection)

    def check(self, release: Release, *, party_id: str) -> None:
        """Raise `BudgetExceeded` if a release would be refused now; nothing is written.

        Another release in between may still use up what is left.
        """
        read = partial(account_in, party_id=checked_name(party_id), simulated=release.simulated)
        seen = self.database.run(read, read_only=True)
        refuse_or_pass(seen, release, require_limit=self.require_limit)

    def _record(
        self,
        release: Release,
        payload: Payload,
        label: Label,
        checked: Account | None,
        connection: sa.Connection,
    ) -> Receipt:
        self._begin(connection)
        return record(
            connection,
            release,
            payload,
            label,
            clock=self._time,
            checked=checked,
            require_limit=self.require_limit,
        )

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run ``work`` in a transaction of its own; refuse to wait for this very thread."""
        with sole_writer(repr(self.database)):
            return self.database.run(work)

    def set_limit(self, party_id: str, limit: Limit | None, *, purpose: str) -> Entry:
        """Set or take away (None) a party's limit; the change is an entry of its own.

        A limit below what was spent already refuses everything from now on.
        """
        label = Label(checked_name(party_id), "", checked_purpose(purpose))
        body = "null" if limit is None else limit.canonical()

        def work(connection: sa.Connection) -> Entry:
            self._begin(connection)
            return append(connection, Entry.draft("limit", self._time(), label, body, b""))

        return self._write(work)

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
        self._write(partial(note_delivery, number=number, delivered_at=self._time()))

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
