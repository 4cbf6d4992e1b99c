"""The closed soft match map: soft kernel values of (term, document), stored closure by closure.

A query needs the soft kernel vector of each of its terms with each candidate. To store those of all
terms and all documents (the full map) is too much; to store those of terms that occur (the open
map) tells which occur. The closed map holds a document for all terms of a closure if one of them
occurs in it, and else for none.

**What it claims, no more.** Values are bucketed deterministically
(:mod:`cloister.cloud.kernel_obfuscation`). A pair (closure, document) among the keys says that at
least one term of the closure occurs in the document: of p terms, 2^p - 1 choices have the same key.
With n pairs that makes (2^p - 1)^n data sets with the same keys, the *deniability count*. n counts
pairs of a closure and a document, not stored vectors.

**What it does not.** The count treats all choices alike; an adversary who knows how often words
occur, or some of the documents, does not. It counts data sets with the same keys: their levels may
differ, and then tell them apart. Which documents share closures is in the open, and so is the
number of closures of each document. Labels of terms, closures and documents are numbers here;
whoever stores the map elsewhere must replace them by keyed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.closure_pairs import ClosurePairs, closure_pairs, log2_deniability
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.rank.kernel_pooling import N_SOFT, GramCounts, GramTable
from cloister.rank.key_pooling import key_table, key_values

__all__ = [
    "ClosureKernels",
    "SoftMatchMap",
    "build_soft_match_map",
    "gram_kernels",
]

Integers = NDArray[np.int64]

ClosureKernels = Callable[[Integers, Integers], NDArray[Any]]
"""(terms, documents) to soft kernel values [term, document, kernel], exact matches masked."""


@dataclass(frozen=True, eq=False)
class SoftMatchMap:
    """Stored soft kernel vectors of all terms of a closure with each of its documents.

    Parameters
    ----------
    closures
        The terms' closures.
    pairs
        The keys.
    values
        Vectors (rows): closure after closure; in a closure term after term; of a term, in the order
        of the closure's documents.
    n_documents
        Of the collection.
    obfuscation
        How the values were stored.
    """

    closures: TermClosures
    pairs: ClosurePairs = field(repr=False)
    values: NDArray[Any] = field(repr=False)
    n_documents: int
    obfuscation: KernelObfuscation

    def __post_init__(self) -> None:
        n_of_closure = np.diff(self.pairs.starts)
        sound = (
            len(n_of_closure) == self.closures.n_closures
            and self.values.ndim == 2
            and len(self.values) == int(n_of_closure @ self.closures.sizes)
            and self.values.dtype == self.obfuscation.dtype
        )
        if not sound:
            raise DataError("closures, keys and values do not fit together", where="SoftMatchMap")

    @property
    def n_kernels(self) -> int:
        """Soft kernels of a vector."""
        return int(self.values.shape[1])

    @cached_property
    def _first_vectors(self) -> Integers:
        """Where the vectors of each term begin, terms taken closure after closure."""
        sizes = np.repeat(np.diff(self.pairs.starts), self.closures.sizes)
        firsts = np.empty(self.closures.n_terms, np.int64)
        firsts[self.closures.terms] = np.cumsum(sizes) - sizes
        return firsts

    def holds(self, term: int, documents: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which documents the map holds for a term, hence for all terms of its closure."""
        return self._found(term, np.asarray(documents))[1]

    def vectors(self, term: int, documents: NDArray[Any]) -> NDArray[Any]:
        """Return the stored vector of a term with each document; no soft match where none is."""
        places, found = self._found(term, np.asarray(documents))
        absent = self.obfuscation.absent
        vectors = np.full((len(places), self.n_kernels), absent, self.obfuscation.dtype)
        vectors[found] = self.values[self._first_vectors[term] + places[found]]
        return vectors

    def log2_deniability(self) -> float:
        """Return log2 of the number of data sets with the same keys, see `log2_deniability`."""
        return log2_deniability(self.closures.sizes, np.diff(self.pairs.starts))

    def _found(self, term: int, documents: NDArray[Any]) -> tuple[Integers, NDArray[np.bool_]]:
        if not 0 <= term < self.closures.n_terms:
            raise DataError(f"there are {self.closures.n_terms} terms", where=f"term {term}")
        held = self.pairs.of(int(self.closures.labels[term]))
        places = np.searchsorted(held, documents)
        found = places < len(held)
        found[found] = held[places[found]] == documents[found]
        return places, found


def build_soft_match_map(
    closures: TermClosures,
    occurrences: GramCounts,
    kernels: ClosureKernels,
    obfuscation: KernelObfuscation | None = None,
    *,
    n_kernels: int = N_SOFT,
    progress: Callable[[int, int], None] | None = None,
) -> SoftMatchMap:
    """Build the closed map of some documents, one closure at a time.

    Parameters
    ----------
    closures
        Of the terms that are rows of ``occurrences``.
    occurrences
        Which terms occur in which documents.
    kernels
        Gives the soft kernel values, such as `gram_kernels`.
    obfuscation
        How values are stored.
    n_kernels
        How many there are.
    progress
        Told how many closures are done, of how many.

    Raises
    ------
    DataError
        If closures and occurrences are of other terms, or the kernels of another shape.
    """
    obfuscation = obfuscation or KernelObfuscation()
    pairs = closure_pairs(closures, occurrences)
    sizes = np.diff(pairs.starts) * closures.sizes
    values = np.empty((int(sizes.sum()), n_kernels), obfuscation.dtype)
    begin = 0
    for closure, n_vectors in enumerate(sizes.tolist()):
        if n_vectors:
            members, documents = closures.members(closure), pairs.of(closure).astype(np.int64)
            found = np.asarray(kernels(members, documents))
            if found.shape != (len(members), len(documents), n_kernels):
                raise DataError(f"kernel values of the shape {found.shape}", where="kernels")
            stored = obfuscation.stored(found)
            values[begin : begin + n_vectors] = stored.reshape(n_vectors, n_kernels)
            begin += n_vectors
        if progress is not None:
            progress(closure + 1, closures.n_closures)
    return SoftMatchMap(closures, pairs, values, occurrences.n_documents, obfuscation)


def gram_kernels(
    keys: GramTable, documents: GramTable, *, mask_exact: bool = True
) -> ClosureKernels:
    """Return the soft kernels of keys, words or n-grams, with the n-grams of documents.

    Parameters
    ----------
    keys
        Its rows are the terms of the closures.
    documents
        The n-grams that keys are compared with.
    mask_exact
        See `cloister.rank.kernel_pooling.kernel_values`. Off is the slides' design, which gives the
        term frequency away.

    Examples
    --------
    >>> from cloister.rank.embedding import Embedding
    >>> from cloister.rank.kernel_pooling import count_grams, word_table
    >>> embedding = Embedding(("flu", "virus"), np.array([[1, 0], [0.6, 0.8]], np.float32))
    >>> table = word_table(count_grams([["flu", "virus"], ["virus"]], 1), embedding)
    >>> closures = TermClosures(np.array([0, 0]))
    >>> built = build_soft_match_map(closures, table.counts, gram_kernels(table, table))
    >>> built.vectors(0, np.array([1])).tolist()  # "flu" does not occur there, but its closure does
    [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]
    """
    vocabulary = keys.counts.vocabulary
    names = [tuple(vocabulary[word] for word in words) for words in keys.counts.words.tolist()]
    table = key_table(names, keys.vectors, keys.known, documents.counts)

    def values(terms: Integers, numbers: Integers) -> NDArray[Any]:
        found = key_values(table.select(terms), documents, numbers, mask_exact=mask_exact)
        return found[..., :N_SOFT]

    return values
