"""Cross matches with gradients: kernel pooling over all pairs of query and document n-grams.

The same arithmetic as :mod:`cloister.rank.kernel_pooling`, for whole batches. The cells, the pairs
of a query's and a document's n-grams, are computed by compiled kernels; torch sees each cross match
as one function with a gradient. Texts are not padded: no cell is computed in vain.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.rank.cross_match_kernel import (
    add_keys,
    add_slopes,
    compare_grams,
    compose_backward,
    compose_forward,
    pool_keys,
)
from cloister.rank.kernel_pooling import KERNEL_MEANS, KERNEL_WIDTHS, LOG_FLOOR, LOG_SCALE, N_SOFT
from cloister.rank.neural_batches import FlatTexts, Numbers, TextBatch
from cloister.rank.neural_ranker import Tensor, load_torch

__all__ = [
    "GramCells",
    "TextGrams",
    "VectorGrams",
    "batch_words",
    "compare",
    "compose_grams",
    "match_features",
    "text_grams",
    "word_grams",
]

Bools = NDArray[np.bool_]
Floats = NDArray[Any]  # of single or of double precision


class TextGrams(NamedTuple):
    """The n-grams of texts, one text after the other.

    Parameters
    ----------
    words
        The numbers of the words of each n-gram (row).
    starts
        Where each text's n-grams begin, and the number of n-grams at the end.
    known
        Which n-grams have a vector: all of their words have one.
    """

    words: Numbers
    starts: Numbers
    known: Bools


class VectorGrams(NamedTuple):
    """N-grams and their vectors (rows), of length 1 or 0."""

    grams: TextGrams
    vectors: Tensor


def text_grams(texts: FlatTexts, n: int, n_known: int) -> TextGrams:
    """Return n adjacent words each; a text of fewer words has none.

    Examples
    --------
    >>> grams = text_grams(FlatTexts(np.array([4, 2, 9, 2]), np.array([0, 3, 4])), 2, n_known=5)
    >>> grams.words.tolist(), grams.starts.tolist(), grams.known.tolist()
    ([[4, 2], [2, 9]], [0, 2, 2], [True, False])
    """
    sizes = np.maximum(np.diff(texts.starts) - n + 1, 0)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    firsts = np.arange(starts[-1]) + np.repeat(texts.starts[:-1] - starts[:-1], sizes)
    words = texts.numbers[firsts[:, None] + np.arange(n)]
    return TextGrams(words, starts, np.asarray((words <= n_known).all(axis=1)))


class BatchWords(NamedTuple):
    """The different words of a batch, and their vectors, of length 1.

    Parameters
    ----------
    numbers
        Rising; all words without a vector are 0.
    vectors
        A row for each; zeros for 0.
    n_known
        Words with a higher number have no vector.
    """

    numbers: Numbers
    vectors: Tensor
    n_known: int

    def rows(self, words: Numbers) -> Numbers:
        """Return the rows of words of the batch."""
        return np.searchsorted(self.numbers, np.where(words <= self.n_known, words, 0))


def batch_words(vectors: Tensor, batch: TextBatch) -> BatchWords:
    """Look up the words of a batch; the gradient of ``vectors`` is sparse."""
    torch = load_torch()
    words = np.concatenate([batch.queries.numbers, batch.documents.numbers])
    numbers = np.unique(np.where(words <= batch.n_known, words, 0))
    rows = torch.nn.functional.embedding(torch.from_numpy(numbers), vectors, sparse=True)
    return BatchWords(numbers, torch.nn.functional.normalize(rows, dim=1), batch.n_known)


def word_grams(vectors: Tensor, batch: TextBatch) -> tuple[VectorGrams, VectorGrams]:
    """Return the single words of a batch's queries and documents with their vectors."""
    torch = load_torch()
    words = batch_words(vectors, batch)
    sides = []
    for texts in (batch.queries, batch.documents):
        rows = torch.from_numpy(words.rows(texts.numbers))
        own = torch.nn.functional.embedding(rows, words.vectors)
        sides.append(VectorGrams(text_grams(texts, 1, batch.n_known), own))
    return sides[0], sides[1]


class GramCells(NamedTuple):
    """All pairs of n-grams of some queries and documents.

    Parameters
    ----------
    sizes
        The cells of each key. Keys are the n-grams of the query of each row, row after row.
    key_counts
        The number of keys of each row.
    cosines
        Of each cell; 1 for an n-gram and itself.
    counted
        Whether both n-grams have a vector, or are the same.
    shares, same
        Whether they have a word in common, or are the same.
    """

    sizes: Numbers
    key_counts: Numbers
    cosines: Floats
    counted: Bools
    shares: Bools
    same: Bools


def compare(rows: Numbers, query: VectorGrams, document: VectorGrams) -> GramCells:
    """Compare the n-grams of the query and the document of each row."""
    sides = query.vectors.detach().numpy(), document.vectors.detach().numpy()
    return _compared(rows, (query.grams, document.grams), sides)


