"""What a server knows in plain: which words, or closures, some documents have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel

__all__ = ["KnownOccurrences"]

Integers = NDArray[np.int64]
Counts = NDArray[np.int32]


class KnownOccurrences(NamedTuple):
    """Known documents: which rows (words, or closures) each of them has.

    Parameters
    ----------
    starts
        Where each document's entries begin, and the number of entries at the end.
    rows
        Different ones within a document.
    n_rows
        Words, or closures, in all.
    """

    starts: Integers
    rows: Counts
    n_rows: int

    @property
    def n_documents(self) -> int:
        """Number of known documents."""
        return len(self.starts) - 1

    @property
    def frequencies(self) -> Integers:
        """In how many known documents each row is."""
        return np.bincount(self.rows, minlength=self.n_rows).astype(np.int64)

    def together(self, wanted: Integers) -> Counts:
        """Return in how many known documents each row is together with each wanted row."""
        asked, which = np.unique(wanted, return_inverse=True)
        found = np.zeros((self.n_rows, len(asked)), np.int32)
        place = np.full(self.n_rows, -1, np.int64)
        place[asked] = np.arange(len(asked))
        _count_together(self.starts, self.rows, place, found)
        return found[:, which.reshape(-1)]


@kernel
def _count_together(starts: Integers, rows: Counts, place: Integers, found: Counts) -> None:
    """Count in how many documents each row is together with each row that has a place."""
    held = np.empty(found.shape[1], np.int64)
    for document in range(len(starts) - 1):
        begin, end = starts[document], starts[document + 1]
        n_held = 0
        for i in range(begin, end):
            if place[rows[i]] >= 0:
                held[n_held] = place[rows[i]]
                n_held += 1
        for i in range(begin, end):
            for j in range(n_held):
                found[rows[i], held[j]] += 1
