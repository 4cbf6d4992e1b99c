"""Releases of tables of counts that leave together, each value with discrete noise."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.privacy.loss import Loss
from cloister.privacy.release import UNBOUNDED, Release

__all__ = ["NoiseFamily", "NoisyTable", "NoisyTablesRelease"]

NoiseFamily = Literal["discrete-gaussian", "discrete-laplace"]


class NoisyTable(Settings):
    """One table of counts with discrete noise on every value.

    Parameters
    ----------
    name
        What is counted.
    family
        The law of the noise: chances in proportion to exp(-x^2 / (2 width^2)) for
        ``discrete-gaussian``, to exp(-abs(x) / width) for ``discrete-laplace``.
    width
        Of the noise, in steps. Records of version 0.1.0 call it ``sigma`` and name no family:
        theirs is normal.
    n_moved
        How many of its values one unit moves, each by one step up or down.
    n_values
        How many values it has.

    Examples
    --------
    >>> NoisyTable(name="cells", family="discrete-laplace", width=0.5, n_moved=1).sigma
    0.6016...
    """

    name: str = Field(min_length=1, max_length=100)
    family: NoiseFamily = "discrete-gaussian"
    width: float = Field(gt=0)
    n_moved: int = Field(ge=1, le=10_000)
    n_values: int = Field(default=1, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and "sigma" in fields and not {"width", "family"} & set(fields):
            return {("width" if name == "sigma" else name): one for name, one in fields.items()}
        return fields

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in steps; of a normal family its width."""
        if self.family == "discrete-gaussian":
            return self.width
        ratio = math.exp(-1 / self.width)
        return math.sqrt(2 * ratio) / (1 - ratio)


class NoisyTablesRelease(Release):
    """Tables of counts that leave together, each with discrete noise of its own family and width.

    A unit more or less moves ``n_moved`` values of each table by exactly one step: the loss is that
    of so many discrete variables shifted by one, known in full.

    Of a larger group of k units, or of a unit replaced (one removed and one added, k = 2), it is
    known only how far the values move together. For normal noise, k^2 times the squared distance
    bounds the divergences (Canonne, Kamath and Steinke 2020, theorem 14). For Laplace noise, k
    times the number of values moved over the width is an epsilon that holds without delta.

    Examples
    --------
    >>> from cloister.privacy.level import Level
    >>> cells = NoisyTable(name="cells", family="discrete-laplace", width=0.5, n_moved=1)
    >>> lengths = NoisyTable(name="lengths", width=9.0, n_moved=1)
    >>> release = NoisyTablesRelease(
    ...     level="token", tables=(cells, lengths), group_sizes={"document": 10})
    >>> dict(release.loss_counts(Level.TOKEN)) == {
    ...     Loss("discrete-laplace", 0.5): 1, Loss("discrete-gaussian", 9.0): 1}
    True
    >>> [(loss.kind, round(loss.noise, 4)) for loss in release.losses(Level.DOCUMENT)]
    [('bound', 20.0), ('concentrated', 0.9)]
    """

    mechanism: Literal["noisy-tables"] = "noisy-tables"
    tables: tuple[NoisyTable, ...] = Field(min_length=1)

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        if group_size == 1 and self.neighbours == "add-remove":
            return tuple(
                Loss(table.family, table.width)
                for table in self.tables
                for _ in range(table.n_moved)
            )
        n_units = group_size * (2 if self.neighbours == "replace" else 1)
        normal = [table for table in self.tables if table.family == "discrete-gaussian"]
        laplace = [table for table in self.tables if table.family == "discrete-laplace"]
        distance = n_units * math.hypot(*(math.sqrt(one.n_moved) / one.width for one in normal))
        pure = n_units * sum(one.n_moved / one.width for one in laplace)
        if not math.isfinite(distance + pure):
            return (UNBOUNDED,)
        bound = (Loss("bound", pure),) if laplace else ()
        return bound + ((Loss("concentrated", 1 / distance),) if normal else ())
