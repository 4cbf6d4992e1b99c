"""The Count Sketches of all documents at once, a row of the sketch at a time, laid out by cell.

Cell ``c`` of a row holds one number for each document, side by side: what a reverse query reads,
and what the top lists of a cell are chosen from. A document's sketch is a column of this layout.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import parallel_kernel
from cloister.index.term_counts import TermCounts
from cloister.sketch.keyed_hash import HashedTerms

__all__ = ["cell_type", "row_cells"]

BLOCK: Final = 64  # documents that a thread lays out together: their cells fill whole cache lines


def cell_type(counts: TermCounts) -> type[np.int16] | type[np.int32]:
    """Return the narrowest integer that holds any cell of these documents' sketches.

    No cell can exceed the length of its document.

    Raises
    ------
    DataError
        If a document has more than 2^31 - 1 tokens.
    """
    longest = float(counts.lengths.max()) if counts.n_documents else 0.0
    if longest <= np.iinfo(np.int16).max:
        return np.int16
    if longest <= np.iinfo(np.int32).max:
        return np.int32
    raise DataError(f"a document of {longest:.0f} tokens is too long for a sketch", where="lengths")


def row_cells(
    counts: TermCounts,
    hashed: HashedTerms,
    row: int,
    *,
    signed: bool = True,
    columns: range | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return one row of every document's sketch, or some columns of it: cells x documents.

    Parameters
    ----------
    counts
        The documents.
    hashed
        Where the terms of their vocabulary fall, in the vocabulary's order.
    row
        Which row.
    signed
        Whether occurrences count with the term's sign (Count Sketch) or not (Count-Min).
    columns
        Which columns of the row, one beside the other; all by default.
    out
        Where to put it, so that rows can share memory. Its type must hold what `cell_type` says.

    Raises
    ------
    DataError
        If the terms were not hashed for these documents, or ``out`` cannot hold the cells.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.sketch.keyed_hash import HashKey, SketchShape
    >>> counts = count_terms(["cough cough fever", "fever"])
    >>> hashed = HashKey(bytes(32)).hash_terms(counts.vocabulary, SketchShape(n_columns=7))
    >>> cells = row_cells(counts, hashed, 0)
    >>> cells.shape, int(abs(cells).sum())
    ((7, 2), 4)
    """
    if hashed.n_terms != counts.n_terms:
        raise DataError(
            f"{hashed.n_terms} hashed terms for a vocabulary of {counts.n_terms}", where="hashed"
        )
    if not 0 <= row < hashed.shape.n_rows:
        raise DataError(f"there are {hashed.shape.n_rows} rows, from 0", where=f"row {row}")
    chosen = range(hashed.shape.n_columns) if columns is None else columns
    if chosen.step != 1 or not 0 <= chosen.start <= chosen.stop <= hashed.shape.n_columns:
        raise DataError(f"there are {hashed.shape.n_columns} columns", where=f"{chosen}")
    size = (len(chosen), counts.n_documents)
    if out is None:
        out = np.empty(size, cell_type(counts))
    elif out.shape != size or not np.can_cast(cell_type(counts), out.dtype):
        raise DataError(
            f"{out.dtype} {out.shape} cannot hold {np.dtype(cell_type(counts))} {size}",
            where="out",
        )
    places = hashed.columns[:, row].astype(np.int64) - chosen.start
    signs = np.ascontiguousarray(hashed.signs[:, row]) if signed else np.ones(len(places), np.int8)
    _lay_out(counts.starts, counts.terms, counts.counts, places, signs, out)
    return out


@parallel_kernel
def _lay_out(
    starts: NDArray[np.int64],
    terms: NDArray[np.int32],
    counts: NDArray[np.int32],
    places: NDArray[np.int64],
    signs: NDArray[np.int8],
    out: NDArray[Any],
) -> None:
    n_columns, n_documents = out.shape
    for block in numba.prange((n_documents + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        last = min(first + BLOCK, n_documents)
        for column in range(n_columns):
            for document in range(first, last):
                out[column, document] = 0
        for document in range(first, last):
            for i in range(starts[document], starts[document + 1]):
                term = terms[i]
                if 0 <= places[term] < n_columns:
                    out[places[term], document] += signs[term] * counts[i]
