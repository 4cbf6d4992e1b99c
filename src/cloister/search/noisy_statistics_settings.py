"""What a noisy release of statistics may cost, and how much of a document or a pod it counts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloister.core.settings import Settings
from cloister.privacy.level import Level as Unit

__all__ = ["NoisyStatisticsSettings"]


class NoisyStatisticsSettings(Settings):
    """What a release may cost, and how much of a unit it counts.

    Parameters
    ----------
    epsilon, delta
        What the whole release may cost for one unit.
    unit
        What is protected: a ``document``, or a ``pod`` with all its documents, which is a person's.
    max_terms
        So many terms of a unit are counted. Of a pod: so many pairs of a term and a number up to
        ``max_documents`` of documents that hold it.
    max_documents
        Where the unit is a pod: of a term, at most so many documents of a pod count.
    max_length, n_lengths
        Longer units count as so long; lengths are rounded to so many steps up to that.
    kept
        Which terms of a unit stay: the most ``frequent``, or ``any``, by a hash of term and unit,
        which also decides between equally frequent ones. Either is decided by the unit alone.
    """

    epsilon: float = Field(gt=0, le=1000)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    unit: Literal["document", "pod"] = "pod"
    max_terms: int = Field(default=64, ge=1, le=10_000)
    max_documents: int = Field(default=1, ge=1, le=100)
    max_length: int = Field(default=400, ge=1)
    n_lengths: int = Field(default=16, ge=1, le=1000)
    kept: Literal["any", "frequent"] = "frequent"

    @property
    def level(self) -> Unit:
        """The unit as the ledger names it: a pod is a user's."""
        return Unit.USER if self.unit == "pod" else Unit.DOCUMENT
