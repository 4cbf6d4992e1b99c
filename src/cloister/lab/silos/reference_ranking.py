"""The reference ranking that labels are made from: judgements first, then BM25.

The paper takes a top 100 that comes with MS MARCO as the truth. Collections here have judgements of
some documents only, so a full-text ranking by exact statistics over all parties' documents fills
the places after those that people judged relevant. It is a stand-in for the truth, which no party
of a real federation could compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.index.term_counts import TermCounts

__all__ = ["FullTextRanking", "Reference"]

K1: Final = 1.2
B: Final = 0.75

Floats = NDArray[np.float64]


class Reference(NamedTuple):
    """Documents of a reference ranking, best first, with what people said (0 where nothing)."""

    documents: NDArray[np.int64]
    grades: NDArray[np.int8]


class FullTextRanking:
    """BM25 (Robertson's, k1 = 1.2, b = 0.75) over the whole text of all documents.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> ranking = FullTextRanking(count_terms(["cough", "cough cough fever", "fever"]))
    >>> ranking.reference(["cough"], {2: 1}, np.arange(3), depth=10)
    Reference(documents=array([2, 0, 1]), grades=array([1, 0, 0], dtype=int8))
    """

    def __init__(self, counts: TermCounts) -> None:
        self._counts = counts
        document = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
        order = np.argsort(counts.terms, kind="stable")
        self._documents = document[order]
        self._weights = self._bm25(document)[order]
        frequencies = np.bincount(counts.terms, minlength=counts.n_terms)
        self._starts = np.concatenate([[0], np.cumsum(frequencies)])

    def _bm25(self, document: NDArray[np.int64]) -> Floats:
        counts = self._counts
        n, frequency = counts.n_documents, np.bincount(counts.terms, minlength=counts.n_terms)
        idf = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
        relative = counts.lengths / max(counts.n_tokens / max(n, 1), 1.0)
        saturation = K1 * (1 - B + B * relative)[document]
        occurrences = counts.counts.astype(np.float64)
        weights = idf[counts.terms] * occurrences * (K1 + 1) / (occurrences + saturation)
        return np.asarray(weights, np.float64)

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return self._counts.positions

    def scores(self, terms: Sequence[str]) -> Floats:
        """Return the score of every document; 0 where no term occurs."""
        scores = np.zeros(self._counts.n_documents)
        for term in terms:
            position = self._positions.get(term)
            if position is not None:
                here = slice(self._starts[position], self._starts[position + 1])
                scores[self._documents[here]] += self._weights[here]
        return scores

    def reference(
        self,
        terms: Sequence[str],
        judged: Mapping[int, int],
        documents: NDArray[np.int64],
        *,
        depth: int,
        scores: Floats | None = None,
    ) -> Reference:
        """Rank some documents: by grade, then by score, then by number.

        Parameters
        ----------
        terms
            Of the query.
        judged
            Grades by document number, over all documents.
        documents
            Which documents to rank, by number in rising order.
        depth
            The longest ranking. A document that nobody judged relevant and that holds no term of
            the query is left out.
        scores
            What `scores` says of the query, where that is known.
        """
        scores = (self.scores(terms) if scores is None else scores)[documents]
        grades = np.zeros(len(documents), np.int8)
        for document, grade in judged.items():
            place = int(np.searchsorted(documents, document))
            if place < len(documents) and documents[place] == document:
                grades[place] = grade
        kept = np.flatnonzero((scores > 0) | (grades > 0))
        order = kept[np.lexsort((-scores[kept], -grades[kept]))][:depth]
        return Reference(documents[order], grades[order])
