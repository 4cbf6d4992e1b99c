"""How a party's spending grew, day by day."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from typing import NamedTuple

import sqlalchemy as sa

from cloister.privacy.accounting import composed_epsilon
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.reading import entries_in
from cloister.privacy.ledger.spending import losses_at, spent_by
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss

__all__ = ["Day", "history"]


class Day(NamedTuple):
    """What had been spent at the end of a day (UTC), as a report by the quick bound (RDP)."""

    date: str
    n_releases: int
    epsilon: float


def history(
    ledger: Ledger, party_id: str, *, delta: float, level: Level | str = Level.USER
) -> tuple[Day, ...]:
    """Return the sums of a party's real releases after each day on which there were any.

    All its entries are read. The bound of a day is that of Renyi divergence alone, which is quick
    and somewhat above the tightest.
    """
    work = partial(_days, party_id=party_id, delta=delta, level=Level(level))
    return ledger.database.run(work, read_only=True)


def _days(
    connection: sa.Connection, *, party_id: str, delta: float, level: Level
) -> tuple[Day, ...]:
    losses: Counter[Loss] = Counter()
    n_releases = 0
    days = []
    releases = (e for e in entries_in(connection, party_id=party_id) if e.kind == "release")
    for date, entries in groupby(releases, key=lambda entry: entry.recorded_at[:10]):
        real = [one for one in map(spent_by, entries) if not one.simulated]
        if real:
            losses += losses_at(level, real)
            n_releases += len(real)
            epsilon = composed_epsilon(losses, delta, method="rdp").epsilon
            days.append(Day(date, n_releases, epsilon))
    return tuple(days)
