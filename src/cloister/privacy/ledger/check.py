"""Whether a ledger is whole: the chain, the payloads, the counts and the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, CloisterError, Damaged
from cloister.privacy.filters import Charge
from cloister.privacy.ledger.entry import BEGINNING, Entry, Head, change_of, entry_hash
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import failures_in, payload_in
from cloister.privacy.ledger.reading import entries_in, limits_in, parties_in
from cloister.privacy.ledger.spending import Spent, charged, counted_as, spent, spent_by
from cloister.privacy.ledger.tables import DELIVERIES, OUTBOX, SPENDING

__all__ = ["Checked", "check_ledger"]


class Checked(NamedTuple):
    """What was found whole."""

    n_entries: int
    n_releases: int
    n_pending: int
    head: Head


def check_ledger(ledger: Ledger, *, pinned: str | None = None) -> Checked:
    """Raise `Damaged` at the first damage, or `BudgetExceeded` for a party beyond its limit.

    It shows that no entry was changed, left out or put in between without changing all later
    hashes. It does not show that nobody wrote the whole ledger anew, or left out its end: for that
    give a head that was written down elsewhere.

    Parameters
    ----------
    ledger
        What to check; one state of it is read.
    pinned
        The hash of an entry that must be there.
    """
    return ledger.database.run(partial(_check, pinned=pinned), read_only=True)


def _check(connection: sa.Connection, *, pinned: str | None) -> Checked:
    counted: Counter[Spent] = Counter()
    releases: set[int] = set()
    head = Head(0, BEGINNING)
    pin_found = pinned is None or pinned == BEGINNING
    for entry in _chain(connection):
        head = Head(entry.number, entry.hash)
        pin_found = pin_found or entry.hash == pinned
        if entry.kind == "release":
            releases.add(entry.number)
            counted[_read(entry)] += 1
        else:
            _read_limit(entry)
    if not pin_found:
        raise Damaged(
            "no entry has the hash that was written down",
            where=f"head {pinned}",
            remedy="this is another ledger, or its past was changed: restore it from a backup",
        )
    n_pending = _check_outbox(connection, releases)
    _check_counts(connection, counted)
    _check_limits(connection)
    return Checked(head.number, len(releases), n_pending, head)


def _chain(connection: sa.Connection) -> Iterator[Entry]:
    """Read all entries, each checked against the one before."""
    beginning = Entry(0, "limit", "", "", "", "", "", "", 0, "", BEGINNING)
    for before, entry in pairwise(_after(beginning, entries_in(connection))):
        where = f"ledger entry {entry.number}"
        if entry.number != before.number + 1:
            raise Damaged(f"entry {before.number + 1} is missing", where=where)
        if entry.previous != before.hash:
            raise Damaged("the chain is broken: the entry before is another one", where=where)
        if not _hash_fits(entry):
            raise Damaged("the entry was changed: its hash does not fit", where=where)
        if entry.kind not in ("release", "limit"):
            raise Damaged(f"entries of kind {entry.kind!r} are not known", where=where)
        yield entry


def _hash_fits(entry: Entry) -> bool:
    try:
        return entry.hash == entry_hash(entry)
    except TypeError:  # SQLite keeps whatever somebody else puts into a column
        return False


def _after(first: Entry, rest: Iterator[Entry]) -> Iterator[Entry]:
    yield first
    yield from rest


def _read(entry: Entry) -> Spent:
    try:
        return spent_by(entry)
    except CloisterError as error:
        raise Damaged(error.what, where=f"ledger entry {entry.number}") from None


def _read_limit(entry: Entry) -> None:
    try:
        change_of(entry.body)
    except (CloisterError, ValueError, TypeError, KeyError, AttributeError):
        raise Damaged("not a limit", where=f"ledger entry {entry.number}") from None


def _check_outbox(connection: sa.Connection, releases: set[int]) -> int:
    """See that each release waits, was delivered or failed; that waiting payloads are unchanged."""
    waiting = set(connection.scalars(sa.select(OUTBOX.c.number)))
    ended = Counter(connection.scalars(sa.select(DELIVERIES.c.number)))
    ended.update(one.number for one in failures_in(connection))
    twice = {number for number, n in ended.items() if n > 1 or number in waiting}
    for number in sorted(twice | (releases ^ (waiting | ended.keys()))):
        raise Damaged(
            "a release must be either waiting, delivered or failed, and is not",
            where=f"ledger entry {number}",
        )
    for number in sorted(waiting):  # one at a time: payloads may be large
        payload_in(connection, number)
    return len(waiting)


def _check_counts(connection: sa.Connection, counted: Counter[Spent]) -> None:
    rows = connection.execute(sa.select(*(SPENDING.c[name] for name in Spent._fields)))
    kept: Counter[Spent] = Counter()
    for one in (Spent(*row) for row in rows):
        kept[_as_now(one)._replace(n_releases=1)] += one.n_releases
    if kept != counted:
        wrong = min(set(kept.items()) ^ set(counted.items()))[0]
        raise Damaged(
            f"the count of releases to {wrong.recipient!r} is not that of the entries",
            where=f'party "{wrong.party_id}"',
        )


def _as_now(one: Spent) -> Spent:
    """Return a stored count in the words of this version: 0.1.0 wrote some releases differently."""
    try:
        return one._replace(release=counted_as(one.release).release)
    except CloisterError as error:
        raise Damaged(error.what, where=f'party "{one.party_id}"') from None


def _check_limits(connection: sa.Connection) -> None:
    for party_id in parties_in(connection):
        limits = limits_in(connection, party_id)
        for simulated in (False, True):
            counted = spent(connection, party_id, simulated=simulated) if limits else []
            for limit in limits.values():
                _check_limit(party_id, limit, charged(limit, limits, counted), simulated=simulated)


def _check_limit(party_id: str, limit: Limit, charge: Charge, *, simulated: bool) -> None:
    if not limit.filter.admits(charge):
        kind = "simulated releases" if simulated else "releases"
        raise BudgetExceeded(
            f'party "{party_id}" is beyond its limit: its {kind} cost epsilon '
            f"{limit.filter.spent(charge):.6g}, the limit is {limit}",
            remedy="nothing more is released to anybody until the limit is raised; "
            "`cloister ledger show` tells what was spent",
        )
