"""Term statistics and counts read from a noisy release, in the place of exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.sketch.count_posterior import CountPosterior
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashedTerms, HashKey
from cloister.sketch.noisy_release import NoisyRelease
from cloister.sketch.rtk_query import ReverseTop, RtkQuery

__all__ = ["SketchedCounts"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_SHARE: Final = 0.98  # of the documents that a term is taken to occur in


class SketchedCounts:
    """A `TermSource` of what another party has released; whoever reads it tells nobody anything.

    All numbers are estimates: noise and collisions are in them. They are cut to what is possible:
    lengths to at least 1, document frequencies to 0 to the number of documents, counts and
    collection frequencies to at least 0. From a sketch of one row, `top` ranks by posterior means
    under the law of its noise (:mod:`cloister.sketch.count_posterior`). `term_counts` takes the
    noisy cells as they are: features by posterior means made rankers worse. Reading is
    post-processing: it costs nothing, however often. One object serves one thread.

    Parameters
    ----------
    release
        What the other party released.
    key
        The key with which it was hashed.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.privacy.mechanisms.aes_noise import SeededWords
    >>> from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
    >>> counts = count_terms(["cough " * 80, "fever " * 60, "rash cough " * 5])
    >>> settings = NoisyReleaseSettings(n_rows=3, n_columns=50, cell_size=3, epsilon=8.0,
    ...                                 statistics_columns=64)
    >>> key = HashKey(bytes(32))
    >>> source = SketchedCounts(make_release(counts, key, settings, words=SeededWords(1)), key)
    >>> source.top("cough", k=1).documents
    array([[0]], dtype=int32)
    >>> bool(abs(source.term_counts(["cough"], np.array([0]))[0, 0] - 80) < 10)
    True
    """

    def __init__(self, release: NoisyRelease, key: HashKey) -> None:
        if key.fingerprint != release.key_fingerprint:
            raise DataError(
                f"hashed with key {release.key_fingerprint}, not with {key.fingerprint}",
                where="key",
                remedy="read it with the key that the parties agreed on",
            )
        self.release = release
        self.key = key
        self._query = RtkQuery(
            release.lists,
            release.settings.shape,
            release.n_documents,
            sigma=release.cells.sigma,
        )
        one_row = release.settings.n_rows == 1
        self._posterior = CountPosterior.of(release.cells) if one_row else None

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.release.n_documents

    @cached_property
    def lengths(self) -> Floats:
        """Estimated number of tokens of each document, at least 1."""
        return np.maximum(self.release.lengths, 1).astype(np.float64)

    @cached_property
    def n_tokens(self) -> float:
        """Estimated number of tokens of all documents together, at least 1.

        The sum of the noisy lengths as they are: noise that would be cut does not add up to a bias.
        """
        return max(1.0, float(self.release.lengths.sum(dtype=np.int64)))

    def document_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in about how many documents each term occurs."""
        found = self._estimates(self.release.document_frequencies, terms)
        return np.minimum(found, float(self.n_documents))

    def collection_frequencies(self, terms: Sequence[str]) -> Floats:
        """Return about how often each term occurs in all documents together."""
        return self._estimates(self.release.collection_frequencies, terms)

    def term_counts(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> Floats:
        """Return about how often each term (row) occurs in each document (column)."""
        hashed = self.key.hash_terms(terms, self.release.settings.shape)
        return self._query.term_counts(hashed, documents)

    def top(self, term: str, k: int = 150) -> ReverseTop:
        """Return the k documents in which a term seems most frequent, best first."""
        return self.tops([term], k)

    def tops(self, terms: Sequence[str], k: int = 150) -> ReverseTop:
        """Return the k documents in which each term seems most frequent, a line each."""
        hashed = self.key.hash_terms(terms, self.release.settings.shape)
        if self._posterior is None:
            return self._query.top(hashed, k)
        found = np.full((len(terms), k), -1, np.int32)
        counts = np.zeros((len(terms), k))
        for i, share in enumerate(self._shares(terms)):
            listed, values = self._list(hashed, i)
            means = self._posterior.means(values, self._likely(share, listed))
            best = np.lexsort((listed, -means))[:k]
            found[i, : len(best)], counts[i, : len(best)] = listed[best], means[best]
        return ReverseTop(found, counts)

    def _list(self, hashed: HashedTerms, term: int) -> tuple[Integers, Integers]:
        """Return the documents of the list that a term falls into, and their noisy values."""
        cell, side = int(hashed.columns[term, 0]), int(hashed.signs[term, 0] < 0)
        lists = self.release.lists
        own = (cell, side, slice(lists.sizes[cell, side]))
        return lists.ids[own].astype(np.int64), lists.values[own].astype(np.int64)

    def _shares(self, terms: Sequence[str]) -> Floats:
        """Return about which share of the documents each term occurs in, neither none nor all."""
        n = max(1, self.n_documents)
        return np.clip(self.document_frequencies(terms) / n, min(1 / n, MOST_SHARE), MOST_SHARE)

    def _likely(self, share: float, documents: Integers) -> Floats:
        """Return with what chance documents hold a term, by their lengths."""
        mean = self.n_tokens / max(1, self.n_documents)
        return np.asarray(-np.expm1(np.log1p(-share) * self.lengths[documents] / mean), np.float64)

    def _estimates(self, table: NDArray[np.int32], terms: Sequence[str]) -> Floats:
        shape = self.release.settings.statistics_shape
        sketch = CountSketch(shape, self.key.fingerprint, table.astype(np.int64))
        return np.maximum(sketch.estimate(self.key.hash_terms(terms, shape)), 0.0)
