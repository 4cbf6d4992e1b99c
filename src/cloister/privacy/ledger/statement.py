"""What a party's privacy officer wants to know: what was spent, on whom, and what may still be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import NotFound
from cloister.privacy.accounting import composed_epsilon
from cloister.privacy.ledger.entry import Head
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.outbox import FailedRelease, failures_in, pending_in
from cloister.privacy.ledger.reading import head_in, limit_in, parties_in
from cloister.privacy.ledger.spending import Spent, losses_at, spent
from cloister.privacy.level import Level
from cloister.privacy.releases.reading import read_release

__all__ = ["Claim", "Overview", "Spending", "Statement", "overview"]

USUAL_DELTA: Final = 1e-6  # where neither a limit nor the asker says another


class Spending(NamedTuple):
    """So many releases, and what they cost together."""

    n_releases: int
    epsilon: float


class Claim(NamedTuple):
    """Equal releases whose inventors claim an epsilon: the claim, and what holds.

    Parameters
    ----------
    mechanism
        Of the releases.
    n_releases
        How many there were.
    claimed_epsilon
        For each, by its inventors.
    one_epsilon, all_epsilon
        What truly holds of one, and of all of them.
    """

    mechanism: str
    n_releases: int
    claimed_epsilon: float
    one_epsilon: float
    all_epsilon: float


class Statement(NamedTuple):
    """The account of one party.

    Parameters
    ----------
    party_id
        Whose account.
    delta, level
        What the figures hold for: the limit's own unless others were asked for.
    limit
        The most that may be spent; None where nobody set one.
    real
        All real releases to all recipients together, as if these shared what they got.
    simulated
        Simulated releases apart: they protect nobody, and their cost is what real ones would cost.
    recipients
        Real releases by recipient: what holds if recipients do not share.
    claims
        Releases whose inventors claim something else, real and simulated.
    neighbours
        What the real releases' neighbouring inputs differ in. A unit stands for one added or
        removed, or changed to a stand-in for no data. Of a change to anything else, releases
        stated for units added or removed tell up to twice as much (a group of two).
    n_pending
        Recorded and not yet delivered.
    """

    party_id: str
    delta: float
    level: Level
    limit: Limit | None
    real: Spending
    simulated: Spending
    recipients: dict[str, Spending]
    claims: tuple[Claim, ...]
    neighbours: tuple[str, ...]
    n_pending: int


class Overview(NamedTuple):
    """The accounts of a ledger, all of one moment, and the releases that failed."""

    head: Head
    statements: tuple[Statement, ...]
    failures: tuple[FailedRelease, ...] = ()


class _Account(NamedTuple):
    party_id: str
    limit: Limit | None
    counted: list[Spent]
    n_pending: int


def overview(
    ledger: Ledger,
    *,
    party_id: str | None = None,
    delta: float | None = None,
    level: Level | str | None = None,
) -> Overview:
    """Return the accounts of all parties, or of one.

    Parameters
    ----------
    ledger
        Read in one transaction; costs are worked out after it.
    party_id
        The only party wanted; it is an error if the ledger does not know it.
    delta, level
        In place of those of each party's limit; without a limit 1e-6 and users.
    """

    def read(connection: sa.Connection) -> tuple[Head, list[_Account], list[FailedRelease]]:
        known = parties_in(connection)
        if party_id is not None and party_id not in known:
            raise NotFound(
                "the ledger knows no such party",
                where=repr(party_id),
                remedy=f"known: {', '.join(known[:20]) or 'none'}",
            )
        wanted = known if party_id is None else [party_id]
        waiting = Counter(entry.party_id for entry in pending_in(connection))
        accounts = [
            _Account(one, limit_in(connection, one), spent(connection, one), waiting[one])
            for one in wanted
        ]
        return head_in(connection), accounts, failures_in(connection)

    head, accounts, failures = ledger.database.run(read, read_only=True)
    chosen = None if level is None else Level(level)
    statements = tuple(_statement(account, delta, chosen) for account in accounts)
    return Overview(head, statements, tuple(failures))


def _statement(account: _Account, delta: float | None, level: Level | None) -> Statement:
    limit = account.limit
    if delta is None:
        delta = limit.delta if limit else USUAL_DELTA
    if level is None:
        level = limit.level if limit else Level.USER
    real = [one for one in account.counted if not one.simulated]
    simulated = [one for one in account.counted if one.simulated]
    recipients = sorted({one.recipient for one in real})
    return Statement(
        party_id=account.party_id,
        delta=delta,
        level=level,
        limit=limit,
        real=_spending(real, delta, level),
        simulated=_spending(simulated, delta, level),
        recipients={
            name: _spending([one for one in real if one.recipient == name], delta, level)
            for name in recipients
        },
        claims=_claims(account.counted, delta, level),
        neighbours=tuple(sorted({read_release(one.release).neighbours for one in real})),
        n_pending=account.n_pending,
    )


def _spending(counted: Sequence[Spent], delta: float, level: Level) -> Spending:
    n_releases = sum(one.n_releases for one in counted)
    return Spending(n_releases, composed_epsilon(losses_at(level, counted), delta).epsilon)


def _claims(counted: list[Spent], delta: float, level: Level) -> tuple[Claim, ...]:
    """Return what is claimed of equal releases, to whomever they went."""
    numbers: Counter[str] = Counter()
    for one in counted:
        numbers[one.release] += one.n_releases
    claims = []
    for text, n_releases in sorted(numbers.items()):
        release = read_release(text)
        if release.claimed_epsilon is None:
            continue
        losses = release.loss_counts(level)
        all_losses = {loss: times * n_releases for loss, times in losses.items()}
        claims.append(
            Claim(
                mechanism=str(getattr(release, "mechanism", "")),
                n_releases=n_releases,
                claimed_epsilon=release.claimed_epsilon,
                one_epsilon=composed_epsilon(losses, delta).epsilon,
                all_epsilon=composed_epsilon(all_losses, delta).epsilon,
            )
        )
    return tuple(claims)
