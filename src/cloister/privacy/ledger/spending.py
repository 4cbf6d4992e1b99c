"""What a party has spent: equal releases are counted, so that a check need not read all entries."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded
from cloister.privacy.calibration import rounded_up
from cloister.privacy.filters import Charge, charge_of, total_charge
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.tables import SPENDING
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.releases.reading import read_release

__all__ = [
    "Spent",
    "add_spent",
    "charged",
    "counted_as",
    "counts_for",
    "losses_at",
    "refuse_beyond",
    "refuse_order",
    "spent",
    "spent_by",
]

# Statements of every release are built once: building one takes longer than running it.
_ADD: Final = (
    SPENDING.update()
    .where(SPENDING.c.key == sa.bindparam("the_key"))
    .values(n_releases=SPENDING.c.n_releases + sa.bindparam("added"))
)
_INSERT: Final = SPENDING.insert()


class Spent(NamedTuple):
    """Equal releases to one recipient, and how many there were."""

    party_id: str
    recipient: str
    simulated: bool
    release: str
    n_releases: int

    @property
    def key(self) -> str:
        """A digest of all but the number."""
        text = json.dumps([self.party_id, self.recipient, self.release])
        return hashlib.sha256(text.encode()).hexdigest()


_SPENT: Final = (
    sa.select(*(SPENDING.c[name] for name in Spent._fields))
    .where(SPENDING.c.party_id == sa.bindparam("party_id"))
    .order_by(SPENDING.c.key)
)


def spent_by(entry: Entry) -> Spent:
    """Return what one recorded release adds; its note makes no difference."""
    simulated, release = counted_as(entry.body)
    return Spent(entry.party_id, entry.recipient, simulated, release, 1)


class CountedAs(NamedTuple):
    """What equal releases have in common."""

    simulated: bool
    release: str


@lru_cache(maxsize=4096)
def counted_as(body: str) -> CountedAs:
    """Return as what a recorded release is counted: in this version's words, without its note."""
    release = read_release(body)
    return CountedAs(release.simulated, release.model_copy(update={"note": ""}).canonical())


def add_spent(connection: sa.Connection, one: Spent) -> None:
    """Count one more release."""
    added = {"the_key": one.key, "added": one.n_releases}
    if not connection.execute(_ADD, added).rowcount:
        connection.execute(_INSERT, {"key": one.key, **one._asdict()})


def spent(
    connection: sa.Connection,
    party_id: str,
    *,
    simulated: bool | None = None,
    recipient: str | None = None,
) -> list[Spent]:
    """Return the counted releases of a party, of one kind and to one recipient if asked."""
    counted = (Spent(*row) for row in connection.execute(_SPENT, {"party_id": party_id}))
    return [
        one
        for one in counted
        if simulated in (None, one.simulated) and recipient in (None, one.recipient)
    ]


def losses_at(level: Level, counted: Iterable[Spent]) -> Counter[Loss]:
    """Return how often each loss was suffered, for one unit of a level."""
    total: Counter[Loss] = Counter()
    for one in counted:
        for loss, times in _losses(one.release, level):
            total[loss] += times * one.n_releases
    return total


@lru_cache(maxsize=4096)
def _losses(release: str, level: Level) -> tuple[tuple[Loss, int], ...]:
    return tuple(read_release(release).loss_counts(level).items())


@lru_cache(maxsize=4096)
def _charge(release: str, level: Level, order: float) -> Charge:
    return charge_of(read_release(release), level, order)


def counts_for(limit: Limit, limits: Mapping[Level, Limit], release: str) -> bool:
    """Tell whether a limit counts a release.

    It does, but for two: releases that somebody agreed to by name because they have no bound at
    this level; and releases that protect a larger unit for which there is a limit too, since that
    limit bounds them (unless they say that every limit counts them).
    """
    stated = read_release(release)
    larger = stated.level != limit.level and stated.level.covers(limit.level)
    if larger and stated.level in limits and not stated.every_limit:
        return False
    return not stated.consent or _charge(release, limit.level, limit.filter.order).has_bound


def charged(limit: Limit, limits: Mapping[Level, Limit], counted: Iterable[Spent]) -> Charge:
    """Return what a limit's filter has charged for some releases."""
    order = limit.filter.order
    return total_charge(
        (_charge(one.release, limit.level, order), one.n_releases)
        for one in counted
        if counts_for(limit, limits, one.release)
    )


