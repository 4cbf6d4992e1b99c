"""What a server can compute for a query, from plain data: for training, and as the oracle.

The server looks stored values up by key. What is not held, it takes as absent: no soft match, and 0
for a tree feature. So a ranker that is to be served must be trained on the same: on soft values
made coarse and closed, and on tree features without what no key leads to. The sealed path must give
the scores that a ranker gives on these features.

A query's keys are its different words and each of these with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.cloud.ranking_keys import HeldKeys, RankingKeys
from cloister.core.errors import DataError
from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.kernel_pooling import N_SOFT
from cloister.rank.query_kernels import KeyValues, QueryKernels
from cloister.rank.query_length_forests import QueryLengthForests
from cloister.rank.tree_features import (
    TreeFeatures,
    TreeFeatureSettings,
    distinct_terms,
    feature_places,
)

__all__ = ["ServedFeatures", "served_scores", "soft_features"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]


def soft_features(
    values: KeyValues, obfuscation: KernelObfuscation, held: HeldKeys | None = None
) -> Floats:
    """Return the 30 soft features of each document: sums over a query's keys of stored values.

    Word x word, word x pair, pair x word; ten kernels each. The exact kernels are not looked at.

    Parameters
    ----------
    values
        Kernel values of the query's keys, exact matches masked.
    obfuscation
        How they are stored.
    held
        Which documents are held for which key; the others count as absent. All where not given, as
        in a full map.

    Examples
    --------
    >>> values = KeyValues(np.full((2, 1, 2, 11), 20.0), np.zeros((1, 1, 11)))
    >>> soft_features(values, KernelObfuscation(base=10)).reshape(3, 10)[:, 0].tolist()
    [4.0, 4.0, 1.0]
    """
    n = values.words.shape[1]
    words = values.words[..., :N_SOFT].reshape(len(values.words), n, 2 * N_SOFT)
    blocks = []
    for part, known in zip(
        (words, values.phrases[..., :N_SOFT]), held or (None, None), strict=True
    ):
        stored = obfuscation.stored(part)
        if known is not None:
            stored[~known] = obfuscation.absent
        blocks.append(obfuscation.features(np.moveaxis(stored, 0, 1)))
    return np.hstack(blocks)


class ServedFeatures:
    """Features of queries and documents, as a server has them.

    Parameters
    ----------
    kernels
        Kernel values of the collection under a trained C-KNRM*.
    trees
        Tree features of the collection, those that the settings name; None where they name none.
    keys
        Of the collection, by the same settings.
    settings
        How coarse, and which tree features.
    """

    def __init__(
        self,
        kernels: DocumentKernels,
        trees: TreeFeatures | None,
        keys: RankingKeys,
        settings: PrivateRankingSettings,
    ) -> None:
        if (trees.settings if trees else None) != settings.features:
            raise DataError("other tree features than the settings name", where="trees")
        self.keys = keys
        self.settings = settings
        self._kernels = QueryKernels(kernels)
        self._trees = trees
        self._columns = _Columns(settings.features) if settings.features else None

    def soft_values(self, terms: Sequence[str], documents: Numbers) -> KeyValues:
        """Return plain kernel values of a query's keys, for several `soft_features`."""
        return self._kernels.values(terms, documents)

    def soft(self, terms: Sequence[str], documents: Numbers) -> Floats:
        """Return the 30 soft features of each document, see `soft_features`."""
        held = self.keys.held(terms, documents)
        return soft_features(self.soft_values(terms, documents), self.settings.obfuscation, held)

    def tree_rows(self, terms: Sequence[str], documents: Numbers) -> NDArray[np.float32]:
        """Return the tree features of each document, 0 where no key leads to a value.

        Features of a word are 0 where its closure does not hold the document, also those that are
        not 0 for a word that does not occur. Features of a pair are 0 where it is no key or the two
        words do not stand in one wide window.
        """
        if self._trees is None or self._columns is None:
            raise DataError("the settings name no tree features", where="ServedFeatures")
        rows = self._trees.of(terms, documents)
        words = distinct_terms(terms)
        df = self._trees.texts.counts.document_frequencies(words)
        placed = [words[term] for term in feature_places(df, self._trees.settings)]
        for place, word in enumerate(placed):
            missing = ~self.keys.word_held(word, documents)
            rows[np.ix_(np.flatnonzero(missing), self._columns.of_term[place])] = 0
        for (a, b), columns in self._columns.of_pair.items():
            if b < len(placed):
                missing = ~self.keys.pair_held(placed[a], placed[b], documents)
                rows[np.ix_(np.flatnonzero(missing), columns)] = 0
        return rows

    def signal(
        self, terms: Sequence[str], documents: Numbers, forests: QueryLengthForests
    ) -> Floats:
        """Return the score of forests for each document, on the features as they are served."""
        return forests.score(len(distinct_terms(terms)), self.tree_rows(terms, documents))

    def of(
        self, terms: Sequence[str], documents: Numbers, forests: QueryLengthForests | None
    ) -> Floats:
        """Return what a private ranker's layer takes: 30 features, or 31 with forests."""
        soft = self.soft(terms, documents)
        if forests is None:
            return soft
        return np.column_stack([soft, self.signal(terms, documents, forests)])


def served_scores(
    ranker: PrivateRanker, served: ServedFeatures, terms: Sequence[str], documents: Numbers
) -> Floats:
    """Return w . phi + b of each document: what the sealed path must give."""
    return ranker.layer.linear(served.of(terms, documents, ranker.forests))


class _Columns:
    """Which columns of the tree features belong to which place, and to which pair of places."""

    def __init__(self, settings: TreeFeatureSettings) -> None:
        names = [feature.name for feature in settings.features]
        self.of_term = [_ending(names, f"[{place + 1}]") for place in range(settings.n_positions)]
        self.of_pair = {(a, b): _ending(names, f"[{a + 1},{b + 1}]") for a, b in settings.pairs}


def _ending(names: Sequence[str], end: str) -> NDArray[np.int64]:
    return np.array([c for c, name in enumerate(names) if name.endswith(end)], np.int64)
