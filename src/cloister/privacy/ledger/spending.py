"""What a party has spent: equal releases are counted, so that a check need not read all entries."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded
from cloister.privacy.accounting import Cost, composed_epsilon, cost_within
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
    "cost_to_compare",
    "losses_at",
    "refuse_beyond",
    "spent",
    "spent_by",
]

MANY: Final = 8  # different losses, from where rounding them pays
NOISE_RATIO: Final = 1.02  # of a noise to the next smaller one that it is rounded to

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
    simulated, without_note = _counted_as(entry.body)
    return Spent(entry.party_id, entry.recipient, simulated, without_note, 1)


@lru_cache(maxsize=4096)
def _counted_as(body: str) -> tuple[bool, str]:
    release = read_release(body)
    return release.simulated, release.model_copy(update={"note": ""}).canonical()


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


def cost_to_compare(limit: Limit, losses: Counter[Loss]) -> Cost:
    """Return a cost that is enough to tell whether it is within a limit.

    Composing many different noises takes seconds. So they are rounded down first, which leaves few
    and can only make the cost greater; the true ones count where that is too much.
    """
    quick = composed_epsilon(losses, limit.delta, method="rdp")
    if quick.epsilon > limit.epsilon and len(losses) > MANY:
        cost = cost_within(_with_fewer_noises(losses), limit.delta, limit.epsilon)
        if cost.epsilon <= limit.epsilon:
            return cost
    return cost_within(losses, limit.delta, limit.epsilon)


def _with_fewer_noises(losses: Counter[Loss]) -> Counter[Loss]:
    """Round normal noise down, by 2 % at most: who adds noise can tell no more than before."""
    fewer: Counter[Loss] = Counter()
    for loss, count in losses.items():
        if loss.kind == "gaussian" and 0 < loss.noise < math.inf:
            grid = math.floor(math.log(loss.noise, NOISE_RATIO))
            loss = loss._replace(noise=min(loss.noise, NOISE_RATIO**grid))
        fewer[loss] += count
    return fewer


def refuse_beyond(limit: Limit, party_id: str, before: Iterable[Spent], release: Release) -> None:
    """Raise `BudgetExceeded` if one more release would bring a party beyond its limit."""
    so_far = losses_at(limit.level, before)
    after = so_far + release.loss_counts(limit.level)
    epsilon = cost_to_compare(limit, after).epsilon
    if epsilon <= limit.epsilon:
        return
    was = composed_epsilon(so_far, limit.delta).epsilon
    kind = " in simulated releases" if release.simulated else ""
    raise BudgetExceeded(
        f'party "{party_id}" has spent epsilon {_shown(was)} of {limit.epsilon:.6g}{kind} '
        f"(delta {limit.delta:.6g}, level {limit.level}); "
        f"{_outcome(release, limit, epsilon)}; "
        f"{_shown(max(0.0, limit.epsilon - was))} remains",
        remedy="release less or with more noise, or raise the limit: "
        f"cloister ledger limit {party_id} --epsilon E",
    )


def _outcome(release: Release, limit: Limit, epsilon: float) -> str:
    if math.isfinite(epsilon):
        return f"this release would bring it to {_shown(epsilon)}"
    if isinstance(release, UnprotectedRelease):
        return "this release is not protected and has no finite epsilon"
    if not release.level.covers(limit.level) and limit.level not in release.group_sizes:
        return (
            f"this release protects one {release.level} and says nothing of a {limit.level} "
            f"(it would, with group_sizes)"
        )
    return "with this release no finite epsilon holds at that delta"


def _shown(epsilon: float) -> str:
    return f"{epsilon:.6g}" if math.isfinite(epsilon) else "infinity"
