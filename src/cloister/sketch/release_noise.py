"""How much noise each table of a noisy release gets, so that all of them cost what they may.

One token moves, by one step each: a cell in every row of its document's sketch; that document's
length; a value in every row of the sketch of collection frequencies, and, where it is the first of
its term in the document, of that of document frequencies.

All tables with normal noise: the squared distance over sigma^2, summed over the tables, is the
whole release's, 1 / multiplier^2. The cells get all of it but ``statistics_share``, which the
others divide evenly; then the multiplier is lowered as long as the exact loss of all these shifted
discrete normal variables stays within epsilon.

Cells with Laplace noise: lengths and frequencies keep the normal noise of that plan, and the width
of the cells' noise is lowered as long as the exact loss of all tables together stays within
epsilon. One token moves ``n_rows`` cells, so this width grows with ``n_rows``, that of normal noise
with its root: Laplace noise is narrower for few rows, normal noise for many.

Where documents are cut, one token more can push another out of what stays: then two tokens' values
move. With ``max_length``, as with exact lengths, the release is therefore planned and recorded for
a token replaced by any other, which is twice the distance. That covers a token more, less or
changed in the documents before they are cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.calibration import noise_multiplier, rounded_up
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.mechanisms.noise_table import LEAST_WIDTH, MOST_WIDTH
from cloister.privacy.releases.noisy_tables import NoiseFamily, NoisyTable, NoisyTablesRelease
from cloister.sketch.keyed_hash import LARGEST_WIDTH, SketchShape

__all__ = ["NoisyReleaseSettings", "planned_release"]

Neighbours = Literal["add-remove", "replace"]

ENOUGH: Final = 1e-3  # how far from the least noise a search may end, relative
FARTHEST: Final = 0.7  # of one step of the search, in logarithms: a factor of two
CELLS_SHARE: Final = 0.79  # about what Laplace cells cost of the whole: where a search begins
OWN_SHARE: Final = 0.1  # of delta: a limit keeps the rest for releases that are chosen later
LINES: Final = 12  # steps along lines before the search halves


class NoisyReleaseSettings(Settings):
    """Sizes of a noisy release, and what it may cost.

    Parameters
    ----------
    n_rows, n_columns, cell_size
        Of the RTK-Sketch; `cell_size` documents on each side of a cell.
    epsilon, delta
        What the whole release may cost for one token. The noise is planned so that epsilon holds
        with a tenth of delta: so much of its delta a limit sets aside for single releases.
    family
        The law of the noise on the cells; ``narrowest`` takes the one with the smaller standard
        deviation at this cost. Lengths and frequencies always get normal noise.
    statistics_share
        Share of the squared distance that lengths and frequencies get together in the plan with
        normal noise on all tables.
    statistics_rows, statistics_columns
        Of the sketches of frequencies.
    max_length
        Longer documents are cut to so many tokens. Only with it has a whole document a stated
        cost. A token added to a longer document may push another out, so the noise gets twice the
        width (Laplace noise two to five times the standard deviation); what is stated then holds
        for a token more, less or changed.
    lengths
        ``noisy``, or ``exact``: then neighbours are documents with one token replaced, which can
        move twice as far, and a document's length is told to all; a whole document has no stated
        cost then.
    """

    n_rows: int = Field(default=1, ge=1, le=1000)
    n_columns: int = Field(default=15_000, ge=1, le=LARGEST_WIDTH)
    cell_size: int = Field(default=300, ge=1, le=1 << 24)
    epsilon: float = Field(gt=0, le=1000)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    family: NoiseFamily | Literal["narrowest"] = "narrowest"
    statistics_share: float = Field(default=0.06, gt=0, lt=1)
    statistics_rows: int = Field(default=3, ge=1, le=100)
    statistics_columns: int = Field(default=8192, ge=1, le=LARGEST_WIDTH)
    max_length: int | None = Field(default=None, ge=1, le=1 << 30)
    lengths: Literal["noisy", "exact"] = "noisy"

    @property
    def neighbours(self) -> Neighbours:
        """What the stated cost is for: one token more or less, or one replaced by any other."""
        cut = self.max_length is not None
        return "replace" if cut or self.lengths == "exact" else "add-remove"

    @property
    def shape(self) -> SketchShape:
        """Rows and columns of the documents' sketches."""
        return SketchShape(n_rows=self.n_rows, n_columns=self.n_columns)

    @property
    def statistics_shape(self) -> SketchShape:
        """Rows and columns of the sketches of frequencies."""
        return SketchShape(n_rows=self.statistics_rows, n_columns=self.statistics_columns)


