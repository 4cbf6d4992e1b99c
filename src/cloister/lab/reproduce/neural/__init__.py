"""Private neural ranking (slides, SIGIR 2019): its four tables done again."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.neural.table_1 import table_1
from cloister.lab.reproduce.neural.table_2 import table_2
from cloister.lab.reproduce.neural.table_3 import table_3
from cloister.lab.reproduce.neural.table_4 import table_4

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return the slides' four tables; all read the same trials."""
    return [make(size, collections) for make in (table_1, table_2, table_3, table_4)]
