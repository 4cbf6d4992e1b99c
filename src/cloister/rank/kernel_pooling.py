"""Kernel pooling (K-NRM, Xiong et al. 2017) without torch: kernel values of a key and documents.

A key is a word of a query, or two adjacent words. With s(t, w) the cosine of the vectors of a key t
and of an n-gram w of a document d, the value of kernel j is

    K_j(t, d) = sum over the n-grams w of d of exp(-(s(t, w) - mean_j)^2 / (2 width_j^2)).

Ten soft kernels have the means -0.9, -0.7 ... 0.9 and the width 0.1. The eleventh and last one, the
exact kernel, has the mean 1 and the width 0.001. An n-gram is like itself with s = 1. Where one of
two different n-grams has no vector, the pair counts nowhere.

**What the values tell.** The exact kernel is the term frequency. Without masking, so is the soft
kernel at 0.9 but for a factor: each occurrence of t adds exp(-0.5) to it. So exact matches are
masked out of every soft kernel (``mask_exact``, on by default; off is the design of the slides): an
n-gram that shares a word with the key counts in the exact kernel alone. No soft value then depends
on how often the key's words occur, once the document's other n-grams are given.

Masking is not hiding. The Gaussians are spaced so that the soft values of one n-gram add up to
1.253, give or take 1.5 %, if its cosine lies within -0.7 to 0.7. So the sum of a key's soft values,
divided by 1.253, is nearly the number of n-grams that were *not* masked. Whoever knows the length
of the document, or the same sum for a word that the document does not hold, subtracts, and has the
term frequency. Values that leave home must be made coarse as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.index.term_counts import TermCounts
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling_kernel import gaussian_kernels, pool_documents

__all__ = [
    "KERNEL_MEANS",
    "KERNEL_WIDTHS",
    "N_KERNELS",
    "N_SOFT",
    "GramCounts",
    "GramTable",
    "count_grams",
    "kernel_features",
    "kernel_values",
    "word_table",
]

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

KERNEL_MEANS: Final = np.array([-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
KERNEL_WIDTHS: Final = np.array([0.1] * 10 + [1e-3])
N_KERNELS: Final = 11
N_SOFT: Final = 10  # the first ten; the exact kernel is the last, as K_R in the slides
LOG_FLOOR: Final = 1e-10  # a smaller kernel value counts as this one: ln 0 has no value
LOG_SCALE: Final = 0.01  # of the logarithms, as in the authors' code


@dataclass(frozen=True, eq=False)
class GramCounts:
    """How often each n-gram occurs in each document.

    Parameters
    ----------
    words
        The words of each n-gram (row), as positions in the vocabulary.
    starts
        Where each document's entries begin, and the number of entries at the end.
    places, counts
        Of each entry: the row of the n-gram, and how often it occurs.
    vocabulary
        The words by position.
    """

    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    counts: NDArray[np.int32]
    vocabulary: Sequence[str] = field(repr=False)

    @property
    def n(self) -> int:
        """Words of an n-gram."""
        return int(self.words.shape[1])

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {word: position for position, word in enumerate(self.vocabulary)}

    def positions(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Return the position of each word in the vocabulary; -1 for one that no document holds."""
        return np.array([self._positions.get(word, -1) for word in words], np.int64)

    def select(self, documents: NDArray[np.integer[Any]]) -> GramCounts:
        """Return the counts of some documents, in the order given, over the same n-grams."""
        numbers = np.asarray(documents, np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.n_documents:
            raise DataError(f"there are {self.n_documents} documents", where="documents")
        sizes = self.starts[numbers + 1] - self.starts[numbers]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entries = np.repeat(self.starts[numbers] - starts[:-1], sizes) + np.arange(starts[-1])
        return GramCounts(
            self.words, starts, self.places[entries], self.counts[entries], self.vocabulary
        )

    @classmethod
    def of_terms(cls, terms: TermCounts) -> GramCounts:
        """Return exact term counts as counts of single words."""
        words = np.arange(terms.n_terms, dtype=np.int32)[:, None]
        return cls(words, terms.starts, terms.terms, terms.counts, terms.vocabulary)


def count_grams(documents: Sequence[Sequence[str]], n: int) -> GramCounts:
    """Count the n-grams of analysed documents: n adjacent words.

    A document of fewer words has none. The vocabulary has the words in order of appearance, so
    that counts of the same documents for different n have the same one.

    Examples
    --------
    >>> pairs = count_grams([["a", "b", "a", "b"], ["a"]], 2)
    >>> pairs.words.tolist(), pairs.counts.tolist(), pairs.starts.tolist()
    ([[0, 1], [1, 0]], [2, 1], [0, 2, 2])
    """
    if n < 1:
        raise DataError(f"an n-gram has at least one word (given: {n})", where="n")
    vocabulary: dict[str, int] = {}
    texts = [
        np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words], np.int32)
        for words in documents
    ]
    grams = [np.lib.stride_tricks.sliding_window_view(text, n) for text in texts if len(text) >= n]
    all_grams = np.concatenate(grams) if grams else np.empty((0, n), np.int32)
    sizes = [max(0, len(text) - n + 1) for text in texts]
    owners = np.repeat(np.arange(len(texts)), sizes)  # the document of each occurrence
    words, places = np.unique(all_grams, axis=0, return_inverse=True)
    entries, counts = np.unique(
        np.stack([owners, places.reshape(-1)], axis=1), axis=0, return_counts=True
    )
    starts = np.searchsorted(entries[:, 0], np.arange(len(texts) + 1)).astype(np.int64)
    return GramCounts(
        words.astype(np.int32),
        starts,
        entries[:, 1].astype(np.int32),
        counts.astype(np.int32),
        tuple(vocabulary),
    )


