"""The noise and the sizes of a noisy release from plain facts, without a look at the counts.

The planner chooses four things together, within the bytes and the epsilon that are allowed:

- **Family.** The narrower of Laplace and normal noise at this cost. One token moves a cell in every
  row, so the width of Laplace noise grows with the number of rows and that of normal noise with its
  root: up to about ten rows Laplace noise is narrower.
- **Rows.** One. A second row doubles the width of the noise on both, and its lists are cut at that
  noise. Only where the noise of three rows is small beside the error from collisions are three
  better, since their median finds collisions out.
- **List length.** Twice k: the places beyond k serve the estimate, which may move a document up.
- **Columns.** As many as the bytes hold. Wider rows have fewer collisions. Where columns would be
  more than text has terms, lists get longer instead.

The rule looks at public sizes only. It was set on one made corpus and NFCorpus, after a first try
of this shape on MedQuAD: docs/noisy-release.md has the figures, and says what they can show.
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
ALPHA: Final = 2  # list length over k (CS-F-LTR: 5)
MOST_COLUMNS: Final = 1 << 17  # about as many terms as a large collection has
# F2 over a document's length squared for text: the most frequent term is some 6 % of all tokens.
F2_SHARE: Final = 0.015
MANY_ROWS: Final = 3
QUIET: Final = 0.15  # noise of three rows over the collisions' error, below which three rows win
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
        Standard deviation of the noise on the cells.
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
    """Choose family, rows, columns and list length.

    Examples
    --------
    >>> facts = PlanFacts(epsilon=1.0, documents=36_400, memory_bytes=dense_bytes(36_400) // 8)
    >>> settings = plan_release(facts).settings
    >>> settings.family, settings.n_rows, settings.n_columns, settings.cell_size
    ('discrete-laplace', 1, 14967, 300)
    """
    cell_size, n_cells = _lists(facts)
    one, many = (_planned(facts, rows, n_cells, cell_size) for rows in (1, MANY_ROWS))
    return many if many.sigma <= QUIET * many.collision_error else one


def _lists(facts: PlanFacts) -> tuple[int, int]:
    """Return how long lists are, and how many cells the bytes hold."""
    room = facts.memory_bytes - _fixed_bytes(facts)
    cell_size = min(ALPHA * facts.k, facts.documents)
    n_cells = room // _cell_bytes(cell_size)
    if n_cells < 1:
        enough = _fixed_bytes(facts) + _cell_bytes(cell_size)
        raise SettingsError(
            f"{facts.memory_bytes} bytes do not hold one cell with lists of {cell_size} documents",
            where="memory_bytes",
            remedy=f"allow at least {enough} bytes, or ask for a smaller k",
        )
    if n_cells > MOST_COLUMNS:
        n_cells = MOST_COLUMNS
        longer = (room // n_cells // LISTS_A_CELL - LIST_BYTES) // ENTRY_BYTES
        cell_size = min(longer, facts.documents)
    return cell_size, n_cells


def _fixed_bytes(facts: PlanFacts) -> int:
    """Return what lengths and frequencies take."""
    statistics = 2 * STATISTICS_ROWS * _statistics_columns(facts) * STATISTIC_BYTES
    return facts.documents * LENGTH_BYTES + statistics


def _cell_bytes(cell_size: int) -> int:
    return LISTS_A_CELL * (cell_size * ENTRY_BYTES + LIST_BYTES)


def _planned(facts: PlanFacts, n_rows: int, n_cells: int, cell_size: int) -> ReleasePlan:
    n_rows = min(n_rows, n_cells)
    n_columns = min(n_cells // n_rows, LARGEST_WIDTH)
    asked = NoisyReleaseSettings(
        n_rows=n_rows,
        n_columns=n_columns,
        cell_size=cell_size,
        epsilon=facts.epsilon,
        delta=facts.delta,
        statistics_rows=STATISTICS_ROWS,
        statistics_columns=_statistics_columns(facts),
        max_length=facts.max_length,
    )
    cells = planned_release(asked, n_documents=facts.documents).tables[0]
    settings = asked.model_copy(update={"family": cells.family})
    return ReleasePlan(
        settings,
        cells.sigma,
        _fixed_bytes(facts) + settings.shape.n_cells * _cell_bytes(cell_size),
        cells.sigma / math.sqrt(n_rows),
        _collision_error(facts, settings.shape.n_cells),
    )


def _statistics_columns(facts: PlanFacts) -> int:
    """Give each sketch of frequencies about half a hundredth of the memory, a power of two."""
    columns = facts.memory_bytes // (200 * STATISTICS_ROWS * STATISTIC_BYTES)
    return int(min(max(1 << max(columns, 1).bit_length() - 1, 16), 1 << 17))


def _collision_error(facts: PlanFacts, n_cells: int) -> float:
    return facts.mean_length * math.sqrt(F2_SHARE / n_cells)
