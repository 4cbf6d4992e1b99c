"""The reverse top-K query on two-sided lists: the documents in which a term is most frequent.

As CS-F-LTR's algorithm 5, with four things mended:

- In each row the side is read that matches the term's sign.
- A document is a candidate from ``beta * n_true_rows`` lists on, not ``beta * n_rows``: where an
  obfuscated query has only ``n_true_rows`` true rows, the others tell nothing.
- A row in which a candidate is missing is not left out of the estimate, which would bias it
  upwards, but imputed with the mean of what the list left out. That mean follows from the list:
  signs are random, so all documents' values in a cell sum to about zero.
- Medians of whole numbers are often equal. Ties are broken by the mean of the rows, each clipped
  to lie near the median.

A query reads lists that are at hand. It tells nobody anything, and what it finds is as private as
the lists: exact lists hide nothing, lists made of noisy cells keep their guarantee for any number
of queries.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.sketch.keyed_hash import HashedTerms, SketchShape
from cloister.sketch.rtk_kernel import (
    MEAN,
    MEDIAN,
    Scratch,
    estimate_given,
    left_out_means,
    reverse_top_terms,
)
from cloister.sketch.rtk_lists import RtkLists

__all__ = ["Estimator", "ReverseTop", "RtkQuery"]

Floats = NDArray[np.float64]
Estimator = Literal["auto", "median", "huber", "mean", "floor-median"]

HUBER_CUT: Final = 1.5  # in units of sigma: nearly a mean under normal noise (Huber 1964)
LEAST_SPREAD: Final = 1.0  # counts are whole numbers


class ReverseTop(NamedTuple):
    """The best documents of each term (a line each), best first, and their estimated counts.

    Where there were fewer candidates than k, the places at the end hold document -1 and count 0.
    """

    documents: NDArray[np.int32]  # [n_terms, k]
    counts: Floats  # [n_terms, k]


class _Reading(NamedTuple):
    """How to read the lists."""

    n_rows: int
    estimator: int
    cut: float
    floor: bool


class RtkQuery:
    """Reads two-sided lists. One object serves one thread: it holds scratch memory.

    Parameters
    ----------
    lists
        The lists, exact or made of noisy cells.
    shape
        Rows and columns of the sketch that they belong to.
    n_documents
        How many documents the sketch is of.
    cell_size
        How many entries of a list are read; all by default.
    sigma
        Standard deviation of the normal noise on each cell; 0 for none.
    n_numbers
        All document numbers are below this; ``n_documents`` by default.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.sketch.cell_counts import row_cells
    >>> from cloister.sketch.keyed_hash import HashKey
    >>> from cloister.sketch.rtk_lists import select_row
    >>> counts = count_terms(["fever", "cough cough fever", "cough"])
    >>> shape, key = SketchShape(n_rows=3, n_columns=50), HashKey(bytes(32))
    >>> hashed = key.hash_terms(counts.vocabulary, shape)
    >>> lists = RtkLists.empty(shape.n_cells, cell_size=2)
    >>> for row in range(3):
    ...     select_row(row_cells(counts, hashed, row), 2, lists, row)
    >>> query = RtkQuery(lists, shape, n_documents=3)
    >>> query.top(key.hash_terms(["cough"], shape), k=2)
    ReverseTop(documents=array([[1, 2]], dtype=int32), counts=array([[2., 1.]]))
    """

    def __init__(
        self,
        lists: RtkLists,
        shape: SketchShape,
        n_documents: int,
        *,
        cell_size: int | None = None,
        sigma: float = 0.0,
        n_numbers: int | None = None,
    ) -> None:
        if lists.n_cells != shape.n_cells:
            raise DataError(
                f"lists of {lists.n_cells} cells for a sketch of {shape.n_cells}", where="lists"
            )
        if not (sigma >= 0 and math.isfinite(sigma)):
            raise SettingsError(f"{sigma} is no standard deviation", where="sigma")
        self.lists = lists
        self.shape = shape
        self.n_documents = n_documents
        self.cell_size = min(cell_size or lists.capacity, lists.capacity)
        self.sigma = sigma
        n_candidates = min(shape.n_rows * self.cell_size, max(n_documents, 1))
        n_slots = n_documents if n_numbers is None else n_numbers
        self._scratch = Scratch(
            np.zeros(n_slots, np.uint16),
            np.zeros(n_slots, np.int32),
            np.empty(n_candidates, np.int32),
            np.empty((shape.n_rows + 2, n_candidates)),
        )
        self._means = left_out_means(lists.values, lists.sizes, self.cell_size, n_documents)
        self._floors = _shown_floors(lists, self.cell_size)

    def top(
        self,
        hashed: HashedTerms,
        k: int = 150,
        *,
        n_true_rows: int | None = None,
        beta: float = 0.1,
        estimator: Estimator = "auto",
    ) -> ReverseTop:
        """Return the k documents in which each term is most frequent, by estimate.

        Parameters
        ----------
        hashed
            The terms.
        k
            How many documents.
        n_true_rows
            How many rows are read, from the first on; all by default.
        beta
            In what share of the lists read a document must be.
        estimator
            How rows are put together: their ``median``, Huber's mean (``huber``) or ``mean``;
            ``floor-median`` imputes missing rows with the list's floor, which is too much for most
            documents; ``auto`` is what covered most when measured.
        """
        reading = self._reading(hashed, n_true_rows, estimator)
        if k < 1 or not 0 <= beta <= 1:
            raise SettingsError(f"k {k} is below 1, or beta {beta} is no share", where="top")
        least_rows = max(1, math.ceil(beta * reading.n_rows - 1e-9))
        found = np.empty((hashed.n_terms, k), np.int32)
        counts = np.empty((hashed.n_terms, k))
        reverse_top_terms(
            self.lists,
            self.cell_size,
            hashed.columns,
            hashed.signs,
            self.shape.n_columns,
            reading.n_rows,
            self._floors if reading.floor else self._means,
            least_rows,
            reading.estimator,
            reading.cut,
            self._scratch,
            found,
            counts,
        )
        return ReverseTop(found, counts)

    def term_counts(
        self,
        hashed: HashedTerms,
        documents: NDArray[np.integer[Any]],
        *,
        n_true_rows: int | None = None,
        estimator: Estimator = "auto",
    ) -> Floats:
        """Return estimates of how often each term (row) occurs in each document (column).

        A document that is in none of the lists gets what its missing rows are imputed with. No
        estimate is below 0.
        """
        reading = self._reading(hashed, n_true_rows, estimator)
        numbers = np.ascontiguousarray(documents, np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self._scratch.slots):
            raise DataError(f"numbers go up to {len(self._scratch.slots) - 1}", where="documents")
        out = np.empty((hashed.n_terms, len(numbers)))
        cells, sides = _places(hashed)
        for term in range(hashed.n_terms):
            own_cells = cells[term, : reading.n_rows]
            own_sides = sides[term, : reading.n_rows]
            estimate_given(
                self.lists,
                self.cell_size,
                own_cells,
                own_sides,
                self._imputed(reading, own_cells, own_sides),
                reading.estimator,
                reading.cut,
                self._scratch.slots,
                numbers,
                out[term],
            )
        return np.maximum(out, 0.0)

    def _reading(
        self, hashed: HashedTerms, n_true_rows: int | None, estimator: Estimator
    ) -> _Reading:
        if hashed.shape is not self.shape and hashed.shape != self.shape:
            raise DataError(
                f"terms hashed for {hashed.shape} do not fit lists of {self.shape}",
                where="hashed",
                remedy="hash the terms for the shape of the sketch",
            )
        n_rows = self.shape.n_rows if n_true_rows is None else n_true_rows
        if not 1 <= n_rows <= self.shape.n_rows:
            raise SettingsError(f"{n_rows} of {self.shape.n_rows} rows", where="n_true_rows")
        if estimator == "auto":
            estimator = "median" if self.sigma == 0 else "huber"
        cut = math.inf if estimator == "mean" else HUBER_CUT * max(self.sigma, LEAST_SPREAD)
        floor = estimator == "floor-median"
        return _Reading(n_rows, MEDIAN if floor or estimator == "median" else MEAN, cut, floor)

    def _imputed(
        self, reading: _Reading, cells: NDArray[np.int64], sides: NDArray[np.int8]
    ) -> Floats:
        return (self._floors if reading.floor else self._means)[cells, sides]


def _places(hashed: HashedTerms) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return the cell and the side of each term in each row."""
    return hashed.cells(), (hashed.signs < 0).astype(np.int8)


def _shown_floors(lists: RtkLists, cell_size: int) -> Floats:
    """Return an upper bound of what each list does not show."""
    floors = lists.floors.astype(np.float64)
    if cell_size < lists.capacity:
        hidden = lists.sizes > cell_size
        floors[hidden] = lists.values[:, :, cell_size][hidden]
    return floors
