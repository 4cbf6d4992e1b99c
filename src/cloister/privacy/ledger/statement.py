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
from cloister.privacy.ledger.reading import head_in, limits_in, parties_in
from cloister.privacy.ledger.spending import Spent, charged, counts_for, losses_at, spent
from cloister.privacy.level import Level
from cloister.privacy.releases.reading import read_release

__all__ = ["Claim", "LimitAccount", "Overview", "Total", "Statement", "overview"]

USUAL_DELTA: Final = 1e-6  # where neither a limit nor the asker says another


class Total(NamedTuple):
    """So many releases, and what they cost together by the report (loss distributions).

    The report holds if no release was chosen by what earlier ones have shown.
    """

    n_releases: int
    epsilon: float


class LimitAccount(NamedTuple):
    """What one limit of a party counts.

    Parameters
    ----------
    limit
        The limit.
    n_releases
        Real releases that it counts.
    epsilon
        What they cost together by the limit's filter: it holds however they were chosen.
    epsilon_report
        What they cost by loss distributions: less, and it holds if none of them was chosen by what
        earlier ones have shown.
    used
        The share of the limit that is used up. It grows evenly; epsilon does not.
    n_consented
        Real releases that the limit does not count, since they have no bound and somebody agreed to
        them by name. The limit promises nothing about those.
    """

    limit: Limit
    n_releases: int
    epsilon: float
    epsilon_report: float
    used: float
    n_consented: int

    @property
    def remains(self) -> float:
        """What is left of the limit's epsilon, by its filter."""
        return max(0.0, self.limit.epsilon - self.epsilon)


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
    limits
        What may be spent at most, and what was, by level; empty where nobody set a limit.
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
    limits: dict[Level, LimitAccount]
    real: Total
    simulated: Total
    recipients: dict[str, Total]
    claims: tuple[Claim, ...]
    neighbours: tuple[str, ...]
    n_pending: int

    @property
    def limit(self) -> Limit | None:
        """The limit at the level of this statement."""
        return self.limits[self.level].limit if self.level in self.limits else None


class Overview(NamedTuple):
    """The accounts of a ledger, all of one moment, and the releases that failed."""

    head: Head
    statements: tuple[Statement, ...]
    failures: tuple[FailedRelease, ...] = ()


class _Account(NamedTuple):
    party_id: str
    limits: dict[Level, Limit]
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
        In place of those of each party's limit (of the largest unit); without a limit 1e-6 and
        users.
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
            _Account(one, limits_in(connection, one), spent(connection, one), waiting[one])
            for one in wanted
        ]
        return head_in(connection), accounts, failures_in(connection)

    head, accounts, failures = ledger.database.run(read, read_only=True)
    chosen = None if level is None else Level(level)
    statements = tuple(_statement(account, delta, chosen) for account in accounts)
    return Overview(head, statements, tuple(failures))


def _statement(account: _Account, delta: float | None, level: Level | None) -> Statement:
    limits = account.limits
    if level is None:
        level = max(limits, key=_size, default=Level.USER)
    if delta is None:
        delta = limits[level].delta if level in limits else USUAL_DELTA
    real = [one for one in account.counted if not one.simulated]
    simulated = [one for one in account.counted if one.simulated]
    recipients = sorted({one.recipient for one in real})
    return Statement(
        party_id=account.party_id,
        delta=delta,
        level=level,
        limits={one: _limit_account(limits[one], limits, real) for one in limits},
        real=_total(real, delta, level),
        simulated=_total(simulated, delta, level),
        recipients={
            name: _total([one for one in real if one.recipient == name], delta, level)
            for name in recipients
        },
        claims=_claims(account.counted, delta, level),
        neighbours=tuple(sorted({read_release(one.release).neighbours for one in real})),
        n_pending=account.n_pending,
    )


def _size(level: Level) -> int:
    return sum(level.covers(other) for other in Level)


def _limit_account(limit: Limit, limits: dict[Level, Limit], real: Sequence[Spent]) -> LimitAccount:
    charge = charged(limit, limits, real)
    counted = [one for one in real if counts_for(limit, limits, one.release)]
    consented = [one for one in real if read_release(one.release).consent]
    losses = losses_at(limit.level, counted)
    return LimitAccount(
        limit=limit,
        n_releases=sum(one.n_releases for one in counted),
        epsilon=limit.filter.spent(charge),
        epsilon_report=composed_epsilon(losses, limit.delta).epsilon,
        used=limit.filter.used(charge),
        n_consented=sum(one.n_releases for one in consented if one not in counted),
    )


def _total(counted: Sequence[Spent], delta: float, level: Level) -> Total:
    n_releases = sum(one.n_releases for one in counted)
    return Total(n_releases, composed_epsilon(losses_at(level, counted), delta).epsilon)


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
