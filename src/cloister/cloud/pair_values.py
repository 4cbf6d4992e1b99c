"""Proximity features of all pairs of words that are keys, at once.

The values are those of `cloister.rank.proximity_features.proximity`. A pair is held only for
documents in which its words stand in one wide window, so all that matters lies within that window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.ranking_keys import RankingKeys
from cloister.core.errors import DataError
from cloister.rank.proximity_features import NARROW, PAIR_NAMES, WIDE, TermSequences

__all__ = ["PairValues", "pair_values"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class PairValues(NamedTuple):
    """Features of (pair, document), pair after pair, documents rising.

    Parameters
    ----------
    starts
        Where the rows of each pair begin, and their number at the end.
    documents
        Numbers of documents.
    values
        By name, the lower word first in the query.
    turned
        By name, the higher word first in the query.
    """

    starts: Integers
    documents: Integers
    values: dict[str, Floats]
    turned: dict[str, Floats]


def pair_values(texts: TermSequences, keys: RankingKeys) -> PairValues:
    """Compute the proximity features of all pairs that are keys.

    Examples
    --------
    >>> texts = TermSequences.of([["cough", "mild", "fever"], ["fever", "cough"]])
    >>> from cloister.cloud.private_ranker import PrivateRankingSettings
    >>> from cloister.cloud.ranking_keys import find_keys
    >>> from cloister.rank.embedding import Embedding
    >>> vectors = Embedding(("fever",), np.ones((1, 1), np.float32))
    >>> keys = find_keys(texts, vectors, PrivateRankingSettings(min_pair_documents=2))
    >>> found = pair_values(texts, keys)  # of cough and fever, in both documents
    >>> found.values["ordered5"].tolist(), found.turned["ordered5"].tolist()
    ([1.0, 0.0], [0.0, 1.0])
    >>> found.values["closeness"].tolist()
    [0.5, 1.0]
    """
    starts = np.concatenate([[0], np.cumsum([len(part) for part in keys.pair_documents])])
    documents = np.concatenate([np.empty(0, np.int32), *keys.pair_documents]).astype(np.int64)
    pairs = np.repeat(np.arange(len(keys.pairs)), np.diff(starts))
    rows = pairs * max(texts.n_documents, 1) + documents  # rising: a row's number is its place
    nearest = np.full(len(rows), WIDE, np.int64)
    sums = {name: np.zeros(len(rows)) for name in PAIR_NAMES[1:]}
    finder = _Pairs(texts, keys)
    for distance in range(1, WIDE):
        codes, ordered = finder.apart(distance)
        places = np.searchsorted(rows, codes)
        if len(places) and (places[-1] == len(rows) or (rows[places] != codes).any()):
            raise DataError("a pair is not held where it occurs", where="keys")
        nearest[places] = np.minimum(nearest[places], distance)
        for width in (NARROW, WIDE):
            if distance < width:
                sums[f"unordered{width}"] += np.bincount(places, minlength=len(rows))
                sums[f"ordered{width}"] += np.bincount(places, ordered, len(rows))
    if (nearest == WIDE).any():
        raise DataError("a pair is held where it does not occur", where="keys")
    values = {"closeness": 1.0 / nearest, **sums}
    turned = dict(values)
    for width in (NARROW, WIDE):  # two words never stand in one place: one comes first
        turned[f"ordered{width}"] = sums[f"unordered{width}"] - sums[f"ordered{width}"]
    return PairValues(starts.astype(np.int64), documents, values, turned)


class _Pairs:
    """Finds occurrences of pairs at a distance."""

    def __init__(self, texts: TermSequences, keys: RankingKeys) -> None:
        n_words = len(texts.vocabulary)
        by_name = np.array(sorted(range(n_words), key=texts.vocabulary.__getitem__), np.int64)
        rank = np.empty(n_words, np.int64)
        rank[by_name] = np.arange(n_words)
        self._n_words, self._n_documents = max(n_words, 1), max(texts.n_documents, 1)
        self._tokens = rank[texts.terms]  # words by their place in the alphabet
        self._owners = np.repeat(np.arange(texts.n_documents), np.diff(texts.starts))
        positions = np.array([[texts.positions[w] for w in pair] for pair in keys.pairs], np.int64)
        ranks = rank[positions.reshape(-1, 2)]
        self._codes = ranks[:, 0] * self._n_words + ranks[:, 1]  # rising, as pairs are sorted

    def apart(self, distance: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Return pair x documents + document of each occurrence, and if the lower word is first.

        Sorted by the first, so that the last is the highest.
        """
        first, second = self._tokens[:-distance], self._tokens[distance:]
        owners = self._owners[distance:]
        kept = (self._owners[:-distance] == owners) & (first != second)
        first, second, owners = first[kept], second[kept], owners[kept]
        codes = np.minimum(first, second) * self._n_words + np.maximum(first, second)
        pairs = np.searchsorted(self._codes, codes)
        known = pairs < len(self._codes)
        known[known] = self._codes[pairs[known]] == codes[known]
        rows = pairs[known] * self._n_documents + owners[known]
        order = np.argsort(rows, kind="stable")
        return rows[order], (first < second)[known][order]
