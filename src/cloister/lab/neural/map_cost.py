"""What a closed soft match map takes, and what its closures leave open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cloister.cloud.closure_pairs import DOCUMENT_BYTES, ClosurePairs, log2_deniability
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.ranking_keys import RankingKeys
from cloister.cloud.term_closures import TermClosures
from cloister.rank.kernel_pooling import N_SOFT

__all__ = ["MapCost", "map_cost"]


class MapCost(NamedTuple):
    """Bytes of the maps of words and of phrases together, and sizes of the words' closures.

    Parameters
    ----------
    closed_bytes
        Levels of all held (key, document), and the documents' numbers once a closure.
    full_bytes
        Levels of every key with every document.
    bytes_a_document
        Closed bytes by documents.
    share_of_full
        Closed bytes by full bytes.
    n_closures, smallest, mean_size, largest
        Closures of words, and how many words they have.
    share_below
        Share of words in closures smaller than asked for.
    log2_deniability
        Of the map of words, see `cloister.cloud.closure_pairs.log2_deniability`.
    """

    closed_bytes: float
    full_bytes: float
    bytes_a_document: float
    share_of_full: float
    n_closures: float
    smallest: float
    mean_size: float
    largest: float
    share_below: float
    log2_deniability: float


def map_cost(
    keys: RankingKeys, obfuscation: KernelObfuscation, *, n_documents: int, min_size: int
) -> MapCost:
    """Count the bytes of a closed map.

    A word has 20 levels a document, a phrase 10. Nothing is sealed here: a sealed index has some
    bytes more a key, see `cloister.cloud.private_index`.

    Parameters
    ----------
    keys
        Words and phrases with their closures and documents.
    obfuscation
        How values are stored.
    n_documents
        Of the collection.
    min_size
        The size that closures are asked to reach.
    """
    width = obfuscation.dtype.itemsize
    words = (2 * N_SOFT * width, keys.word_closures, keys.word_documents)
    phrases = (N_SOFT * width, keys.phrase_closures, keys.phrase_documents)
    closed = _closed_bytes(*words) + _closed_bytes(*phrases)
    full = n_documents * sum(vector * of.n_terms for vector, of, _ in (words, phrases))
    sizes = keys.word_closures.report(min_size)
    held = np.diff(keys.word_documents.starts)
    return MapCost(
        closed,
        full,
        closed / max(n_documents, 1),
        closed / full if full else 0.0,
        sizes.n_closures,
        sizes.smallest,
        sizes.mean,
        sizes.largest,
        sizes.share_below,
        log2_deniability(keys.word_closures.sizes, held),
    )


def _closed_bytes(vector: int, closures: TermClosures, documents: ClosurePairs) -> int:
    held = int(np.diff(documents.starts) @ closures.sizes)
    return held * vector + len(documents.documents) * DOCUMENT_BYTES
