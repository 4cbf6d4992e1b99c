"""Vectors of the n-grams of documents, and of keys, under a trained C-KNRM*; without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloister.rank.c_knrm_star import composed_grams
from cloister.rank.kernel_pooling import GramCounts, GramTable, count_grams
from cloister.rank.neural_ranker import NeuralRanker

__all__ = ["document_grams", "key_grams"]


def document_grams(neural: NeuralRanker, documents: Sequence[Sequence[str]], n: int) -> GramTable:
    """Return the n-grams of documents with their counts and vectors."""
    return composed_grams(neural, count_grams(documents, n))


def key_grams(neural: NeuralRanker, keys: Sequence[tuple[str, ...]]) -> GramTable:
    """Return keys, all of one length, with their vectors; the table has no documents."""
    n = len(keys[0]) if keys else 1
    vocabulary = tuple(dict.fromkeys(word for key in keys for word in key))
    places = {word: place for place, word in enumerate(vocabulary)}
    words = np.array([[places[word] for word in key] for key in keys], np.int32).reshape(-1, n)
    none = np.empty(0, np.int32)
    return composed_grams(neural, GramCounts(words, np.zeros(1, np.int64), none, none, vocabulary))
