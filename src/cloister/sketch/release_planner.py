"""The sizes of a noisy release from plain facts, without a look at the counts.

What decides the error of an estimated count, with the rows averaged:

- noise: sigma^2 / n_rows = multiplier^2 / (share of the cells), whatever the number of rows, since
  sigma grows with the root of n_rows;
- collisions: F2 / (n_rows n_columns), where F2 is the sum of a document's squared counts: whatever
  the number of rows too, at equal memory.

What does depend on the number of rows: each list is cut at the noise of one row, so many noisy rows
lose more of the true top; few rows leave nothing to tell a collision with a frequent term by. With
much noise one row is best, with little noise a median of several. The planner takes the number of
rows by the ratio of the two errors (measured: docs/noisy-release.md), lists of five times k, and as
many columns as the memory holds.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.sketch.keyed_hash import LARGEST_WIDTH
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release

__all__ = ["PlanFacts", "ReleasePlan", "dense_bytes", "plan_release"]

ENTRY_BYTES: Final = 6  # a document's number and its value
LIST_BYTES: Final = 6  # the size of a list and its floor
LENGTH_BYTES, STATISTIC_BYTES, CELL_BYTES = 4, 4, 2
LISTS_A_CELL: Final = 2
ALPHA: Final = 5  # list length over k (CS-F-LTR's default)
# F2 over a document's length squared for text: the most frequent term is some 6 % of all tokens.
F2_SHARE: Final = 0.015
# Rows by the ratio of noise to collisions, from the highest on.
ROWS_BY_RATIO: Final = ((0.6, 1), (0.1, 3), (0.0, 5))
STATISTICS_ROWS: Final = 3


class PlanFacts(Settings):
    """What a party knows and may tell of its corpus, and what it may spend.

    Parameters
    ----------
    epsilon, delta
        What the whole release may cost for one token.
    documents
        How many, which the release tells anyway.
    mean_length
        About how many tokens a document has; a public guess, not a measured mean.
    memory_bytes
        What the release may take; `dense_bytes` gives that of per-document sketches.
    k
        How many documents a query asks for.
    max_length
        As in `NoisyReleaseSettings`.
    """

    epsilon: float = Field(gt=0, le=1000)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    documents: int = Field(ge=1)
    mean_length: float = Field(default=1000, ge=1)
    memory_bytes: int = Field(ge=1000)
    k: int = Field(default=150, ge=1)
    max_length: int | None = Field(default=None, ge=1)


class ReleasePlan(NamedTuple):
    """Settings for `make_release`, and what to expect of them.

    Parameters
    ----------
    settings
        The sizes.
    sigma
        Width of the noise on the cells.
    size_bytes
        What the release will take.
    noise_error, collision_error
        Standard deviations of an estimated count, with all rows of a document at hand: from the
        noise, and about from collisions.
    """

    settings: NoisyReleaseSettings
    sigma: float
    size_bytes: int
    noise_error: float
    collision_error: float

    @property
    def error(self) -> float:
        """Standard deviation from both."""
        return math.hypot(self.noise_error, self.collision_error)


def dense_bytes(documents: int, *, n_cells: int = 6000) -> int:
    """Return what a Count Sketch of each document takes at two bytes a cell.

    Examples
    --------
    >>> dense_bytes(36_400) // 8
    54600000
    """
    return documents * n_cells * CELL_BYTES


def plan_release(facts: PlanFacts) -> ReleasePlan:
    """Choose rows, columns and list length.

    Examples
    --------
    >>> facts = PlanFacts(epsilon=1.0, documents=36_400, memory_bytes=dense_bytes(36_400) // 8)
    >>> plan = plan_release(facts)
    >>> plan.settings.n_rows, plan.settings.cell_size, plan.size_bytes <= facts.memory_bytes
    (1, 750, True)
    """
    cell_size = min(ALPHA * facts.k, facts.documents)
    statistics_columns = _statistics_columns(facts)
    spent = facts.documents * LENGTH_BYTES
    spent += 2 * STATISTICS_ROWS * statistics_columns * STATISTIC_BYTES
    a_cell = LISTS_A_CELL * (cell_size * ENTRY_BYTES + LIST_BYTES)
    n_cells = (facts.memory_bytes - spent) // a_cell
    if n_cells < 1:
        raise SettingsError(
            f"{facts.memory_bytes} bytes do not hold one cell with lists of {cell_size} documents",
            where="memory_bytes",
            remedy=f"allow at least {spent + a_cell} bytes, or ask for a smaller k",
        )
    ratio = _noise_error(_settings(facts, 1, 1, cell_size, statistics_columns)) / max(
        _collision_error(facts, n_cells), 1e-9
    )
    n_rows = next(rows for least, rows in ROWS_BY_RATIO if ratio >= least)
    n_rows = min(n_rows, n_cells)
    n_columns = min(n_cells // n_rows, LARGEST_WIDTH)
    settings = _settings(facts, n_rows, n_columns, cell_size, statistics_columns)
    sigma = planned_release(settings, n_documents=facts.documents).tables[0].sigma
    return ReleasePlan(
        settings,
        sigma,
        spent + settings.shape.n_cells * a_cell,
        sigma / math.sqrt(n_rows),
        _collision_error(facts, settings.shape.n_cells),
    )


def _statistics_columns(facts: PlanFacts) -> int:
    """Give each sketch of frequencies about half a hundredth of the memory, a power of two."""
    columns = facts.memory_bytes // (200 * STATISTICS_ROWS * STATISTIC_BYTES)
    return int(min(max(1 << max(columns, 1).bit_length() - 1, 16), 1 << 17))


def _settings(
    facts: PlanFacts, n_rows: int, n_columns: int, cell_size: int, statistics_columns: int
) -> NoisyReleaseSettings:
    return NoisyReleaseSettings(
        n_rows=n_rows,
        n_columns=n_columns,
        cell_size=cell_size,
        epsilon=facts.epsilon,
        delta=facts.delta,
        statistics_rows=STATISTICS_ROWS,
        statistics_columns=statistics_columns,
        max_length=facts.max_length,
    )


def _noise_error(settings: NoisyReleaseSettings) -> float:
    sigma = planned_release(settings, n_documents=1).tables[0].sigma
    return sigma / math.sqrt(settings.n_rows)


def _collision_error(facts: PlanFacts, n_cells: int) -> float:
    return facts.mean_length * math.sqrt(F2_SHARE / n_cells)
