"""How often each term occurs in each document, exactly.

Flat arrays: document ``d`` owns the entries ``starts[d]`` to ``starts[d + 1]`` of ``terms`` and
``counts``, in rising order of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.index.analysis import TextAnalysis
from cloister.index.tokenising import TermCounter, text_batches

__all__ = ["TermCounts", "count_terms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Exact term counts of a field (body, title) of some documents; a `TermSource`.

    Parameters
    ----------
    starts
        Where each document's entries begin, and the number of entries at the end.
    terms
        Position of each entry's term in the vocabulary.
    counts
        How often it occurs, at least once.
    vocabulary
        The terms by position.

    Examples
    --------
    >>> exact = count_terms(["cough cough fever", "fever"])
    >>> exact.term_counts(["cough", "unknown"], np.array([0, 1]))
    array([[2., 0.],
           [0., 0.]])
    >>> exact.lengths.tolist(), exact.document_frequencies(["fever"]).tolist()
    ([3.0, 1.0], [2.0])
    """

    starts: NDArray[np.int64]
    terms: NDArray[np.int32]
    counts: NDArray[np.int32]
    vocabulary: Sequence[str] = field(repr=False)

    def __post_init__(self) -> None:
        n_entries = len(self.terms)
        sound = (
            len(self.starts) >= 1
            and self.starts[0] == 0
            and self.starts[-1] == n_entries == len(self.counts)
            and bool((np.diff(self.starts) >= 0).all())
            and (n_entries == 0 or int(self.counts.min()) >= 1)
            and (n_entries == 0 or int(self.terms.min()) >= 0)
            and (n_entries == 0 or int(self.terms.max()) < len(self.vocabulary))
            and _terms_rise(self.starts, self.terms)
        )
        if not sound:
            raise DataError("starts, terms and counts do not fit together", where="TermCounts")

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    @property
    def n_terms(self) -> int:
        """Number of terms in the vocabulary."""
        return len(self.vocabulary)

    @cached_property
    def lengths(self) -> Floats:
        """Number of tokens of each document."""
        total = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return np.asarray(total[self.starts[1:]] - total[self.starts[:-1]], np.float64)

    @cached_property
    def n_tokens(self) -> float:
        """Number of tokens of all documents together."""
        return float(self.counts.sum(dtype=np.int64))

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each term in the vocabulary."""
        return {term: position for position, term in enumerate(self.vocabulary)}

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many documents each term occurs."""
        return self._looked_up(self._n_documents_with, terms)

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return how often each term occurs in all documents together."""
        return self._looked_up(self._n_occurrences, terms)

    def term_counts(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> Floats:
        """Return how often each term (row) occurs in each document (column)."""
        positions = np.array([self.positions.get(term, -1) for term in terms], np.int64)
        return _gather(self.starts, self.terms, self.counts, positions, self._numbers(documents))

    def select(self, documents: NDArray[np.integer[Any]]) -> TermCounts:
        """Return the counts of some documents, in the order given, over the same vocabulary."""
        documents = self._numbers(documents)
        sizes = self.starts[documents + 1] - self.starts[documents]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.starts[documents] - starts[:-1], sizes) + np.arange(starts[-1])
        return TermCounts(starts, self.terms[entries], self.counts[entries], self.vocabulary)

    def _numbers(self, documents: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        numbers = np.asarray(documents, np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.n_documents:
            raise DataError(f"there are {self.n_documents} documents", where="documents")
        return numbers

    def _looked_up(self, table: Floats, terms: Sequence[str]) -> Floats:
        positions = [self.positions.get(term, -1) for term in terms]
        return np.array([table[p] if p >= 0 else 0.0 for p in positions], np.float64)

    @cached_property
    def _n_documents_with(self) -> Floats:
        return np.bincount(self.terms, minlength=self.n_terms).astype(np.float64)

    @cached_property
    def _n_occurrences(self) -> Floats:
        n = np.bincount(self.terms, weights=self.counts, minlength=self.n_terms)
        return n.astype(np.float64)


def count_terms(texts: Iterable[str], analysis: TextAnalysis | None = None) -> TermCounts:
    """Count the terms of texts. The vocabulary is what occurs in them, in order of appearance.

    Texts are read a batch at a time: at most some 4 MB of them, or one longer text, lie in memory.

    Examples
    --------
    >>> counts = count_terms(["cough, cough and fever"])
    >>> dict(zip(counts.vocabulary, counts.counts.tolist()))
    {'cough': 2, 'fever': 1}
    """
    counter = TermCounter(analysis or TextAnalysis())
    parts = [counter.count(batch) for batch in text_batches(texts)] or [counter.count([])]
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    return TermCounts(
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([part.terms for part in parts]),
        np.concatenate([part.counts for part in parts]),
        counter.vocabulary,
    )


@kernel
def _terms_rise(starts: NDArray[np.int64], terms: NDArray[np.int32]) -> bool:
    for document in range(len(starts) - 1):
        for i in range(starts[document] + 1, starts[document + 1]):
            if terms[i] <= terms[i - 1]:
                return False
    return True


@kernel
def _gather(
    starts: NDArray[np.int64],
    terms: NDArray[np.int32],
    counts: NDArray[np.int32],
    wanted: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> Floats:
    """Find each wanted term in each document by halving."""
    found = np.zeros((len(wanted), len(documents)))
    for column in range(len(documents)):
        begin, end = starts[documents[column]], starts[documents[column] + 1]
        for row in range(len(wanted)):
            low, high = begin, end
            while low < high:
                middle = (low + high) // 2
                if terms[middle] < wanted[row]:
                    low = middle + 1
                else:
                    high = middle
            if low < end and terms[low] == wanted[row]:
                found[row, column] = counts[low]
    return found
