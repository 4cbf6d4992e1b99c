"""The position-based click model: examined or not by rank, attracted or not by grade.

The document at rank i is examined with the chance (1/i)^eta, whatever happened above it, and an
examined document of grade g is clicked with the chance ``attraction[g]``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from cloister.core.settings import Settings
from cloister.data.clicks.cascade import cascade_model
from cloister.data.clicks.model import ChancesByGrade, ClickTable

__all__ = ["PositionBasedModel", "position_based_model"]


class PositionBasedModel(Settings):
    """A user who examines lower ranks more rarely and never leaves.

    Parameters
    ----------
    eta
        How fast examination falls; 0 examines every document. The thesis uses 0, 0.5, 1, 1.5, 2.
    attraction
        Chance of a click on an examined document, by grade from 0; ``None`` where a fit could not
        tell, and pages with such a grade are refused.

    Examples
    --------
    >>> PositionBasedModel(eta=0.5, attraction=(0.0, 1.0)).name
    'pbm-0.5'
    """

    eta: Annotated[float, Field(ge=0.0)]
    attraction: ChancesByGrade

    @property
    def name(self) -> str:
        """Short name: ``pbm-`` and eta."""
        return f"pbm-{self.eta:g}"

    @property
    def n_grades(self) -> int:
        """Number of relevance grades that the model knows, from 0."""
        return len(self.attraction)

    def table(self, page_length: int) -> ClickTable:
        """Return the model as arrays, for pages of up to ``page_length`` documents."""
        ranks = np.arange(1, page_length + 1, dtype=np.float64)
        attraction = np.array(self.attraction, np.float64)  # None becomes NaN
        # Thesis section 4.5.1: propensity of rank i is (1/i)^eta.
        return ClickTable(attraction, np.zeros_like(attraction), False, ranks**-self.eta)


def position_based_model(eta: float, n_grades: int) -> PositionBasedModel:
    """Return the thesis's model: attraction from the perfect cascade table.

    Examples
    --------
    >>> position_based_model(1.5, n_grades=3)
    PositionBasedModel(eta=1.5, attraction=(0.0, 0.5, 1.0))
    """
    return PositionBasedModel(
        eta=eta, attraction=cascade_model("perfect", n_grades).click_probability
    )
