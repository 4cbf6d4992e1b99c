"""The FOLTR thesis, chapter 6: unlearning, with what it leaves open."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.unlearning.canary import canary
from cloister.lab.reproduce.unlearning.configurations import figure_6_2
from cloister.lab.reproduce.unlearning.convergence import figure_6_3
from cloister.lab.reproduce.unlearning.sweep import table_6_2
from cloister.lab.reproduce.unlearning.worth import worth

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return all figures, in the order of the thesis; then what it leaves open."""
    makers = (figure_6_2, figure_6_3, table_6_2, worth, canary)
    return [make(size, collections) for make in makers]
