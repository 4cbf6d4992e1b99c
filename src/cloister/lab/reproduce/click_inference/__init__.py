"""The click-inference report, section 4, and what lies beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cloister.lab.reproduce.click_inference.generalised import generalised
from cloister.lab.reproduce.click_inference.protections import (
    noised_sums,
    paper_noise,
    secure_sums,
    unprotected,
)
from cloister.lab.reproduce.click_inference.table_4 import table_4
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["figures"]

_FIGURES: Final[tuple[Callable[[Size, Collections], Figure], ...]] = (
    table_4,
    unprotected,
    paper_noise,
    secure_sums,
    noised_sums,
    generalised,
)


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return table 4, then each protection, then what lies beyond."""
    return [make(size, collections) for make in _FIGURES]
