"""RTK-Sketch (CS-F-LTR, section V): the documents in which a term is most frequent, in one lookup.

Ours has two lists in each cell (see `cloister.sketch.rtk_lists`) and reads them as
`cloister.sketch.rtk_query` says. Documents can be added and deleted one by one or in batches.

Every list stays a prefix of the true order of all documents, and its floor stays an upper bound of
what it leaves out. A full list forgets whom it pushed out. When a document that it shows is deleted
later, nobody can say who should move up: the list has a hole. Lists are therefore longer by some
``slack`` that queries never see, and so many holes stay without effect. After that answers may
differ from those of a sketch built afresh; `RtkSketch.needs_rebuild` says so.

This sketch is of exact counts and hides nothing from who has the key. What leaves a party is a
noisy release, made afresh when the corpus has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.index.term_counts import TermCounts
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.keyed_hash import HashedTerms, SketchShape
from cloister.sketch.list_check import require_array, require_sound_lists
from cloister.sketch.rtk_lists import RtkLists, select_row
from cloister.sketch.rtk_query import Estimator, ReverseTop, RtkQuery
from cloister.sketch.rtk_update import insert_documents, remove_document
from cloister.store.array_file import open_arrays, write_arrays

__all__ = ["RtkSketch"]

KIND: Final = "rtk-sketch"
CELL_SIZE: Final = 750  # alpha 5 times K 150, the defaults of CS-F-LTR
SLACK: Final = 5  # lists stay below an eighth of dense sketches at the size of CS-F-LTR


class RtkSketch:
    """The RTK-Sketch of some documents' exact counts.

    Documents go by number, in the order in which they came. A number is never used again.

    Parameters
    ----------
    lists
        The lists, with room for ``cell_size`` and the slack.
    shape
        Rows and columns.
    cell_size
        How many entries of a list a query sees.
    doc_ids
        The name of each number's document; None where it was deleted.
    key_fingerprint
        Names the key that hashed the terms.
    loose
        Whether each list's floor may be more than the largest value left out.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.sketch.keyed_hash import HashKey
    >>> counts = count_terms(["fever", "cough cough fever", "cough"])
    >>> key, shape = HashKey(bytes(32)), SketchShape(n_rows=3, n_columns=50)
    >>> hashed = key.hash_terms(counts.vocabulary, shape)
    >>> sketch = RtkSketch.build(counts, hashed, cell_size=2)
    >>> cough = key.hash_terms(["cough"], shape)
    >>> sketch.top(cough, k=2).documents
    array([[1, 2]], dtype=int32)
    >>> sketch.delete("1")
    >>> sketch.top(cough, k=2).documents
    array([[2, 0]], dtype=int32)
    """

    def __init__(
        self,
        lists: RtkLists,
        shape: SketchShape,
        cell_size: int,
        doc_ids: Sequence[str | None],
        key_fingerprint: str,
        loose: NDArray[np.bool_] | None = None,
    ) -> None:
        self.lists = lists
        self.shape = shape
        self.cell_size = cell_size
        self.doc_ids = list(doc_ids)
        self.key_fingerprint = key_fingerprint
        self._loose = np.zeros(lists.sizes.shape, np.bool_) if loose is None else loose
        self._numbers = {name: i for i, name in enumerate(doc_ids) if name is not None}
        self._query: RtkQuery | None = None

    @classmethod
    def build(
        cls,
        counts: TermCounts,
        hashed: HashedTerms,
        *,
        cell_size: int = CELL_SIZE,
        slack: int = SLACK,
        doc_ids: Sequence[str] | None = None,
    ) -> RtkSketch:
        """Sketch documents, a row at a time: memory for one row of all sketches is needed.

        Parameters
        ----------
        counts
            The documents.
        hashed
            Where the terms of their vocabulary fall.
        cell_size
            How many entries of a list a query sees.
        slack
            How many more are kept, for deletions.
        doc_ids
            Names of the documents, by default their numbers.
        """
        if cell_size < 1 or slack < 0:
            raise SettingsError(f"cell_size {cell_size}, slack {slack}", where="build")
        names = _names(doc_ids, 0, counts.n_documents)
        lists = RtkLists.empty(hashed.shape.n_cells, cell_size + slack)
        cells = None
        for row in range(hashed.shape.n_rows):
            cells = row_cells(counts, hashed, row, out=cells)
            select_row(cells, lists.capacity, lists, row)
        return cls(lists, hashed.shape, cell_size, names, hashed.key_fingerprint)

    @property
    def n_documents(self) -> int:
        """How many documents there are, without the deleted ones."""
        return len(self._numbers)

    @property
    def size_bytes(self) -> int:
        """Memory of the lists."""
        return self.lists.size_bytes

    @property
    def n_holes(self) -> int:
        """How many entries that a sketch built afresh would show are not known here."""
        wanted = min(self.cell_size, self.n_documents)
        return int(np.maximum(wanted - self.lists.sizes, 0).sum(dtype=np.int64))

    @property
    def needs_rebuild(self) -> bool:
        """Whether answers may differ from those of a sketch built afresh."""
        sizes = self.lists.sizes
        same = (sizes > self.cell_size) | (sizes == self.n_documents)
        same |= (sizes == self.cell_size) & ~self._loose
        return not bool(same.all())

    def add(
        self, counts: TermCounts, hashed: HashedTerms, doc_ids: Sequence[str] | None = None
    ) -> None:
        """Add documents, which get the next numbers."""
        self._require_fitting(hashed)
        names = _names(doc_ids, len(self.doc_ids), counts.n_documents)
        known = [name for name in names if name in self._numbers]
        if known:
            raise DataError(
                f"document {known[0]} is there already",
                where="doc_ids",
                remedy="delete it first, then add what it has become",
            )
        self._make_writable()
        n_columns, cells = self.shape.n_columns, None
        for row in range(self.shape.n_rows):
            cells = row_cells(counts, hashed, row, out=cells)
            first = row * n_columns
            insert_documents(
                self.lists.part(first, n_columns),
                self._loose[first : first + n_columns],
                cells,
                len(self.doc_ids),
                self.n_documents,
            )
        self._numbers.update((name, len(self.doc_ids) + i) for i, name in enumerate(names))
        self.doc_ids += names
        self._query = None

    def delete(self, doc_id: str) -> None:
        """Take a document out of all lists; its counts are not needed."""
        if doc_id not in self._numbers:
            raise NotFound(f"there is no document {doc_id}", where="doc_id")
        self._make_writable()
        number = self._numbers.pop(doc_id)
        self.doc_ids[number] = None
        remove_document(self.lists, self._loose, number, self.n_documents)
        self._query = None

    def rebuild(
        self, counts: TermCounts, hashed: HashedTerms, doc_ids: Sequence[str] | None = None
    ) -> RtkSketch:
        """Return a sketch built afresh from what the documents are now, of the same sizes."""
        self._require_fitting(hashed)
        slack = self.lists.capacity - self.cell_size
        return RtkSketch.build(
            counts, hashed, cell_size=self.cell_size, slack=slack, doc_ids=doc_ids
        )

    def query(self) -> RtkQuery:
        """Return what answers queries; not to be used after the next change."""
        return RtkQuery(
            self.lists,
            self.shape,
            self.n_documents,
            cell_size=self.cell_size,
            n_numbers=len(self.doc_ids),
        )

    def top(
        self,
        hashed: HashedTerms,
        k: int = 150,
        *,
        n_true_rows: int | None = None,
        beta: float = 0.1,
        estimator: Estimator = "auto",
    ) -> ReverseTop:
        """Return the k documents in which each term is most frequent; see `RtkQuery.top`."""
        self._require_fitting(hashed)
        return self._current_query().top(
            hashed, k, n_true_rows=n_true_rows, beta=beta, estimator=estimator
        )

    def term_counts(
        self, hashed: HashedTerms, documents: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """Return estimated counts of terms in given documents; see `RtkQuery.term_counts`."""
        self._require_fitting(hashed)
        return self._current_query().term_counts(hashed, documents)

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file, which does not hold the key."""
        header = {
            "n_rows": self.shape.n_rows,
            "n_columns": self.shape.n_columns,
            "cell_size": self.cell_size,
            "key_fingerprint": self.key_fingerprint,
            "doc_ids": self.doc_ids,
        }
        arrays = {**self.lists._asdict(), "loose": self._loose.view(np.uint8)}
        write_arrays(path, KIND, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> RtkSketch:
        """Read what `save` wrote; the lists are mapped from the file until the first change."""
        header, arrays = open_arrays(path, KIND, what="a sketch file")
        where = str(path)
        try:
            shape = SketchShape(n_rows=header["n_rows"], n_columns=header["n_columns"])
            lists = RtkLists._make(arrays[name] for name in RtkLists._fields)
            loose = arrays["loose"]
            cell_size, doc_ids = header["cell_size"], header["doc_ids"]
            fingerprint = header["key_fingerprint"]
        except KeyError as error:
            raise DataError(f"{error} is missing from the sketch", where=where) from None
        except SettingsError as error:
            raise DataError(f"its shape cannot be read ({error.what})", where=where) from None
        present = _present(doc_ids, where)
        capacity = lists.ids.shape[-1] if lists.ids.ndim == 3 else 0
        if type(cell_size) is not int or not 1 <= cell_size <= capacity:
            raise DataError(f"lists cannot show {cell_size!r} of {capacity} entries", where=where)
        if type(fingerprint) is not str:
            raise DataError("the key has no fingerprint", where=where)
        require_sound_lists(lists, shape.n_cells, capacity, present, where)
        require_array("loose", loose, np.uint8, (shape.n_cells, 2), where)
        return cls(lists, shape, cell_size, doc_ids, fingerprint, loose.astype(np.bool_))

    def _current_query(self) -> RtkQuery:
        if self._query is None:
            self._query = self.query()
        return self._query

    def _require_fitting(self, hashed: HashedTerms) -> None:
        if hashed.shape != self.shape:
            raise DataError("the terms are hashed for another shape", where="hashed")
        if hashed.key_fingerprint != self.key_fingerprint:
            raise DataError("the terms are hashed with another key", where="hashed")

    def _make_writable(self) -> None:
        if not self.lists.ids.flags.writeable:
            self.lists = RtkLists._make(np.array(array) for array in self.lists)


def _present(doc_ids: Any, where: str) -> NDArray[np.bool_]:
    """Return which numbers have a document, by the names in a file."""
    names = [name for name in doc_ids if name is not None] if type(doc_ids) is list else [None]
    if not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise DataError("the documents' names are not all different texts", where=where)
    return np.array([name is not None for name in doc_ids], np.bool_)


def _names(doc_ids: Sequence[str] | None, first: int, n: int) -> list[str]:
    names = [str(first + i) for i in range(n)] if doc_ids is None else list(doc_ids)
    if len(names) != n or len(set(names)) != n:
        raise DataError(f"{len(set(names))} different names for {n} documents", where="doc_ids")
    return names
