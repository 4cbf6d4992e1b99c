"""The cascade click model, with the instantiations of the FOLTR thesis.

The user looks at the documents from the top. A document of grade g is clicked with the chance
``click_probability[g]``. After a click the user leaves with the chance ``stop_probability[g]``.
The original code of PDGD lets the user leave at each document seen, clicked or not, with the same
chances; that is ``stop="at_each_document"``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.data.clicks.model import ChancesByGrade, ClickTable

__all__ = ["CASCADE_TABLES", "CascadeModel", "StopRule", "cascade_model"]

StopRule = Literal["after_click", "at_each_document"]


class _Chances(NamedTuple):
    click: tuple[float, ...]
    stop: tuple[float, ...]


# Thesis tables 2.1 (3 grades), 2.2 (5 grades) and 5.1 (poison, both). The tables for 2 grades are
# not printed: they are those of the published code for the intent-change collection (section
# 4.3), and poison is again the perfect table reversed.
CASCADE_TABLES: Final = MappingProxyType(
    {
        ("perfect", 2): _Chances((0.0, 1.0), (0.0, 0.0)),
        ("navigational", 2): _Chances((0.05, 0.95), (0.2, 0.9)),
        ("informational", 2): _Chances((0.3, 0.7), (0.1, 0.5)),
        ("poison", 2): _Chances((1.0, 0.0), (0.0, 0.0)),
        ("perfect", 3): _Chances((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        ("navigational", 3): _Chances((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        ("informational", 3): _Chances((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        ("poison", 3): _Chances((1.0, 0.5, 0.0), (0.0, 0.0, 0.0)),
        ("perfect", 5): _Chances((0.0, 0.2, 0.4, 0.8, 1.0), (0.0,) * 5),
        ("navigational", 5): _Chances((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        ("informational", 5): _Chances((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("poison", 5): _Chances((1.0, 0.8, 0.4, 0.2, 0.0), (0.0,) * 5),
    }
)


class CascadeModel(Settings):
    """A user who goes down the page, clicks, and may leave.

    Parameters
    ----------
    name
        Short name.
    click_probability, stop_probability
        Chances by grade, from grade 0. ``None`` where a fit could not tell; pages that need such
        a chance are refused.
    stop
        Whether the user may leave after a click only (thesis), or at each document seen.

    Examples
    --------
    >>> eager = CascadeModel(name="eager", click_probability=(0.1, 0.9),
    ...                      stop_probability=(0.0, 1.0))
    >>> eager.n_grades, eager.stop
    (2, 'after_click')
    """

    name: str = "custom"
    click_probability: ChancesByGrade
    stop_probability: ChancesByGrade
    stop: StopRule = "after_click"

    @model_validator(mode="after")
    def _tables_fit(self) -> Self:
        if len(self.click_probability) != len(self.stop_probability):
            raise ValueError("click_probability and stop_probability differ in length")
        return self

    @property
    def n_grades(self) -> int:
        """Number of relevance grades that the model knows, from 0."""
        return len(self.click_probability)

    def table(self, page_length: int) -> ClickTable:
        """Return the model as arrays, for pages of up to ``page_length`` documents."""
        return ClickTable(
            np.array(self.click_probability, np.float64),  # None becomes NaN
            np.array(self.stop_probability, np.float64),
            self.stop == "at_each_document",
            np.ones(page_length),
        )


def cascade_model(name: str, n_grades: int, *, stop: StopRule = "after_click") -> CascadeModel:
    """Return an instantiation of the thesis: perfect, navigational, informational or poison.

    Examples
    --------
    >>> cascade_model("navigational", n_grades=3).click_probability
    (0.05, 0.5, 0.95)
    >>> cascade_model("navigational", n_grades=4)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: cascade_model: no table 'navigational' for 4 grades; ...
    """
    if (name, n_grades) not in CASCADE_TABLES:
        names = ", ".join(dict.fromkeys(known for known, _ in CASCADE_TABLES))
        sizes = ", ".join(str(size) for size in sorted({size for _, size in CASCADE_TABLES}))
        raise SettingsError(
            f"no table {name!r} for {n_grades} grades",
            where="cascade_model",
            remedy=f"known: {names} for {sizes} grades; others can be made with CascadeModel",
        )
    chances = CASCADE_TABLES[name, n_grades]
    return CascadeModel(
        name=name, click_probability=chances.click, stop_probability=chances.stop, stop=stop
    )