def planned_release(
    settings: NoisyReleaseSettings, *, n_documents: int, simulated: bool = False
) -> NoisyTablesRelease:
    """Return what a release with these settings will put on the ledger, before it is made.

    Examples
    --------
    >>> settings = NoisyReleaseSettings(n_rows=1, n_columns=15_000, epsilon=1.0)
    >>> release = planned_release(settings, n_documents=36_400)
    >>> [(table.name, table.family, round(table.sigma, 1)) for table in release.tables][:2]
    [('cells', 'discrete-laplace', 1.8), ('lengths', 'discrete-gaussian', 33.1)]

    Raises
    ------
    SettingsError
        If epsilon asks for more noise than can be drawn.
    """
    division = _Division(
        settings.n_rows,
        settings.statistics_rows,
        settings.statistics_share,
        settings.lengths,
        settings.neighbours,
    )
    own_delta = OWN_SHARE * settings.delta
    tables = _tables(settings.epsilon, own_delta, division, settings.family)
    groups = {}
    if settings.max_length is not None and settings.lengths == "noisy":
        groups[Level.DOCUMENT] = settings.max_length
    n_statistics = settings.statistics_shape.n_cells
    sizes = {
        "cells": settings.shape.n_cells * max(1, n_documents),
        "lengths": max(1, n_documents),
        "document frequencies": n_statistics,
        "collection frequencies": n_statistics,
    }
    named = tuple(table.model_copy(update={"n_values": sizes[table.name]}) for table in tables)
    return NoisyTablesRelease(
        level=Level.TOKEN,
        neighbours=settings.neighbours,
        tables=named,
        group_sizes=groups,
        simulated=simulated,
        n_values=sum(table.n_values for table in named),
        own_delta=own_delta,
    )


class _Division(NamedTuple):
    """How the squared distance 1 / multiplier^2 is divided among the tables."""

    n_rows: int
    statistics_rows: int
    statistics_share: float
    lengths: str
    neighbours: Neighbours

    def tables(
        self, multiplier: float, laplace_width: float | None = None
    ) -> tuple[NoisyTable, ...]:
        """Return the tables with normal noise, or with Laplace noise on the cells."""
        if self.neighbours == "replace":
            multiplier *= 2  # a token replaced moves twice as far
        moved = {"cells": self.n_rows}
        if self.lengths == "noisy":
            moved["lengths"] = 1
        moved["document frequencies"] = moved["collection frequencies"] = self.statistics_rows
        share = self.statistics_share / (len(moved) - 1)
        shares = dict.fromkeys(moved, share) | {"cells": 1 - self.statistics_share}
        cells, *others = (
            NoisyTable(name=name, width=multiplier * math.sqrt(n / shares[name]), n_moved=n)
            for name, n in moved.items()
        )
        if laplace_width is not None:
            cells = cells.model_copy(update={"family": "discrete-laplace", "width": laplace_width})
        return (cells, *others)

    def cost(self, multiplier: float, delta: float, *, laplace_width: float | None = None) -> float:
        """Return the epsilon of all tables together, for one token."""
        tables = self.tables(multiplier, laplace_width)
        release = NoisyTablesRelease(level=Level.TOKEN, neighbours=self.neighbours, tables=tables)
        return composed_epsilon(losses_of([release], Level.TOKEN), delta).epsilon


