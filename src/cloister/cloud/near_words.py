"""Which words stand near each other in texts, and in which documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.rank.kernel_pooling import GramCounts
from cloister.rank.proximity_features import TermSequences

__all__ = ["NearPairs", "NearWords"]


class NearPairs(NamedTuple):
    """Two words each, sorted by name, and the documents in which they stand near each other.

    Parameters
    ----------
    words
        [pair, 2]: positions in the vocabulary.
    starts
        Where the documents of each pair begin, and the number of all at the end.
    documents
        Of one pair after another, rising within each.
    """

    words: NDArray[np.int64]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]

    def counts(self, texts: TermSequences) -> GramCounts:
        """Return in which documents the pairs occur, document by document; each counts once."""
        pairs = np.repeat(np.arange(len(self.words)), np.diff(self.starts))
        order = np.argsort(self.documents, kind="stable")
        starts = np.searchsorted(self.documents[order], np.arange(texts.n_documents + 1))
        return GramCounts(
            self.words.astype(np.int32),
            starts.astype(np.int64),
            pairs[order].astype(np.int32),
            np.ones(len(pairs), np.int32),
            texts.vocabulary,
        )


class NearWords:
    """Finds which words stand near each other, and where.

    A word is its rank by name; two words and a document are one number, so that a sort of numbers
    is all that it takes.

    Examples
    --------
    >>> texts = TermSequences.of([["dry", "cough"], ["cough", "dry"]])
    >>> found = NearWords(texts).found(1, 2, ordered=False)
    >>> [texts.vocabulary[word] for word in found.words[0]], found.documents.tolist()
    (['cough', 'dry'], [0, 1])
    """

    def __init__(self, texts: TermSequences) -> None:
        n_words = len(texts.vocabulary)
        if n_words**2 * texts.n_documents > np.iinfo(np.int64).max:
            raise DataError(
                "too many words and documents to number their pairs",
                where="texts",
                remedy="cut the collection into several",
            )
        by_name = sorted(range(n_words), key=texts.vocabulary.__getitem__)
        self._by_name = np.array(by_name, np.int64)
        rank = np.empty(n_words, np.int64)
        rank[self._by_name] = np.arange(n_words)
        self._tokens = rank[texts.terms]
        self._n_documents = max(1, texts.n_documents)
        self._owners = np.repeat(np.arange(texts.n_documents), np.diff(texts.starts))

    def found(self, reach: int, min_documents: int, *, ordered: bool) -> NearPairs:
        """Return different words at most ``reach`` places apart in so many documents."""
        n_words = max(1, len(self._by_name))
        apart = [self._apart(distance, n_words, ordered) for distance in range(1, reach + 1)]
        places = _different(np.concatenate(apart))
        codes, documents = places // self._n_documents, places % self._n_documents
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        n_each = np.diff(firsts, append=len(codes))
        kept = n_each >= min_documents
        names = codes[firsts[kept]]
        pairs = np.stack([names // n_words, names % n_words], axis=1)
        starts = np.concatenate([[0], np.cumsum(n_each[kept])]).astype(np.int64)
        chosen = documents[np.repeat(kept, n_each)]
        return NearPairs(self._by_name[pairs], starts, chosen.astype(np.int32))

    def _apart(self, distance: int, n_words: int, ordered: bool) -> NDArray[np.int64]:
        """Return two words that stand exactly so far apart, with their document, as numbers."""
        first, second = self._tokens[:-distance], self._tokens[distance:]
        owners = self._owners[:-distance]
        kept = (owners == self._owners[distance:]) & (first != second)
        first, second = first[kept], second[kept]
        if not ordered:
            first, second = np.minimum(first, second), np.maximum(first, second)
        return _different((first * n_words + second) * self._n_documents + owners[kept])


def _different(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return different numbers, rising; a plain sort is several times as fast as np.unique."""
    rising = np.sort(numbers)
    return rising[np.flatnonzero(np.diff(rising, prepend=-1))]