def refuse_beyond(
    limit: Limit,
    limits: Mapping[Level, Limit],
    party_id: str,
    before: Sequence[Spent],
    release: Release,
) -> None:
    """Raise `BudgetExceeded` if one more release would bring a party beyond one of its limits."""
    text = release.canonical()
    decides = limit.filter
    if not counts_for(limit, limits, text) and limit.epsilon > 0:
        return
    so_far = charged(limit, limits, before)
    one = _charge(text, limit.level, decides.order)
    after = so_far.plus(one)
    if decides.admits(after) and limit.epsilon > 0:
        return
    was = decides.spent(so_far)
    kind = " in simulated releases" if release.simulated else ""
    raise BudgetExceeded(
        f'party "{party_id}" has spent epsilon {_shown(was)} of {limit.epsilon:.6g}{kind} '
        f"(delta {limit.delta:.6g}, level {limit.level}); "
        f"{_outcome(release, limit, so_far, after)}",
        remedy=_remedy(party_id, limit, after),
    )


def refuse_order(
    limit: Limit,
    limits: Mapping[Level, Limit],
    party_id: str,
    before: Sequence[Spent],
    release: Release,
    n_releases: int,
    order: float,
) -> None:
    """Raise `BudgetExceeded` if so many releases do not fit a limit, but would at an order."""
    text = release.canonical()
    if limit.epsilon == 0 or not counts_for(limit, limits, text):
        return

    def fit(one: Limit) -> bool:
        planned = _charge(text, one.level, one.filter.order).times(n_releases)
        return one.filter.admits(charged(one, limits, before).plus(planned))

    if fit(limit) or not fit(limit.model_copy(update={"order": order})):
        return
    decides = limit.filter
    raise BudgetExceeded(
        f'the {n_releases} planned releases of party "{party_id}" do not fit its limit, {limit}, '
        f"at order {decides.order:.6g}; at the plan's order they do",
        remedy="set the limit with this order before the training begins: "
        f"cloister ledger limit {party_id} --level {limit.level} --epsilon {limit.epsilon!r} "
        f"--delta {limit.delta!r} --failures {decides.failures:.6g} --order {order!r}; or write "
        f"order = {order!r} under the limit in the node's file",
    )


def _outcome(release: Release, limit: Limit, so_far: Charge, after: Charge) -> str:
    decides = limit.filter
    if limit.epsilon == 0:
        return "a limit of 0 lets nothing pass"
    if isinstance(release, UnprotectedRelease):
        return "this release is not protected and has no finite epsilon"
    if not release.level.covers(limit.level) and limit.level not in release.group_sizes:
        return (
            f"this release protects one {release.level} and says nothing of a {limit.level} "
            f"(it would, with group_sizes)"
        )
    if not so_far.has_bound:
        return "earlier releases have no bound at this level"
    if after.delta > decides.failures:
        return (
            f"with this release the releases' own deltas add up to {after.delta:.3g}, and "
            f"{decides.failures:.3g} of delta is set aside for them"
        )
    epsilon = decides.spent(after)
    if not math.isfinite(epsilon):
        return "with this release no finite epsilon holds at that delta"
    told = f"this release would bring it to {_shown(epsilon)}"
    if _needed_failures(limit, after):
        told += (
            f", since the own deltas of releases made in one go add up to {after.own_delta:.3g} "
            f"and {decides.failures:.3g} of delta is set aside for them"
        )
    return told


def _needed_failures(limit: Limit, after: Charge) -> float:
    """Return how much of delta has to be set aside for releases to pass; 0 if that does not help.

    Their epsilons add up to little enough, but their own deltas close that account.
    """
    decides = limit.filter
    needed = after.delta + after.own_delta
    if not decides.failures < needed <= decides.delta:
        return 0.0
    needed = min(rounded_up(needed, 3), decides.delta)
    return needed if decides._replace(failures=needed).admits(after) else 0.0


def _remedy(party_id: str, limit: Limit, after: Charge) -> str:
    command = f"cloister ledger limit {party_id} --level {limit.level}"
    if after.delta > limit.filter.failures:
        return f"set more of delta aside: {command} --epsilon E --delta D --failures F"
    if not after.has_bound:
        return (
            "protect it; or let somebody agree to it by name, under [[consents]] in the node's "
            f"file; or take the limit away: {command} --epsilon none"
        )
    if needed := _needed_failures(limit, after):
        return (
            "set as much of delta aside as is planned, best before the first release: "
            f"{command} --epsilon {limit.epsilon:g} --delta {limit.delta:g} --failures {needed:g}"
        )
    return f"release less or with more noise, or raise the limit: {command} --epsilon E"


def _shown(epsilon: float) -> str:
    return f"{epsilon:.6g}" if math.isfinite(epsilon) else "infinity"