@lru_cache(maxsize=256)
def _tables(
    epsilon: float, delta: float, division: _Division, family: str
) -> tuple[NoisyTable, ...]:
    """Return the tables with the least noise of a family, or of the narrower one."""
    multiplier = _multiplier(epsilon, delta, division)
    normal = division.tables(multiplier)
    if family == "discrete-gaussian":
        return normal
    width = _laplace_width(epsilon, delta, division, multiplier)
    laplace = division.tables(multiplier, width)
    if family == "narrowest":
        fits = width <= MOST_WIDTH
        return laplace if fits and laplace[0].sigma < normal[0].sigma else normal
    if width > MOST_WIDTH:
        raise SettingsError(
            f"{epsilon:g} asks for wider Laplace noise than can be drawn (up to {MOST_WIDTH:g})",
            where="epsilon",
            remedy="raise epsilon, take fewer rows, or leave the family to the planner",
        )
    return laplace


def _laplace_width(epsilon: float, delta: float, division: _Division, multiplier: float) -> float:
    """Return the least width on the cells with which all tables cost ``epsilon``."""
    n_steps = division.n_rows * (2 if division.neighbours == "replace" else 1)
    guess = n_steps / (CELLS_SHARE * epsilon)

    def cost(width: float) -> float:
        return division.cost(multiplier, delta, laplace_width=width)

    if guess <= LEAST_WIDTH and cost(LEAST_WIDTH) <= epsilon:
        return LEAST_WIDTH
    return max(LEAST_WIDTH, _least(cost, epsilon, guess))


@lru_cache(maxsize=256)
def _multiplier(epsilon: float, delta: float, division: _Division) -> float:
    """Return the least normal noise over sensitivity of the whole that costs ``epsilon``."""
    _refuse_too_wide(epsilon, delta, division)
    # Normal noise of continuous width is a good guess; discrete noise may need some more or less.
    # For tokens replaced every sigma is twice as wide already, and the bound is Renyi's.
    guess = noise_multiplier(epsilon, delta, n_rounds=1, method="tightest")
    return _least(lambda multiplier: division.cost(multiplier, delta), epsilon, guess)


def _least(cost: Callable[[float], float], target: float, guess: float) -> float:
    """Return a multiplier or width that costs at most ``target``, within `ENOUGH` of the least.

    The logarithm of the cost is nearly a straight line in that of the multiplier, and at least as
    steep as -1 where noise is small beside one over delta: a line through the two nearest points
    finds it in a few steps. Should the line lead nowhere, halving does.
    """
    low = high = (0.0, 0.0)  # multiplier, and the logarithm of its cost over the target
    multiplier = guess
    n_steps = 0
    while True:
        n_steps += 1
        excess = math.log(max(cost(multiplier) / target, 1e-300))
        if excess > 0:
            low = (multiplier, min(excess, FARTHEST))
        else:
            high = (multiplier, max(excess, -FARTHEST))
            if excess >= -ENOUGH:
                return multiplier
        if not (low[0] and high[0]):
            multiplier *= math.exp(min(max(excess, -FARTHEST), FARTHEST) + 0.5 * ENOUGH)
        elif high[0] - low[0] <= ENOUGH * high[0]:
            return high[0]
        else:
            slope = (low[1] + 0.5 * ENOUGH) / (low[1] - high[1])
            share = slope if n_steps < LINES and 0 < slope < 1 else 0.5
            multiplier = low[0] * (high[0] / low[0]) ** share


def _refuse_too_wide(epsilon: float, delta: float, division: _Division) -> None:
    """Raise where epsilon asks for wider noise than there are tables for, before any search."""
    widest = MOST_WIDTH / max(table.sigma for table in division.tables(1.0))
    far = Loss("gaussian", 0.5 * widest)
    if composed_epsilon({far: 1}, delta).epsilon <= epsilon:  # half of that is enough
        return
    least = division.cost(widest, delta)
    if least > epsilon:
        enough = rounded_up(least * (1 + 2 * ENOUGH), 2)
        raise SettingsError(
            f"{epsilon:g} asks for wider noise than can be drawn (sigma up to {MOST_WIDTH:g})",
            where="epsilon",
            remedy=f"raise epsilon to {enough:g}, or take fewer rows",
        )
