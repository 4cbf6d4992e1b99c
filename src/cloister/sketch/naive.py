"""NAIVE, algorithm 3 of CS-F-LTR: ask the sketch of every document, and keep the best k.

What RTK-Sketch is compared with. The scan is a fair one: the cells lie side by side by document, a
block of documents at a time goes through an insertion sort of its rows, and the best k are kept in
the same pass. Memory is that of all documents' sketches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.index.term_counts import TermCounts
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.keyed_hash import HashedTerms, SketchShape
from cloister.sketch.medians import BLOCK, insert_lane
from cloister.sketch.rtk_query import ReverseTop

__all__ = ["Naive"]


class Naive:
    """The sketches of all documents, dense, and the scan over them.

    Parameters
    ----------
    counts
        The documents.
    hashed
        Where the terms of their vocabulary fall.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.sketch.keyed_hash import HashKey
    >>> counts = count_terms(["fever", "cough cough fever", "cough"])
    >>> key, shape = HashKey(bytes(32)), SketchShape(n_rows=3, n_columns=50)
    >>> naive = Naive(counts, key.hash_terms(counts.vocabulary, shape))
    >>> naive.top(key.hash_terms(["cough"], shape), k=2)
    ReverseTop(documents=array([[1, 2]], dtype=int32), counts=array([[2., 1.]]))
    """

    def __init__(self, counts: TermCounts, hashed: HashedTerms) -> None:
        self.shape: SketchShape = hashed.shape
        n_columns = self.shape.n_columns
        self.cells: NDArray[Any] = np.empty(
            (self.shape.n_cells, counts.n_documents), cell_type(counts)
        )
        for row in range(self.shape.n_rows):
            part = self.cells[row * n_columns : (row + 1) * n_columns]
            row_cells(counts, hashed, row, out=part)

    @property
    def size_bytes(self) -> int:
        """Memory of all sketches."""
        return self.cells.nbytes

    def top(self, hashed: HashedTerms, k: int = 150, *, signed: bool = True) -> ReverseTop:
        """Return the k documents in which each term is most frequent, by the median of its rows.

        Of equal estimates the smaller document number comes first.

        Parameters
        ----------
        hashed
            The terms.
        k
            How many documents.
        signed
            Whether rows count with the term's sign. CS-F-LTR's equation 3 leaves it out, and then
            the estimate tells next to nothing.
        """
        if hashed.shape != self.shape:
            raise DataError("the terms are hashed for another shape", where="hashed")
        if k < 1:
            raise SettingsError(f"k {k} is below 1", where="k")
        found = np.full((hashed.n_terms, k), -1, np.int32)
        counts = np.zeros((hashed.n_terms, k))
        cells = hashed.cells()
        doubled = np.empty(self.cells.shape[1], np.int32)
        for term in range(hashed.n_terms):
            signs = hashed.signs[term] if signed else np.ones_like(hashed.signs[term])
            _scan(self.cells, cells[term], signs, doubled)
            _take_best(doubled, found[term], counts[term])
        return ReverseTop(found, counts)


@kernel
def _scan(
    cells: NDArray[Any],
    places: NDArray[np.int64],
    signs: NDArray[np.int8],
    doubled: NDArray[np.int32],
) -> None:
    """Write twice the median of each document's rows, block by block."""
    n_rows = len(places)
    lanes = np.empty((n_rows, BLOCK), np.int32)
    for begin in range(0, cells.shape[1], BLOCK):
        n = min(BLOCK, cells.shape[1] - begin)
        for row in range(n_rows):
            cell, sign = cells[places[row]], np.int32(signs[row])
            lane = lanes[row]
            for i in range(n):
                lane[i] = sign * np.int32(cell[begin + i])
            insert_lane(lanes, row, n)
        one_lane, two_lane = lanes[(n_rows - 1) // 2], lanes[n_rows // 2]
        for i in range(n):
            doubled[begin + i] = one_lane[i] + two_lane[i]


@kernel
def _take_best(doubled: NDArray[np.int32], found: NDArray[np.int32], counts: Any) -> None:
    """Select by counting, as the lists are; then place the best in order."""
    if len(doubled) == 0:
        return
    high = doubled.max()
    low = doubled.min()
    if high - low > 16 * len(doubled) + 65536:  # a histogram would be larger than the data
        order = np.argsort(-doubled.astype(np.int64), kind="mergesort")
        for place in range(min(len(found), len(doubled))):
            found[place] = order[place]
            counts[place] = doubled[order[place]] / 2
        return
    places = np.zeros(high - low + 2, np.int32)
    for value in doubled:
        places[high - value + 1] += 1
    last = 0
    for i in range(1, len(places)):
        if places[i - 1] < len(found):
            last = i - 1
        places[i] += places[i - 1]
    least = high - last
    for document in range(len(doubled)):
        value = doubled[document]
        if value >= least:
            place = places[high - value]
            if place < len(found):
                found[place] = document
                counts[place] = value / 2
                places[high - value] = place + 1
