"""Kernel values of all keys of one query with its candidates at once, without torch.

The values are those of `cloister.rank.c_knrm_star.DocumentKernels`, up to the rounding of single
precision: cosines come from one matrix product for each table of n-grams, taken over the n-grams
that the candidates hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.kernel_pooling import N_KERNELS, GramTable, kernel_features
from cloister.rank.key_pooling import key_table, key_values
from cloister.rank.tree_features import distinct_terms

__all__ = ["KeyValues", "QueryKernels"]

Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]


class KeyValues(NamedTuple):
    """Kernel values of a query's keys with some documents, the exact kernel last.

    Parameters
    ----------
    words
        [word, document, match, kernel]: matches with words, then with adjacent pairs.
    phrases
        [phrase, document, kernel]: matches with words.
    """

    words: Floats
    phrases: Floats

    def features(self, n_kernels: int = N_KERNELS) -> Floats64:
        """Return C-KNRM*'s features, a row a document; 10 kernels leave the exact one out."""
        n = self.words.shape[1]
        by_word = kernel_features(self.words[..., :n_kernels]).reshape(n, 2 * n_kernels)
        return np.hstack([by_word, kernel_features(self.phrases[..., :n_kernels])])


class QueryKernels:
    """Kernel values of queries with the documents of a collection.

    Parameters
    ----------
    kernels
        Has the vectors of the documents' words and pairs under a trained C-KNRM*.
    """

    def __init__(self, kernels: DocumentKernels) -> None:
        self._kernels = kernels
        self._words, self._pairs = (_by_first_document(kernels.table(n)) for n in (1, 2))

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self._kernels.n_documents

    def values(self, terms: Sequence[str], documents: NDArray[np.integer[Any]]) -> KeyValues:
        """Return the kernel values of a query's different words and of adjacent ones."""
        words = distinct_terms(terms)
        keys = [*((word,) for word in words), *pairwise(words)]
        numbers = np.ascontiguousarray(documents, np.int64)
        vectors, known = self._vectors(keys)
        n, mask = len(words), self._kernels.settings.mask_exact
        of_words = key_table(keys, vectors, known, self._words.counts)
        of_pairs = key_table(keys[:n], vectors[:n], known[:n], self._pairs.counts)
        with_words = key_values(of_words, self._words, numbers, mask_exact=mask)
        with_pairs = key_values(of_pairs, self._pairs, numbers, mask_exact=mask)
        return KeyValues(np.stack([with_words[:n], with_pairs], axis=2), with_words[n:])

    def _vectors(self, keys: Sequence[tuple[str, ...]]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return a row for each key, and which keys have one."""
        found = [self._kernels.vector(key) for key in keys]
        vectors = np.zeros((len(keys), self._words.vectors.shape[1]), np.float32)
        for row, vector in enumerate(found):
            if vector is not None:
                vectors[row] = vector
        return vectors, np.array([vector is not None for vector in found], np.bool_)


def _by_first_document(table: GramTable) -> GramTable:
    """Return the same table with its n-grams in the order in which documents have them.

    Most pairs of words stand in one document alone: what one document needs then lies together.
    """
    counts = table.counts
    kept, firsts = np.unique(counts.places, return_index=True)
    order = kept[np.argsort(firsts)]
    rank = np.zeros(len(counts.words), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    sorted_counts = replace(counts, words=counts.words[order], places=rank[counts.places])
    return GramTable(sorted_counts, table.vectors[order], table.known[order])
