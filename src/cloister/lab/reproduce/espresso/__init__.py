"""ESPRESSO (2025): search across personal online datastores, its experiments done again."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.espresso.figure_4 import figure_4, figure_5
from cloister.lab.reproduce.espresso.figure_6 import figure_6
from cloister.lab.reproduce.espresso.figures_2_3 import figure_2, figure_3
from cloister.lab.reproduce.espresso.judged import judged
from cloister.lab.reproduce.espresso.low_access import low_access
from cloister.lab.reproduce.espresso.selectors import selectors
from cloister.lab.reproduce.espresso.statistics import statistics
from cloister.lab.reproduce.espresso.table_3 import table_3
from cloister.lab.reproduce.espresso.table_4 import table_4
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return the paper's tables and figures, then what goes beyond them."""
    makers = (
        table_3, table_4, figure_2, figure_3, figure_4, figure_5, figure_6, selectors, judged,
        low_access, statistics,
    )  # fmt: skip
    return [make(size, collections) for make in makers]
