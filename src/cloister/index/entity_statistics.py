"""Statistics of the entities of a level as a plain table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloister.index.entity_weights import EntityStatistics

__all__ = ["StatisticsTable", "added_statistics"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StatisticsTable:
    """How many entities there are, how long they are, and in how many each term is.

    Examples
    --------
    >>> StatisticsTable(4, 2.5, 10, {"cough": 3}).frequencies(["cough", "rash"]).tolist()
    [3.0, 0.0]
    """

    n_entities: float
    mean_length: float
    n_pairs: float
    table: Mapping[str, float] = field(repr=False)

    def frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many entities each term is; 0 for one that is not in the table."""
        return np.array([self.table.get(term, 0.0) for term in terms], np.float64)


def added_statistics(parts: Iterable[EntityStatistics], terms: Sequence[str]) -> StatisticsTable:
    """Add up the statistics of collections that share no entity, for some terms.

    Examples
    --------
    >>> one = StatisticsTable(2, 3.0, 5, {"cough": 1})
    >>> both = added_statistics([one, StatisticsTable(1, 6.0, 4, {"cough": 1})], ["cough"])
    >>> both.n_entities, both.mean_length, both.table
    (3.0, 4.0, {'cough': 2.0})
    """
    listed = list(parts)
    n = float(sum(part.n_entities for part in listed))
    length = float(sum(part.n_entities * part.mean_length for part in listed))
    pairs = float(sum(part.n_pairs for part in listed))
    df = np.zeros(len(terms))
    for part in listed:
        df += np.maximum(part.frequencies(terms), 0.0)
    table = dict(zip(terms, df.tolist(), strict=True))
    return StatisticsTable(n, length / n if n else 0.0, pairs, table)
