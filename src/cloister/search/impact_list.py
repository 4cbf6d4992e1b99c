"""For each term of a server the few documents in which it weighs most, for one user.

A list is made with BM25's default parameters and with the mean length of what this user may read on
that server, so that it can be kept until that changes. Whoever gets a list with its server's
summary can say how much a document weighs at most that is not in it: `cloister.search.best_impact`.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import DocId
from cloister.index.entity_weights import ModelSettings, bm25_length
from cloister.index.reader_view import ReaderView
from cloister.search.node import Impact

__all__ = ["ImpactLists", "document_number", "list_length"]

MANY_EQUAL: Final = 200  # documents of a term; for more it pays to sort all ids once
_LIST_SETTINGS: Final = ModelSettings()
_NUMBER_BYTES: Final = 6  # fits into the numbers of JSON


class ImpactLists:
    """Makes the lists of one view. One object serves one thread at a time."""

    def __init__(self, view: ReaderView) -> None:
        self.view = view

    def best(self, term: str, n_best: int) -> tuple[Impact, ...]:
        """Return the readable documents in which a term has the largest BM25 weight, best first.

        Of equal ones the document's id decides.
        """
        documents, counts = self.view.postings(term)
        if n_best < 1 or not len(documents):
            return ()
        at_zero, by_length = list_length(self.view.level("document").mean_length)
        lengths = self.view.lengths[documents]
        weights = counts / (counts + at_zero + by_length * lengths)
        kept = np.arange(len(documents))
        if len(documents) > n_best:
            kept = np.flatnonzero(weights >= np.partition(weights, -n_best)[-n_best])
        if len(kept) > MANY_EQUAL:
            places = self._all_places[np.searchsorted(self.view.documents, documents[kept])]
            kept = np.sort(kept[np.lexsort((places, -weights[kept]))[:n_best]])
        names = self.view.doc_ids(documents[kept])
        rows = zip(
            (-weights[kept]).tolist(),
            names,
            counts[kept].tolist(),
            lengths[kept].tolist(),
            strict=True,
        )
        return tuple(
            Impact(document_number(name), count, int(length))
            for _, name, count, length in sorted(rows)[:n_best]
        )

    @cached_property
    def _all_places(self) -> NDArray[np.int64]:
        """Where each readable document stands in the order of ids."""
        names = self.view.doc_ids(self.view.documents)
        places = np.empty(len(names), np.int64)
        places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return places


def list_length(mean_length: float) -> tuple[float, float]:
    """Return what lists put below beside the count: a constant, and a factor of the length.

    Examples
    --------
    >>> [round(value, 3) for value in list_length(9.0)]
    [0.3, 0.1]
    """
    return bm25_length(mean_length, _LIST_SETTINGS)


def document_number(doc_id: DocId) -> int:
    """Return the number by which lists name a document; it depends on nothing but its id.

    Two documents get the same one with a chance of 1 in 2^48; an estimate is wrong then.

    Examples
    --------
    >>> document_number(DocId("a")) == document_number(DocId("a")) < 2**48
    True
    """
    return int.from_bytes(blake2b(doc_id.encode(), digest_size=_NUMBER_BYTES).digest(), "little")
