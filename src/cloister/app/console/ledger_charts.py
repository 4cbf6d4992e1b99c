"""Charts of ledgers: what was spent over time, and how many releases of which kind there were."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from cloister.app.console.charts import Chart, Series
from cloister.app.console.ledger_accounts import Account
from cloister.app.console.ledger_costs import LedgerCosts, release_of
from cloister.app.console.ledger_lines import KINDS, kind_of

__all__ = ["DrawnSpending", "kinds_chart", "spending_chart"]

MOST_POINTS: Final = 40  # of a line
PATIENCE_S: Final = 0.05  # in which costs of the past are worked out for one view


class DrawnSpending(NamedTuple):
    """A chart of what was spent.

    Parameters
    ----------
    chart
        A line for each account with releases, and dashed ones for what may be spent.
    n_known, n_points
        For how many points a cost is worked out by now, and how many there will be.
    without_bound
        Accounts whose line ends, since nothing bounds their cost.
    """

    chart: Chart
    n_known: int
    n_points: int
    without_bound: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every point is there."""
        return self.n_known == self.n_points


def spending_chart(
    accounts: Sequence[Account], costs: LedgerCosts, *, patience_s: float = PATIENCE_S
) -> DrawnSpending:
    """Draw what was spent, as far as it can be worked out in a little while."""
    until = time.perf_counter() + patience_s
    lines: list[Series] = []
    n_points = n_known = 0
    for account in accounts:
        places = frozenset(_places(len(account.releases)))
        known = costs.path(
            account.releases, account.level, account.delta, places=places, until=until
        )
        n_points, n_known = n_points + len(places), n_known + len(known)
        lines += [_line(account, known)] if known else []
    chart = Chart(
        "spending",
        "Epsilon spent so far, by ledger",
        "time (UTC)",
        "epsilon",
        [*lines, *_bounds(accounts, lines)],
        x_kind="date",
    )
    without = tuple(one.name for one in accounts if not one.has_bound)
    return DrawnSpending(chart, n_known, n_points, without)


def kinds_chart(accounts: Sequence[Account]) -> Chart:
    """Draw how many real releases there are, by what protects them and who got them."""
    releases = {(one.service, entry.number): entry for one in accounts for entry in one.releases}
    counted = Counter(
        (entry.recipient, kind_of(release_of(entry.body))) for entry in releases.values()
    )
    names = [name for name in KINDS.values() if any(kind == name for _, kind in counted)]
    return Chart(
        "kinds",
        "Real releases, by what protects them and who got them",
        "protected by",
        "releases",
        [
            Series(f"to {to}", names, [counted[to, name] or None for name in names], style="bars")
            for to in sorted({to for to, _ in counted})
        ],
        x_kind="category",
    )


def _places(n: int) -> list[int]:
    """Return places evenly apart, with the first and the last; all where there are few.

    Examples
    --------
    >>> _places(3), len(_places(1000)), _places(1000)[-1]
    ([0, 1, 2], 40, 999)
    """
    if n <= MOST_POINTS:
        return list(range(n))
    return [round(step * (n - 1) / (MOST_POINTS - 1)) for step in range(MOST_POINTS)]


def _line(account: Account, known: dict[int, float]) -> Series:
    """Return what was spent up to each place, and up to now."""
    times = [_second(account.releases[place].recorded_at) for place in known]
    values = list(known.values())
    return Series(account.name, [*times, _now()], [*values, values[-1]], style="steps")


def _bounds(accounts: Sequence[Account], lines: Sequence[Series]) -> list[Series]:
    """Return what may be spent as dashed lines over the whole time."""
    if not lines:
        return []
    ends = [min(one.x[0] for one in lines), _now()]
    return [
        Series(
            f"{'limit' if one.limit else 'agreed'} for {one.name}",
            ends,
            [one.most, one.most],
            colour="limit",
            dash="dash",
        )
        for one in accounts
        if one.most is not None
    ]


def _now() -> str:
    return _second(datetime.now(UTC).isoformat())


def _second(moment: str) -> str:
    """Return a moment to the second, in a form that charts read and sort."""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
