"""RTK-Sketch as CS-F-LTR prints it (algorithms 4 and 5), for comparison.

Each cell keeps one min-heap of the ``alpha * K`` largest *signed* counts; a query takes the median
over the rows in which a document is still present, and asks for ``beta * n_rows`` of them. What is
wrong with it:

- Where a term's sign is -1, a document in which the term is frequent has a very negative count,
  and the heap has thrown it away: about half of the rows say nothing, or mislead.
- A document is present in a row where collisions raised its count and missing where they lowered
  it, so the median over present rows is biased upwards, the more the fewer rows are left.
- With an obfuscated query of ``n_true_rows`` true rows, ``beta`` counted against ``n_rows`` can ask
  for more rows than are true.

Use `cloister.sketch.rtk_sketch.RtkSketch`. Neither hides anything by itself: which documents are in
a heap is a selection by exact counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.index.best_k import keep_best, sort_best
from cloister.index.term_counts import TermCounts
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.keyed_hash import HashedTerms
from cloister.sketch.rtk_lists import RtkLists, select_row
from cloister.sketch.rtk_query import ReverseTop

__all__ = ["SignedHeap"]

Floats = NDArray[np.float64]


class SignedHeap:
    """One heap of signed counts in each cell, filled with all documents in their order.

    Of equal counts `DeleteMin` throws out the document that came last; the paper does not say.

    Parameters
    ----------
    counts
        The documents.
    hashed
        Where the terms of their vocabulary fall.
    heap_size
        How many documents a heap keeps: alpha times K.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.sketch.keyed_hash import HashKey, SketchShape
    >>> counts = count_terms(["fever", "cough cough fever", "cough"])
    >>> key, shape = HashKey(bytes(32)), SketchShape(n_rows=3, n_columns=50)
    >>> heaps = SignedHeap(counts, key.hash_terms(counts.vocabulary, shape), heap_size=3)
    >>> heaps.top(key.hash_terms(["cough"], shape), k=2)
    ReverseTop(documents=array([[1, 2]], dtype=int32), counts=array([[2., 1.]]))
    """

    def __init__(self, counts: TermCounts, hashed: HashedTerms, heap_size: int = 750) -> None:
        if heap_size < 1:
            raise SettingsError(f"a heap of {heap_size} documents", where="heap_size")
        self.shape = hashed.shape
        self.n_documents = counts.n_documents
        # A heap from which the least is thrown out keeps the largest, in whatever order they came.
        self.ids = np.empty((self.shape.n_cells, heap_size), np.int32)
        self.values = np.empty((self.shape.n_cells, heap_size), np.int16)
        lists = RtkLists.empty(self.shape.n_columns, heap_size)
        cells = None
        for row in range(self.shape.n_rows):
            cells = row_cells(counts, hashed, row, out=cells)
            select_row(cells, heap_size, lists, 0)
            part = slice(row * self.shape.n_columns, (row + 1) * self.shape.n_columns)
            self.ids[part], self.values[part] = lists.ids[:, 0], lists.values[:, 0]

    @property
    def size_bytes(self) -> int:
        """Memory of all heaps."""
        return self.ids.nbytes + self.values.nbytes

    def top(
        self, hashed: HashedTerms, k: int = 150, *, beta: float = 0.1, signed: bool = True
    ) -> ReverseTop:
        """Return the k documents with the largest medians over the rows that have them.

        Parameters
        ----------
        hashed
            The terms.
        k
            How many documents.
        beta
            In what share of all rows a document must be.
        signed
            Whether counts are multiplied with the term's sign. Equation 3 does not.
        """
        if hashed.shape != self.shape:
            raise DataError("the terms are hashed for another shape", where="hashed")
        if k < 1 or not 0 <= beta <= 1:
            raise SettingsError(f"k {k} is below 1, or beta {beta} is no share", where="top")
        found = np.full((hashed.n_terms, k), -1, np.int32)
        counts = np.zeros((hashed.n_terms, k))
        least_rows = max(1, math.ceil(beta * self.shape.n_rows - 1e-9))
        cells = hashed.cells()
        slots = np.full(self.n_documents, -1, np.int32)
        for term in range(hashed.n_terms):
            signs = hashed.signs[term] if signed else np.ones_like(hashed.signs[term])
            _query(
                self.ids, self.values, cells[term], signs, least_rows, slots, found[term],
                counts[term],
            )  # fmt: skip
        return ReverseTop(found, counts)


@kernel
def _query(
    ids: NDArray[np.int32],
    values: NDArray[np.int16],
    cells: NDArray[np.int64],
    signs: NDArray[np.int8],
    least_rows: int,
    slots: NDArray[np.int32],
    found: NDArray[np.int32],
    counts: Floats,
) -> None:
    n_rows, heap_size = len(cells), ids.shape[1]
    present = np.empty((min(n_rows * heap_size, len(slots)), n_rows))
    n_present = np.zeros(len(present), np.int32)
    candidates = np.empty(len(present), np.int32)
    n = 0
    for row in range(n_rows):
        for i in range(heap_size):
            document = ids[cells[row], i]
            if document < 0:
                break
            if slots[document] < 0:
                slots[document] = n
                candidates[n] = document
                n += 1
            slot = slots[document]
            present[slot, n_present[slot]] = signs[row] * values[cells[row], i]
            n_present[slot] += 1
    n_found = 0
    for slot in range(n):
        slots[candidates[slot]] = -1
        if n_present[slot] >= least_rows:
            median = np.median(present[slot, : n_present[slot]])
            n_found = keep_best(found, counts, n_found, candidates[slot], median)
    sort_best(found, counts, n_found)
