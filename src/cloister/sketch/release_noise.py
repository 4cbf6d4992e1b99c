"""How much noise each table of a noisy release gets, so that all of them cost what they may.

One token moves, by one step each: a cell in every row of its document's sketch; that document's
length; a value in every row of the sketch of collection frequencies, and, where it is the first of
its term in the document, of that of document frequencies. The squared distance over sigma^2, summed
over the tables, is the whole release's: 1 / multiplier^2. The cells get all of it but
``statistics_share``, which the others divide evenly; then the multiplier is lowered as long as the
exact loss of all these shifted discrete normal variables stays within epsilon.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import Field

from cloister.core.settings import Settings
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.level import Level
from cloister.privacy.release import NoisyTable, NoisyTablesRelease
from cloister.sketch.keyed_hash import LARGEST_WIDTH, SketchShape

__all__ = ["NoisyReleaseSettings", "planned_release"]

ENOUGH: Final = 1e-3  # how far from the least noise a search may end, relative


class NoisyReleaseSettings(Settings):
    """Sizes of a noisy release, and what it may cost.

    Parameters
    ----------
    n_rows, n_columns, cell_size
        Of the RTK-Sketch; `cell_size` documents on each side of a cell.
    epsilon, delta
        What the whole release may cost for one token.
    statistics_share
        Share of the squared distance that lengths and frequencies get together.
    statistics_rows, statistics_columns
        Of the sketches of frequencies.
    max_length
        Longer documents are cut to so many tokens. Only with it has a whole document a stated
        cost. The guarantee speaks of the documents as cut: a token added to a longer document may
        push another out, which costs as much as two tokens.
    lengths
        ``noisy``, or ``exact``: then neighbours are documents with one token replaced, which can
        move twice as far, and a document's length is told to all.
    """

    n_rows: int = Field(default=2, ge=1, le=1000)
    n_columns: int = Field(default=3000, ge=1, le=LARGEST_WIDTH)
    cell_size: int = Field(default=740, ge=1, le=1 << 24)
    epsilon: float = Field(gt=0, le=1000)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    statistics_share: float = Field(default=0.06, gt=0, lt=1)
    statistics_rows: int = Field(default=3, ge=1, le=100)
    statistics_columns: int = Field(default=8192, ge=1, le=LARGEST_WIDTH)
    max_length: int | None = Field(default=None, ge=1, le=1 << 30)
    lengths: Literal["noisy", "exact"] = "noisy"

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
    >>> settings = NoisyReleaseSettings(n_rows=2, n_columns=3000, epsilon=1.0)
    >>> release = planned_release(settings, n_documents=36_400)
    >>> [(table.name, round(table.sigma, 1)) for table in release.tables][:2]
    [('cells', 6.2), ('lengths', 29.9)]
    """
    multiplier = _multiplier(
        settings.epsilon,
        settings.delta,
        settings.n_rows,
        settings.statistics_rows,
        settings.statistics_share,
        settings.lengths,
    )
    groups = {} if settings.max_length is None else {Level.DOCUMENT: settings.max_length}
    n_statistics = settings.statistics_shape.n_cells
    sizes = {
        "cells": settings.shape.n_cells * max(1, n_documents),
        "lengths": max(1, n_documents),
        "document frequencies": n_statistics,
        "collection frequencies": n_statistics,
    }
    tables = _tables(
        multiplier, settings.n_rows, settings.statistics_rows, settings.statistics_share,
        settings.lengths,
    )  # fmt: skip
    named: tuple[NoisyTable, ...] = tuple(
        table.model_copy(update={"n_values": sizes[table.name]}) for table in tables
    )
    return _release(
        named, settings.lengths, group_sizes=groups, simulated=simulated,
        n_values=sum(table.n_values for table in named),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _multiplier(
    epsilon: float,
    delta: float,
    n_rows: int,
    statistics_rows: int,
    statistics_share: float,
    lengths: str,
) -> float:
    """Return the least noise over sensitivity of the whole with which it costs ``epsilon``."""

    def enough(multiplier: float) -> bool:
        tables = _tables(multiplier, n_rows, statistics_rows, statistics_share, lengths)
        losses = losses_of([_release(tables, lengths)], Level.TOKEN)
        return composed_epsilon(losses, delta).epsilon <= epsilon

    # Normal noise of continuous width is a good guess; discrete noise may need some more or less.
    # For tokens replaced every sigma is twice as wide already, and the bound is Renyi's.
    high = 1.05 * noise_multiplier(epsilon, delta, n_rounds=1)
    while not enough(high):
        high *= 1.1
    low = high / 1.1
    while enough(low):
        high, low = low, low / 1.1
    while high - low > ENOUGH * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _tables(
    multiplier: float, n_rows: int, statistics_rows: int, statistics_share: float, lengths: str
) -> tuple[NoisyTable, ...]:
    """Divide the squared distance 1 / multiplier^2 among the tables."""
    if lengths == "exact":
        multiplier *= 2  # a token replaced moves twice as far
    moved = {"cells": n_rows}
    if lengths == "noisy":
        moved["lengths"] = 1
    moved |= {"document frequencies": statistics_rows, "collection frequencies": statistics_rows}
    share = statistics_share / (len(moved) - 1)
    return tuple(
        NoisyTable(
            name=name,
            sigma=multiplier * math.sqrt(n / (1 - statistics_share if name == "cells" else share)),
            n_moved=n,
        )
        for name, n in moved.items()
    )


def _release(tables: tuple[NoisyTable, ...], lengths: str, **options: Any) -> NoisyTablesRelease:
    return NoisyTablesRelease(
        level=Level.TOKEN,
        neighbours="replace" if lengths == "exact" else "add-remove",
        tables=tables,
        **options,
    )