def _compared(
    rows: Numbers, grams: tuple[TextGrams, TextGrams], vectors: tuple[Floats, Floats]
) -> GramCells:
    query, document = grams
    key_counts = np.diff(query.starts)[rows[:, 0]]
    sizes = np.repeat(np.diff(document.starts)[rows[:, 1]], key_counts)
    n_cells = int(sizes.sum())
    cells = GramCells(
        sizes,
        key_counts,
        np.zeros(n_cells, vectors[0].dtype),
        *(np.zeros(n_cells, np.bool_) for _ in range(3)),
    )
    compare_grams(
        rows,
        query.starts,
        query.words,
        query.known,
        vectors[0],
        document.starts,
        document.words,
        document.known,
        vectors[1],
        *cells[2:],
    )
    return cells


def match_features(
    rows: Numbers,
    query: VectorGrams,
    document: VectorGrams,
    *,
    mask_exact: bool,
    exact_kernel: bool,
) -> Tensor:
    """Return 0.01 ln(max(K, 1e-10)) summed over each query's n-grams: (rows, kernels).

    Parameters
    ----------
    rows
        Pairs of a query and a document.
    query, document
        Their n-grams.
    mask_exact
        Whether n-grams that share a word are left out of the soft kernels.
    exact_kernel
        Whether the exact kernel is a feature, the last one.
    """
    n_kernels = len(KERNEL_MEANS) if exact_kernel else N_SOFT
    grams = query.grams, document.grams
    return _matching().apply(query.vectors, document.vectors, rows, grams, mask_exact, n_kernels)


@cache
def _matching() -> Any:
    """Make the function of torch that a cross match is."""
    torch = load_torch()

    class Matching(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(  # type: ignore[no-untyped-def]
            ctx, query_vectors, document_vectors, rows, grams, mask_exact, n_kernels
        ):
            vectors = query_vectors.detach().numpy(), document_vectors.detach().numpy()
            cells = _compared(rows, grams, vectors)
            masked = cells.shares & mask_exact
            pooled = pool_keys(
                cells.sizes, cells.cosines, cells.counted, masked, KERNEL_MEANS, KERNEL_WIDTHS
            )
            ctx.kept = rows, grams, vectors, cells, masked, pooled
            phi = np.zeros((len(rows), n_kernels), vectors[0].dtype)
            logs = LOG_SCALE * np.log(np.maximum(pooled[:, :n_kernels], LOG_FLOOR))
            add_keys(logs, cells.key_counts, phi)
            return torch.from_numpy(phi)

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            rows, grams, vectors, cells, masked, pooled = ctx.kept
            gradient = gradient.numpy()
            of_keys = np.repeat(gradient, cells.key_counts, axis=0)
            slopes = np.zeros_like(pooled)
            slopes[:, : gradient.shape[1]] = LOG_SCALE * of_keys
            slopes = np.where(pooled >= LOG_FLOOR, slopes / np.maximum(pooled, LOG_FLOOR), 0.0)
            found = tuple(np.zeros_like(side) for side in vectors)
            add_slopes(
                slopes,
                rows,
                grams[0].starts,
                vectors[0],
                grams[1].starts,
                vectors[1],
                cells.cosines,
                cells.counted,
                masked,
                cells.same,
                KERNEL_MEANS,
                KERNEL_WIDTHS,
                *found,
            )
            return (*map(torch.from_numpy, found), None, None, None, None)

    return Matching


def compose_grams(projected: Tensor, shifts: Tensor, words: Numbers) -> Tensor:
    """Return relu(shifts + the projected words of each n-gram), brought to the length 1.

    Parameters
    ----------
    projected
        (words, places, size): each word as the filters of each place of an n-gram have it.
    shifts
        The filters' biases.
    words
        The words of each n-gram (row), as rows of ``projected``.
    """
    return _composition().apply(projected, shifts, words)


@cache
def _composition() -> Any:
    """Make the function of torch that composes n-grams."""
    torch = load_torch()

    class Composition(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx, projected, shifts, words):  # type: ignore[no-untyped-def]
            parts = projected.detach().numpy()
            composed = np.empty((len(words), parts.shape[2]), parts.dtype)
            lengths = np.empty(len(words), parts.dtype)
            compose_forward(parts, shifts.detach().numpy(), words, composed, lengths)
            ctx.kept = parts.shape, composed, lengths, words
            return torch.from_numpy(composed)

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            shape, composed, lengths, words = ctx.kept
            projected = np.zeros(shape, composed.dtype)
            shifts = np.zeros(shape[2], composed.dtype)
            own = np.array(gradient.numpy())  # it is written on
            compose_backward(own, composed, lengths, words, projected, shifts)
            return torch.from_numpy(projected), torch.from_numpy(shifts), None

    return Composition
