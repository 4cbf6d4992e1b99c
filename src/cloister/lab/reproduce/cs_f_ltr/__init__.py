"""CS-F-LTR (ICDE 2021): learning to rank across silos by sketches, its experiments done again."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.cs_f_ltr.cover import cover
from cloister.lab.reproduce.cs_f_ltr.fairness import fairness
from cloister.lab.reproduce.cs_f_ltr.figure_4 import figure_4
from cloister.lab.reproduce.cs_f_ltr.figure_5 import figure_5
from cloister.lab.reproduce.cs_f_ltr.figure_6 import figure_6
from cloister.lab.reproduce.cs_f_ltr.other_rankers import other_rankers
from cloister.lab.reproduce.cs_f_ltr.table_1 import table_1
from cloister.lab.reproduce.figure import Figure, Size

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return the paper's table and figures, then what goes beyond them."""
    return [
        make(size, collections)
        for make in (table_1, figure_4, figure_5, figure_6, fairness, other_rankers, cover)
    ]
