"""How an entry gets into the ledger: checked against the limit, tied to the entry before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, StoreError
from cloister.privacy.ledger.entry import Entry, Label, Receipt
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import checked_payload, put_pending
from cloister.privacy.ledger.reading import head_in, limit_in
from cloister.privacy.ledger.spending import Spent, add_spent, refuse_beyond, spent, spent_by
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.release import Release

__all__ = [
    "Account",
    "Outdated",
    "Payload",
    "account_in",
    "append",
    "record",
    "refuse_or_pass",
    "sole_writer",
]

Payload = bytes | bytearray | memoryview | Callable[[sa.Connection], bytes]

_APPEND: Final = ENTRIES.insert()
_WRITING: Final = threading.local()


class Outdated(Exception):
    """The party's account has changed since the release was checked against it."""


class Account(NamedTuple):
    """All that decides whether one more release of a party may pass."""

    party_id: str
    limit: Limit | None
    spent: tuple[Spent, ...]


def append(connection: sa.Connection, draft: Entry) -> Entry:
    """Give a draft its number and hashes, and write it down."""
    last = head_in(connection)
    entry = draft._replace(number=last.number + 1, previous=last.hash).sealed()
    connection.execute(_APPEND, entry._asdict())
    return entry


def account_in(connection: sa.Connection, party_id: str, *, simulated: bool) -> Account:
    """Return a party's limit, and what it has spent of one kind if there is a limit."""
    limit = limit_in(connection, party_id)
    if limit is None:
        return Account(party_id, None, ())
    return Account(party_id, limit, tuple(spent(connection, party_id, simulated=simulated)))


def refuse_or_pass(account: Account, release: Release, *, require_limit: bool) -> None:
    """Raise `BudgetExceeded` unless the party's limit allows one more release.

    Of many different releases near the limit this takes seconds.
    """
    party_id, limit, before = account
    if limit is not None:
        refuse_beyond(limit, party_id, before, release)
    elif require_limit:
        raise BudgetExceeded(
            f'party "{party_id}" has no limit, and this ledger asks for one',
            remedy=f"set it: cloister ledger limit {party_id} --epsilon E",
        )


def record(
    connection: sa.Connection,
    release: Release,
    payload: Payload,
    label: Label,
    *,
    clock: Callable[[], str],
    checked: Account | None,
    require_limit: bool,
) -> Receipt:
    """Write a release and its payload down, in a caller's transaction.

    Parameters
    ----------
    clock
        Tells the time of the entry.
    checked
        The account that the release was checked against; `Outdated` if it has changed since. None
        to check it now.
    """
    account = account_in(connection, label.party_id, simulated=release.simulated)
    if checked is None:
        refuse_or_pass(account, release, require_limit=require_limit)
    elif account != checked:
        raise Outdated
    if callable(payload):
        payload = payload(connection)
        # It may have recorded releases of its own.
        now = account_in(connection, label.party_id, simulated=release.simulated)
        if now != account:
            refuse_or_pass(now, release, require_limit=require_limit)
    content = checked_payload(payload)
    draft = Entry.draft("release", clock(), label, release.canonical(), content)
    entry = append(connection, draft)
    put_pending(connection, entry.number, content)
    add_spent(connection, spent_by(entry))
    return entry.receipt()


@contextmanager
def sole_writer(ledger: str) -> Iterator[None]:
    """Refuse to begin to write where this thread is writing already: it would wait for itself."""
    under_way: set[str] = _WRITING.__dict__.setdefault("ledgers", set())
    if ledger in under_way:
        raise StoreError(
            "this thread is in the middle of a release of the same ledger",
            where=ledger,
            remedy="inside a payload function use release_in, with the connection that it is given",
        )
    under_way.add(ledger)
    try:
        yield
    finally:
        under_way.discard(ledger)
