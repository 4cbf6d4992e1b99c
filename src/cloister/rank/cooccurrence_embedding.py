"""Word vectors by counting: positive pointwise mutual information and a truncated SVD.

Levy and Goldberg, *Neural word embedding as implicit matrix factorization* (NIPS 2014): skip-gram
with k negative samples factorises, in the limit, the matrix PMI(w, c) - ln k. Here that matrix is
made from counts, its negative entries are set to 0 (SPPMI), and factorised by a singular value
decomposition U S V^T cut to its largest values. The vector of a word is its row of U S^(1/2).

It needs no training, no random numbers and no package beyond scipy, and suits small collections.
gensim's skip-gram is :func:`cloister.rank.embedding.train_embedding`.

Vectors of a collection tell of it, as those that are trained do: see `cloister.rank.embedding`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.rank.embedding import Embedding
from cloister.rank.proximity_features import TermSequences

__all__ = ["CooccurrenceSettings", "cooccurrence_embedding"]

Floats = NDArray[np.float64]
Sparse = Any  # scipy.sparse.csr_matrix, which is imported late

NOTHING: Final = 1e-10  # information, or a singular value beside the largest, of mere rounding
DENSE: Final = 600  # up to so many words the decomposition is that of a dense matrix


class CooccurrenceSettings(Settings):
    """How words are counted, and how long their vectors are.

    Parameters
    ----------
    size
        Numbers a vector has; fewer where the matrix has a lower rank.
    window
        Words to each side that count as context; each counts alike.
    min_count
        Words seen less often get no vector, and are taken out of the texts before, as in word2vec.
    shift
        k, the negative samples that skip-gram would draw; 1 leaves the information as it is.
    """

    size: int = Field(default=100, ge=1)
    window: int = Field(default=5, ge=1)
    min_count: int = Field(default=3, ge=1)
    shift: float = Field(default=1.0, ge=1)


def cooccurrence_embedding(
    texts: TermSequences, settings: CooccurrenceSettings | None = None
) -> Embedding:
    """Make word vectors from the words that stand near each other in documents.

    A word without any context of positive information has no vector. The same texts give the same
    vectors on one machine: of each column the entry of largest magnitude is positive.

    Raises
    ------
    DataError
        If no word has a vector.

    Examples
    --------
    >>> documents = [["dry", "cough"], ["mild", "cough"], ["dry", "throat"], ["mild", "throat"]]
    >>> vectors = cooccurrence_embedding(TermSequences.of(documents),
    ...                                  CooccurrenceSettings(size=2, min_count=1))
    >>> alike = vectors.vectors @ vectors.vectors.T
    >>> dict(zip(vectors.words, (alike[0] > 0.9).tolist()))  # dry is like mild
    {'dry': True, 'cough': False, 'mild': True, 'throat': False}
    """
    settings = settings or CooccurrenceSettings()
    kept, counts = _counts(texts, settings)
    information = _positive_information(counts, settings.shift)
    informed = np.flatnonzero(np.diff(information.indptr) > 0)
    if not len(informed):
        raise DataError(
            "no word has a telling context",
            where="cooccurrence_embedding",
            remedy="give more documents, or lower min_count or shift",
        )
    vectors = _factor(information[informed][:, informed], settings.size)
    sound = np.flatnonzero(np.linalg.norm(vectors, axis=1) > NOTHING)
    words = tuple(texts.vocabulary[term] for term in kept[informed[sound]].tolist())
    return Embedding(words, vectors[sound].astype(np.float32))


def _counts(
    texts: TermSequences, settings: CooccurrenceSettings
) -> tuple[NDArray[np.int64], Sparse]:
    """Return the words kept, and how often each two of them stand within a window."""
    from scipy.sparse import coo_matrix

    n_each = np.bincount(texts.terms, minlength=len(texts.vocabulary))
    kept = np.flatnonzero(n_each >= settings.min_count)
    number = np.full(len(texts.vocabulary), -1, np.int64)
    number[kept] = np.arange(len(kept))
    tokens = number[texts.terms]
    owners = np.repeat(np.arange(texts.n_documents), np.diff(texts.starts))[tokens >= 0]
    tokens = tokens[tokens >= 0]
    shape = (len(kept), len(kept))
    total = coo_matrix(shape, dtype=np.float64).tocsr()
    for distance in range(1, min(settings.window, len(tokens) - 1) + 1):
        together = owners[distance:] == owners[:-distance]
        pair = tokens[:-distance][together], tokens[distance:][together]
        one_way = coo_matrix((np.ones(len(pair[0])), pair), shape=shape)
        total = total + one_way + one_way.T
    return kept, total.tocsr()


def _positive_information(counts: Sparse, shift: float) -> Sparse:
    """Return max(PMI(w, c) - ln k, 0), Levy and Goldberg section 3: n(w,c) n / (n(w) n(c))."""
    of_word = np.asarray(counts.sum(axis=1)).reshape(-1)
    found = counts.tocoo()
    expected = of_word[found.row] * of_word[found.col] / of_word.sum() if found.nnz else found.data
    found.data = np.log(found.data / expected) - np.log(shift)
    found.data[found.data < NOTHING] = 0.0
    information = found.tocsr()
    information.eliminate_zeros()
    return information


def _factor(matrix: Sparse, size: int) -> Floats:
    """Return U S^(1/2) of the largest singular values, each column with a sign of its own.

    The matrix is symmetric: its singular values are the magnitudes of its eigenvalues.
    """
    n = matrix.shape[0]
    size = min(size, n)
    if n <= DENSE or size > n // 2:
        values, basis = np.linalg.eigh(matrix.toarray())
    else:
        from scipy.sparse.linalg import eigsh

        values, basis = eigsh(matrix, k=size, which="LM", v0=np.ones(n))
    largest = np.argsort(-np.abs(values), kind="stable")[:size]
    singular, left = np.abs(values[largest]), basis[:, largest]
    told = singular > NOTHING * singular[0]
    singular, left = singular[told], left[:, told]
    peaks = left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])]
    return np.asarray(left * np.where(peaks < 0, -1.0, 1.0) * np.sqrt(singular))
