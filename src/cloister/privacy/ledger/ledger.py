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

from collections.abc import Callable, Iterable, Iterator
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
    change_of,
    checked_label,
    checked_name,
    checked_purpose,
    limit_body,
)
from cloister.privacy.ledger.limits import STANDARD_LIMITS, Consent, Limit
from cloister.privacy.ledger.opening import look, opened_for_reading
from cloister.privacy.ledger.outbox import (
    checked_payload,
    note_delivery,
    payload_in,
    pending_in,
)
from cloister.privacy.ledger.reading import entries_in, head_in, limits_in, parties_in
from cloister.privacy.ledger.spending import losses_at, refuse_order, spent
from cloister.privacy.ledger.tables import ENTRIES, LEDGER_SCHEMA
from cloister.privacy.ledger.writing import (
    Payload,
    Rules,
    account_in,
    append,
    passed,
    record,
    refuse_unknown,
    sole_writer,
)
from cloister.privacy.level import Level
from cloister.privacy.release import Release
from cloister.store.database import Database

__all__ = ["Ledger"]

T = TypeVar("T")

FROM_FILE: Final = "by the party's file"
STANDARD: Final = "the standard limit"


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger(Closing):
    """The releases of one or more parties. Threads and processes may share it.

    Parameters
    ----------
    database
        Where it is kept; the ledger's tables may lie beside others.
    require_limit, consents
        As for `Rules`.
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
    cloister.core.errors.BudgetExceeded: party "clinic-a" has spent epsilon 2.47... of 3 ...
    """

    def __init__(
        self,
        database: Database,
        *,
        require_limit: bool = False,
        consents: tuple[Consent, ...] | None = None,
        clock: Callable[[], datetime] = _now,
        read_only: bool = False,
    ) -> None:
        self.database = database
        self.rules = Rules(require_limit, consents)
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

        What the release costs is worked out before the transaction; inside it, costs are added up
        and compared with the limits. Call it outside any transaction on the same database.

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
        self._check(release, label)
        return self._write(partial(self._record, release, payload, label))

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

        Several releases may share a transaction: then all of them are recorded or none. The first
        release of its kind is worked out inside it, while other writers wait: milliseconds as a
        rule, a second at most. `release` spares them that.
        """
        return self._record(
            release, payload, checked_label(party_id, recipient, purpose), connection
        )

    def check(self, release: Release, *, party_id: str, recipient: str, purpose: str) -> None:
        """Raise `BudgetExceeded` if a release would be refused now; nothing is written.

        Another release in between may still use up what is left.
        """
        self._check(release, checked_label(party_id, recipient, purpose))

    def check_plan(self, release: Release, n_releases: int, *, party_id: str, order: float) -> None:
        """Raise `BudgetExceeded` if a plan does not fit a limit, but would at another order.

        Parameters
        ----------
        release, n_releases
            What is planned: so many equal releases.
        party_id
            Whose privacy they cost.
        order
            The one that their noise was chosen for (`planned_noise`).
        """
        read = partial(account_in, party_id=party_id, simulated=release.simulated)
        account = self.database.run(read, read_only=True)
        for limit in account.limits.values():
            refuse_order(limit, account.limits, party_id, account.spent, release, n_releases, order)

    def _check(self, release: Release, label: Label) -> None:
        read = partial(account_in, party_id=label.party_id, simulated=release.simulated)
        passed(self.database.run(read, read_only=True), release, label, self.rules)

    def _record(
        self,
        release: Release,
        payload: Payload,
        label: Label,
        connection: sa.Connection,
    ) -> Receipt:
        self._begin(connection)
        return record(
            connection,
            release,
            payload,
            label,
            clock=self._time,
            rules=self.rules,
        )

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run ``work`` in a transaction of its own; refuse to wait for this very thread."""
        with sole_writer(repr(self.database)):
            return self.database.run(work)

    def set_limit(
        self, party_id: str, limit: Limit | None, *, purpose: str, level: Level | None = None
    ) -> Entry:
        """Set a party's limit of one level, or take it away (None); the change is an entry.

        A limit below what was spent already refuses everything from now on.

        Parameters
        ----------
        level
            Where a limit is taken away: which; those of all levels unless given.
        """
        label = Label(checked_name(party_id), "", checked_purpose(purpose))

        def work(connection: sa.Connection) -> Entry:
            self._begin(connection)
            return self._append_limit(connection, label, limit_body(limit, level))

        return self._write(work)

    def begin_limits(self, party_id: str, named: Iterable[Limit] = ()) -> None:
        """Give a party its limits from the start: those of its file, else the standard ones.

        A limit of the file is set when the file is new or names another one than before: what a
        command has set since stays. A standard limit is set where nobody has ever set or taken
        away one of that level. Nothing changes while a restore holds the party; of a level that
        was held, a command alone sets the limit from then on.

        Parameters
        ----------
        named
            What the party's file names, at most one for a level.
        """
        wanted = {one.level: one for one in named}
        label = Label(checked_name(party_id), "", STANDARD)

        def work(connection: sa.Connection) -> None:
            self._begin(connection)
            known = list(entries_in(connection, party_id=party_id, kind="limit"))
            by_level = {
                level: [one for one in known if level in change_of(one.body)]
                for level in STANDARD_LIMITS
            }
            if any(here and here[-1].is_hold for here in by_level.values()):
                return
            for level, standard in STANDARD_LIMITS.items():
                here = by_level[level]
                by_file = [one.limit for one in here if one.purpose == FROM_FILE]
                if level in wanted and not any(one.is_hold for one in here):
                    if not by_file or by_file[-1] != wanted[level].fixed():
                        body = limit_body(wanted[level], None)
                        self._append_limit(connection, label._replace(purpose=FROM_FILE), body)
                elif not here:
                    self._append_limit(connection, label, limit_body(standard, None))

        self._write(work)

    def _append_limit(self, connection: sa.Connection, label: Label, body: str) -> Entry:
        return append(connection, Entry.draft("limit", self._time(), label, body, b""))

    def parties(self) -> list[str]:
        """Return all parties with a release or a limit, in the order of their names."""
        return self.database.run(parties_in, read_only=True)

    def require_party(self, party_id: str) -> None:
        """Raise `NotFound` if nobody has set a limit for a party, or said that there is none."""
        read = partial(account_in, party_id=party_id, simulated=False)
        refuse_unknown(self.database.run(read, read_only=True))

    def limits(self, party_id: str) -> dict[Level, Limit]:
        """Return the limits of a party, by level."""
        return self.database.run(partial(limits_in, party_id=party_id), read_only=True)

    def limit(self, party_id: str, level: Level | str = Level.USER) -> Limit | None:
        """Return the limit of a party at a level, if it has one."""
        return self.limits(party_id).get(Level(level))

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
        """Return what a party's releases have cost together, as a report.

        It holds if no release was chosen by what earlier ones have shown; `overview` also says
        what the filter has charged, which holds without that.

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