@dataclass(frozen=True, eq=False)
class GramTable:
    """The n-grams of some documents with their counts and vectors.

    Parameters
    ----------
    counts
        Which n-grams the documents hold.
    vectors
        A row of length 1 (or 0) for each n-gram.
    known
        Which n-grams have a vector.
    """

    counts: GramCounts
    vectors: Floats = field(repr=False)
    known: NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        n = len(self.counts.words)
        if self.vectors.ndim != 2 or len(self.vectors) != n or self.known.shape != (n,):
            raise DataError(f"{n} n-grams do not fit the vectors", where="GramTable")

    def select(self, documents: NDArray[np.integer[Any]]) -> GramTable:
        """Return the table of some documents, in the order given; it has no n-gram but theirs."""
        chosen = self.counts.select(documents)
        kept, places = np.unique(chosen.places, return_inverse=True)
        counts = replace(chosen, words=chosen.words[kept], places=places.astype(np.int32))
        return GramTable(counts, self.vectors[kept], self.known[kept])


def word_table(documents: TermCounts | GramCounts, embedding: Embedding) -> GramTable:
    """Return the table of single words with an embedding's vectors, as K-NRM has it."""
    counts = documents if isinstance(documents, GramCounts) else GramCounts.of_terms(documents)
    if counts.n != 1:
        raise DataError("an embedding has vectors of single words", where="documents")
    words = counts.words[:, 0]
    known = embedding.rows(counts.vocabulary) >= 0
    return GramTable(counts, embedding.matrix(counts.vocabulary)[words], known[words])


def kernel_values(
    key: Sequence[str], vector: Floats | None, table: GramTable, *, mask_exact: bool = True
) -> Floats:
    """Return all kernel values of one key with each document (row).

    Parameters
    ----------
    key
        The word, or the adjacent words, of a query.
    vector
        Its vector, of length 1; None where it has none.
    table
        The n-grams of the documents. They need not be as long as the key.
    mask_exact
        Whether n-grams that share a word with the key are left out of the soft kernels.

    Examples
    --------
    >>> embedding = Embedding(("cough", "fever"), np.array([[1.0, 0.0], [0.6, 0.8]], np.float32))
    >>> table = word_table(count_grams([["cough", "cough", "fever"], ["rash"]], 1), embedding)
    >>> values = kernel_values(["cough"], embedding.vectors[0], table)
    >>> values[:, [7, 8, 9, 10]].round(3).tolist()  # the last is the term frequency
    [[0.6069999933242798, 0.6069999933242798, 0.010999999940395355, 2.0], [0.0, 0.0, 0.0, 0.0]]
    """
    counts = table.counts
    own = counts.positions(key)
    columns = counts.words.T
    shares: Bools = np.logical_or.reduce([column == word for column in columns for word in own])
    same = np.zeros(len(shares), np.bool_)
    if len(key) == counts.n:
        same = np.logical_and.reduce([c == word for c, word in zip(columns, own, strict=True)])
    similarities = np.zeros(len(shares), np.float32)
    counted = same
    if vector is not None:
        similarities = _cosines(table, vector)
        counted = same | table.known
    similarities[same] = 1
    values = gaussian_kernels(
        similarities, counted, shares & mask_exact, KERNEL_MEANS, KERNEL_WIDTHS
    )
    pooled = np.empty((counts.n_documents, N_KERNELS), np.float32)
    pool_documents(counts.starts, counts.places, counts.counts, values, pooled)
    return pooled


def _cosines(table: GramTable, vector: Floats) -> Floats:
    given = np.asarray(vector, np.float32)
    if given.shape != (table.vectors.shape[1],):
        raise DataError(
            f"the key's vector has the shape {given.shape}, those of the documents have "
            f"{table.vectors.shape[1]} numbers",
            where="vector",
        )
    return np.asarray(table.vectors @ given, np.float32)


def kernel_features(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return 0.01 ln(max(K, 1e-10)), summed over the first axis: the keys of a query.

    Examples
    --------
    >>> kernel_features(np.array([[1.0, 0.0], [np.e, 1.0]])).round(4).tolist()
    [0.01, -0.2303]
    """
    logs = np.log(np.maximum(np.asarray(values, np.float64), LOG_FLOOR))
    return np.asarray(LOG_SCALE * logs.sum(axis=0))
