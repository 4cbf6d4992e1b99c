"""Releases of tables of counts that leave together, with discrete normal noise."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from cloister.core.settings import Settings
from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["NoisyTable", "NoisyTablesRelease"]


class NoisyTable(Settings):
    """One table of counts with discrete normal noise on every value.

    Parameters
    ----------
    name
        What is counted.
    sigma
        Width of the noise, in steps; any width is accounted for as it is.
    n_moved
        How many of its values one unit moves, each by one step up or down.
    n_values
        How many values it has.
    """

    name: str = Field(min_length=1, max_length=100)
    sigma: float = Field(gt=0)
    n_moved: int = Field(ge=1, le=10_000)
    n_values: int = Field(default=1, ge=1)


class NoisyTablesRelease(Release):
    """Tables of counts that leave together, each with discrete normal noise of its own width.

    A unit more or less moves ``n_moved`` values of each table by exactly one step: the loss is that
    of so many discrete normal variables shifted by one, known in full. Of a larger group, or of a
    unit replaced, only the squared distance is known, (k^2 times) the number of values moved; that
    bounds the divergences (Canonne, Kamath and Steinke 2020, theorem 14). A unit replaced is one
    removed and one added.

    Examples
    --------
    >>> from cloister.privacy.level import Level
    >>> cells = NoisyTable(name="cells", sigma=3.0, n_moved=4)
    >>> lengths = NoisyTable(name="lengths", sigma=9.0, n_moved=1)
    >>> release = NoisyTablesRelease(
    ...     level="token", tables=(cells, lengths), group_sizes={"document": 10})
    >>> dict(release.loss_counts(Level.TOKEN)) == {
    ...     Loss("discrete-gaussian", 3.0): 4, Loss("discrete-gaussian", 9.0): 1}
    True
    >>> round(release.losses(Level.DOCUMENT)[0].noise, 4)  # 1 / (10 sqrt(4/9 + 1/81))
    0.148
    """

    mechanism: Literal["noisy-tables"] = "noisy-tables"
    tables: tuple[NoisyTable, ...] = Field(min_length=1)

    @property
    def noise_multiplier(self) -> float:
        """Width over sensitivity of the whole, as if all of it were one normal release."""
        return 1 / math.sqrt(sum(table.n_moved / table.sigma**2 for table in self.tables))

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        if group_size == 1 and self.neighbours == "add-remove":
            return tuple(
                Loss("discrete-gaussian", table.sigma)
                for table in self.tables
                for _ in range(table.n_moved)
            )
        n_units = group_size * (2 if self.neighbours == "replace" else 1)
        return (Loss("concentrated", self.noise_multiplier / n_units),)
