"""Which closures a closed map holds with which documents, what that takes, and what it leaves open.

The claims are those of :mod:`cloister.cloud.soft_match_map`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.rank.kernel_pooling import N_SOFT, GramCounts

__all__ = ["ClosurePairs", "MapStorage", "closure_pairs", "log2_deniability", "map_storage"]

Integers = NDArray[np.int64]

DOCUMENT_BYTES: Final = 4  # a document's number beside its vectors


class ClosurePairs(NamedTuple):
    """The keys of a closed map: closure c has the documents ``starts[c]`` to ``starts[c + 1]``."""

    starts: Integers
    documents: NDArray[np.int32]  # rising within a closure

    def of(self, closure: int) -> NDArray[np.int32]:
        """Return the documents of a closure."""
        return self.documents[self.starts[closure] : self.starts[closure + 1]]


class MapStorage(NamedTuple):
    """Kernel vectors and bytes of three maps of the same documents."""

    n_pairs: int  # (closure, document)
    closed_vectors: int
    open_vectors: int
    full_vectors: int
    closed_bytes: int
    open_bytes: int
    full_bytes: int

    @property
    def closed_share(self) -> float:
        """Bytes of the closed map as a share of the full one's."""
        return self.closed_bytes / self.full_bytes if self.full_bytes else 0.0


def closure_pairs(closures: TermClosures, occurrences: GramCounts) -> ClosurePairs:
    """Return which documents each closure has: those in which one of its terms occurs.

    Parameters
    ----------
    closures
        Of the terms that are rows of ``occurrences``.
    occurrences
        Which terms, words or n-grams, occur in which documents.

    Examples
    --------
    >>> from cloister.rank.kernel_pooling import count_grams
    >>> counts = count_grams([["flu", "flu"], ["influenza", "bone"], ["bone"]], 1)
    >>> pairs = closure_pairs(TermClosures(np.array([0, 0, 1])), counts)
    >>> pairs.of(0).tolist(), pairs.of(1).tolist()
    ([0, 1], [1, 2])
    """
    if closures.n_terms != len(occurrences.words):
        raise DataError(
            f"closures of {closures.n_terms} terms, occurrences of {len(occurrences.words)}",
            where="closures",
        )
    n = max(1, occurrences.n_documents)
    owners = np.repeat(np.arange(occurrences.n_documents), np.diff(occurrences.starts))
    keys = np.unique(closures.labels[occurrences.places] * n + owners)
    starts = np.searchsorted(keys, np.arange(closures.n_closures + 1) * n)
    return ClosurePairs(starts.astype(np.int64), (keys % n).astype(np.int32))


def map_storage(
    closures: TermClosures,
    occurrences: GramCounts,
    obfuscation: KernelObfuscation,
    n_kernels: int = N_SOFT,
) -> MapStorage:
    """Return what the closed, the open and the full map take, without building any.

    A vector takes one byte a kernel (four where values are plain). The closed map names a document
    once for each closure, the open map once for each term, in four bytes; the full map need not.
    """
    pairs = closure_pairs(closures, occurrences)
    n_pairs = len(pairs.documents)
    closed = int(np.diff(pairs.starts) @ closures.sizes)
    occurring, full = len(occurrences.places), closures.n_terms * occurrences.n_documents
    vector = n_kernels * obfuscation.dtype.itemsize
    return MapStorage(
        n_pairs,
        closed,
        occurring,
        full,
        closed * vector + n_pairs * DOCUMENT_BYTES,
        occurring * (vector + DOCUMENT_BYTES),
        full * vector,
    )


def log2_deniability(sizes: NDArray[Any], n_documents: NDArray[Any]) -> float:
    """Return log2 of the number of data sets with the same keys.

    It is the sum over closures of (documents) x log2(2^size - 1): each pair can have come from any
    choice of at least one term. With p terms in every closure it is n log2(2^p - 1).

    Parameters
    ----------
    sizes, n_documents
        Terms and documents of each closure.

    Examples
    --------
    >>> 2 ** log2_deniability(np.array([2]), np.array([1]))  # {a}, {b} or {a, b}
    3.0
    """
    terms = np.asarray(sizes, np.float64)
    choices = terms + np.log1p(-np.exp2(-terms)) / np.log(2)
    return float((np.asarray(n_documents, np.float64) * choices).sum())
