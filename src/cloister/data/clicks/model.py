"""What every click model offers, and the tables that kernels read.

One family covers both kinds of model. The user goes down the page. At rank i the document of
grade g is clicked with the chance ``examination[i] * click[g]``; then the user may leave with the
chance ``stop[g]``, either after a click only or at each document seen.

- Cascade: ``examination`` is 1 everywhere.
- Position-based: ``stop`` is 0 everywhere, ``examination`` falls with the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import SettingsError

__all__ = ["ChancesByGrade", "ClickModel", "ClickTable", "StackedTables", "stack_tables"]

_MAX_GRADES: Final = 128  # labels are kept as int8
_Chance = Annotated[float, Field(ge=0.0, le=1.0)]

# From grade 0; None where a fit could not tell.
ChancesByGrade = Annotated[tuple[_Chance | None, ...], Field(min_length=1, max_length=_MAX_GRADES)]


class ClickTable(NamedTuple):
    """One model as arrays; NaN where a chance is not known."""

    click: NDArray[np.float64]  # by grade
    stop: NDArray[np.float64]  # by grade
    stop_at_each: bool  # may the user leave at a document that was not clicked?
    examination: NDArray[np.float64]  # by rank


class ClickModel(Protocol):
    """A user who clicks: found by name in :func:`cloister.data.clicks.click_model`."""

    @property
    def name(self) -> str:
        """Short name, as settings and result files write it."""

    @property
    def n_grades(self) -> int:
        """Number of relevance grades that the model knows, from 0."""

    def table(self, page_length: int) -> ClickTable:
        """Return the model as arrays, for pages of up to ``page_length`` documents."""


class StackedTables(NamedTuple):
    """Several models as arrays, one row each, for kernels in which clients differ."""

    click: NDArray[np.float64]  # models x grades
    stop: NDArray[np.float64]  # models x grades
    stop_at_each: NDArray[np.bool_]  # models
    examination: NDArray[np.float64]  # models x ranks


def stack_tables(models: Sequence[ClickModel], page_length: int) -> StackedTables:
    """Stack the tables of models that know the same number of grades.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> tables = stack_tables([click_model("perfect", 3), click_model("pbm-1", 3)], 2)
    >>> tables.click.tolist()
    [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]]
    >>> tables.examination.tolist()
    [[1.0, 1.0], [1.0, 0.5]]
    """
    if len({model.n_grades for model in models}) != 1:
        known = ", ".join(f"{model.name} {model.n_grades}" for model in models)
        raise SettingsError(
            f"models must know the same number of grades (given: {known or 'no model'})",
            where="stack_tables",
        )
    tables = [model.table(page_length) for model in models]
    return StackedTables(
        np.stack([table.click for table in tables]),
        np.stack([table.stop for table in tables]),
        np.array([table.stop_at_each for table in tables]),
        np.stack([table.examination for table in tables]),
    )
