"""Count-Min (Cormode, Muthukrishnan 2005): term counts in a table without signs.

The table holds ``C(a, c)``, the sum of ``f(t)`` over the terms with ``h_a(t) = c``. While no count
is negative, every cell of a term holds at least its count: the minimum over rows never lies below
the truth, and exceeds it by more than ``e N / n_columns`` (N tokens) with probability at most
``exp(-n_rows)`` over keys.

On a table with noise the minimum picks the most negative noise. There the mean over rows is meant,
less what other terms are expected to add: ``(C(a, h_a(t)) - N / w) w / (w - 1)``, with ``N`` the
sum of the row. Over keys it is unbiased, also for counts below zero.

A sketch hides nothing by itself: who has the key reads upper bounds of all counts from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.sketch.count_sketch import CountTable
from cloister.sketch.keyed_hash import HashedTerms

__all__ = ["CountMin"]


@dataclass(frozen=True, eq=False)
class CountMin(CountTable):
    """A table of counts; `estimate` and `estimate_mean` read it.

    Examples
    --------
    >>> from cloister.sketch.keyed_hash import HashKey, SketchShape
    >>> key, shape = HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=50)
    >>> hashed = key.hash_terms(["cough", "fever", "rash"], shape)
    >>> sketch = CountMin.empty(shape, key.fingerprint).add(hashed, np.array([7, 2, 0]))
    >>> sketch.estimate(hashed)
    array([7., 2., 0.])
    """

    kind: ClassVar[str] = "count-min"
    signed: ClassVar[bool] = False

    def estimate(self, hashed: HashedTerms) -> NDArray[np.float64]:
        """Return the minimum over rows for each term: never too low while no count is negative."""
        self._require_fitting(hashed)
        return _least(self.table, hashed.columns)

    def estimate_mean(self, hashed: HashedTerms) -> NDArray[np.float64]:
        """Return the mean over rows without what other terms add on average: for noisy tables.

        Noise of mean 0 and standard deviation s in each cell gives the mean one of about
        s / sqrt(n_rows). Frequent terms disturb it more than they do a median.
        """
        self._require_fitting(hashed)
        w = self.shape.n_columns
        if w < 2:
            raise DataError(
                "one column cannot tell a term from the others",
                where="n_columns",
                remedy="sketch with more columns",
            )
        totals = self.table.sum(axis=1, dtype=np.float64)
        cells = _mean(self.table, hashed.columns)
        return np.asarray((cells - totals.mean() / w) * (w / (w - 1)), np.float64)


@kernel
def _least(table: NDArray[np.int64], columns: NDArray[np.uint32]) -> NDArray[np.float64]:
    n_terms, n_rows = columns.shape
    estimates = np.empty(n_terms)
    for term in range(n_terms):
        least = table[0, columns[term, 0]]
        for row in range(1, n_rows):
            least = min(least, table[row, columns[term, row]])
        estimates[term] = least
    return estimates


@kernel
def _mean(table: NDArray[np.int64], columns: NDArray[np.uint32]) -> NDArray[np.float64]:
    n_terms, n_rows = columns.shape
    estimates = np.empty(n_terms)
    for term in range(n_terms):
        total = 0.0
        for row in range(n_rows):
            total += table[row, columns[term, row]]
        estimates[term] = total / n_rows
    return estimates
