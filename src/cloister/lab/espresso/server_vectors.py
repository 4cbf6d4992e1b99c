"""Word vectors of one server's documents and pods, document by document, for many queries at once.

The same means and scores as :class:`cloister.search.word_vector_ranking.EntityVectors` has, but for
rounding: sums are made in single precision. That class goes word by word through all documents,
and for each level anew; here the entries are sorted by document once, so that a document's sum
stays in the processor's first cache, and pods and the server are sums of documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel
from cloister.index.postings_kernel import invert
from cloister.index.reader_view import ReaderView
from cloister.search.word_vector_ranking import VectorModel
from cloister.search.word_vector_table import WordVectors

__all__ = [
    "DocumentTerms",
    "EntityMeans",
    "ServerMeans",
    "document_terms",
    "query_means",
    "server_means",
]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class DocumentTerms(NamedTuple):
    """What one reader may read of a server: the terms of each document, in the order of bytes.

    Parameters
    ----------
    numbers, pods
        The documents, rising, and the place of each one's pod among different ones, rising.
    starts, terms, counts
        Where each document's entries begin; the term of each entry, and how often it occurs.
    vocabulary
        The terms.
    """

    numbers: Int32s
    pods: Int64s
    starts: Int64s
    terms: Int32s
    counts: Int32s
    vocabulary: list[str]


class EntityMeans(NamedTuple):
    """Mean vectors of some entities, and how many words with a vector each holds."""

    means: Floats
    n_words: Floats

    def scores(self, queries: Floats, model: VectorModel) -> Floats:
        """Return the score of each entity (row) for each query's mean vector (column).

        Entities without a word that has a vector are not ranked: their scores are not finite.

        Examples
        --------
        >>> entities = EntityMeans(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([2.0, 0.0]))
        >>> entities.scores(np.array([[1.0, 0.0]]), "w2v-cosine").tolist()
        [[0.6], [-inf]]
        """
        products = self.means @ queries.T
        squares = np.einsum("ij,ij->i", self.means, self.means)[:, None]
        wanted = np.einsum("ij,ij->i", queries, queries)[None, :]
        if model == "w2v-cosine":
            below = np.sqrt(squares * wanted)
            scores: Floats = np.divide(
                products, below, out=np.zeros_like(products), where=below > 0
            )
        else:
            scores = 1 / (1 + np.sqrt(np.maximum(squares - 2 * products + wanted, 0.0)))
        scores[self.n_words == 0] = -np.inf
        return scores


class ServerMeans(NamedTuple):
    """The mean vectors of a server at its three levels; pods by their place in `DocumentTerms`."""

    server: EntityMeans
    pods: EntityMeans
    documents: EntityMeans


def document_terms(view: ReaderView) -> DocumentTerms:
    """Sort what a reader may read by document."""
    flat = view.term_major()
    n = len(view.documents)
    row_of = np.full(len(view.lengths), -1, np.int64)
    row_of[view.documents] = np.arange(n)
    sizes = np.bincount(row_of[flat.documents], minlength=n)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    terms, counts = np.empty(len(flat.documents), np.int32), np.empty(len(flat.documents), np.int32)
    invert(flat.starts, flat.documents, flat.counts, row_of, starts, terms, counts)
    pods = np.unique(view.pods[view.documents], return_inverse=True)[1].astype(np.int64)
    vocabulary = [term.decode("utf-8") for term in flat.terms]
    return DocumentTerms(view.documents, pods, starts, terms, counts, vocabulary)


def server_means(documents: DocumentTerms, vectors: WordVectors) -> ServerMeans:
    """Return the mean vectors of a server, its pods and its documents."""
    positions = vectors.positions
    rows = np.array([positions.get(term, -1) for term in documents.vocabulary], np.int64)
    sums = np.zeros((len(documents.numbers), vectors.size), np.float32)
    n_words = np.zeros(len(documents.numbers))
    table = np.ascontiguousarray(vectors.vectors, np.float32)
    _sum_documents(documents.starts, documents.terms, documents.counts, rows, table, sums, n_words)
    of_documents = _means(sums.astype(np.float64), n_words)
    n_pods = int(documents.pods.max(initial=-1)) + 1
    of_pods = of_documents
    if n_pods < len(documents.numbers) or not _rises(documents.pods):
        pod_sums, pod_words = np.zeros((n_pods, vectors.size)), np.zeros(n_pods)
        _add_rows(sums, n_words, documents.pods, pod_sums, pod_words)
        of_pods = _means(pod_sums, pod_words)
    whole = _means(sums.sum(axis=0, dtype=np.float64)[None], n_words.sum(keepdims=True))
    return ServerMeans(whole, of_pods, of_documents)


def query_means(vectors: WordVectors, queries: Sequence[Sequence[str]]) -> Floats:
    """Return the mean vectors of some queries; 0 for one of which no word has a vector."""
    return np.array([vectors.query_mean(terms) for terms in queries]).reshape(-1, vectors.size)


def _means(sums: Floats, n_words: Floats) -> EntityMeans:
    return EntityMeans(sums / np.maximum(n_words, 1.0)[:, None], n_words)


def _rises(pods: Int64s) -> bool:
    return bool((np.diff(pods) > 0).all())


@parallel_kernel
def _sum_documents(
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    rows: Int64s,
    table: Singles,
    sums: Singles,
    n_words: Floats,
) -> None:
    """Add up the vectors of each document's words."""
    size = table.shape[1]
    for document in numba.prange(len(starts) - 1):
        for entry in range(starts[document], starts[document + 1]):
            row = rows[terms[entry]]
            if row >= 0:
                count = np.float32(counts[entry])
                n_words[document] += counts[entry]
                for j in range(size):
                    sums[document, j] += count * table[row, j]


@kernel
def _add_rows(
    sums: Singles, n_words: Floats, places: Int64s, all_sums: Floats, all_words: Floats
) -> None:
    """Add each row to the one at its place."""
    for row in range(len(places)):
        all_words[places[row]] += n_words[row]
        for j in range(sums.shape[1]):
            all_sums[places[row], j] += sums[row, j]
