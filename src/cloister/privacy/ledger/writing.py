"""How an entry gets into the ledger: checked against the limit, tied to the entry before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded, NotFound, StoreError
from cloister.privacy.ledger.entry import Entry, Label, Receipt
from cloister.privacy.ledger.limits import Consent, Limit
from cloister.privacy.ledger.outbox import checked_payload, put_pending
from cloister.privacy.ledger.reading import head_in, limited_parties_in, limits_in
from cloister.privacy.ledger.spending import Spent, add_spent, refuse_beyond, spent, spent_by
from cloister.privacy.ledger.tables import ENTRIES
from cloister.privacy.level import Level
from cloister.privacy.release import UNBOUNDED, Release

__all__ = [
    "Account",
    "Payload",
    "Rules",
    "account_in",
    "append",
    "passed",
    "record",
    "refuse_unknown",
    "sole_writer",
]

Payload = bytes | bytearray | memoryview | Callable[[sa.Connection], bytes]

_APPEND: Final = ENTRIES.insert()
_WRITING: Final = threading.local()


class Rules(NamedTuple):
    """What a ledger asks for besides the limits.

    Parameters
    ----------
    require_limit
        Releases of a party for which nobody has set a limit, or said that there is none, are
        refused; simulated ones too.
    consents
        Who agreed to releases without a bound: without one they are refused, limit or not. None
        where nobody is asked; then a limit refuses them, and without a limit they pass.
    """

    require_limit: bool = False
    consents: tuple[Consent, ...] | None = None

    def consent_to(self, label: Label) -> str:
        """Return who agreed to a release without a bound; empty for nobody."""
        agreed = (one.name for one in self.consents or () if one.covers(*label[1:]))
        return next(agreed, "")


class Account(NamedTuple):
    """All that decides whether one more release of a party may pass.

    Parameters
    ----------
    limits
        By level.
    known
        The parties for which somebody has set a limit, or said that there is none, where this one
        is not among them.
    """

    party_id: str
    limits: dict[Level, Limit]
    spent: tuple[Spent, ...]
    known: tuple[str, ...] | None = None


def append(connection: sa.Connection, draft: Entry) -> Entry:
    """Give a draft its number and hashes, and write it down."""
    last = head_in(connection)
    entry = draft._replace(number=last.number + 1, previous=last.hash).sealed()
    connection.execute(_APPEND, entry._asdict())
    return entry


def account_in(connection: sa.Connection, party_id: str, *, simulated: bool) -> Account:
    """Return a party's limits, and what it has spent of one kind if there is a limit."""
    limits = limits_in(connection, party_id)
    if not limits:
        known = tuple(limited_parties_in(connection))
        return Account(party_id, {}, (), None if party_id in known else known)
    return Account(party_id, limits, tuple(spent(connection, party_id, simulated=simulated)))


def passed(account: Account, release: Release, label: Label, rules: Rules) -> Release:
    """Return the release as the ledger records it, or raise `BudgetExceeded`.

    A release that has no bound where one is asked for carries the name of who agreed to it. A party
    that is not known where limits are asked for is `NotFound`.
    """
    if rules.require_limit:
        refuse_unknown(account)
    agreed = ""
    if _lacks_bound(release, account.limits):
        agreed = rules.consent_to(label)
        if rules.consents is not None and not agreed and not release.simulated:
            raise BudgetExceeded(
                f'party "{account.party_id}" releases nothing to "{label.recipient}" for '
                f'"{label.purpose}" without a bound: nobody has agreed to it',
                remedy="protect it, or name who agreed in the node's file: [[consents]] "
                f'name = "...", recipient = "{label.recipient}", '
                f'purpose = "{label.purpose.partition(", ")[0]}"',
            )
    release = release.model_copy(update={"consent": agreed})
    for limit in account.limits.values():
        refuse_beyond(limit, account.limits, account.party_id, account.spent, release)
    return release


def refuse_unknown(account: Account) -> None:
    """Raise `NotFound` if nobody has set a limit for a party, or said that there is none."""
    if account.known is not None:
        raise NotFound(
            f'nobody has set a limit for party "{account.party_id}"; the ledger has limits for: '
            f"{', '.join(account.known[:20]) or 'no party'}",
            remedy="check the name, or set its limit (a number, or the word none): "
            f"cloister ledger limit {account.party_id} --new --epsilon E",
        )


def _lacks_bound(release: Release, limits: dict[Level, Limit]) -> bool:
    """Tell whether a release has no bound at the level of a limit, or at its own."""
    levels = {release.level, *limits}
    return any(UNBOUNDED in release.loss_counts(level) for level in levels)


def record(
    connection: sa.Connection,
    release: Release,
    payload: Payload,
    label: Label,
    *,
    clock: Callable[[], str],
    rules: Rules,
) -> Receipt:
    """Write a release and its payload down, in a caller's transaction.

    Parameters
    ----------
    clock
        Tells the time of the entry.
    rules
        What is asked for besides the limits.
    """
    account = account_in(connection, label.party_id, simulated=release.simulated)
    release = passed(account, release, label, rules)
    if callable(payload):
        payload = payload(connection)
        # It may have recorded releases of its own.
        now = account_in(connection, label.party_id, simulated=release.simulated)
        release = passed(now, release, label, rules)
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
