"""A private index built from the small made-up collection, with the plain oracle of its scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from cloister.cloud.index_building import build_private_index
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker import N_SOFT_FEATURES, PrivateRanker, PrivateRankingSettings
from cloister.cloud.served_features import served_scores
from cloister.data.ranking_data import RankingData
from cloister.index.analysis import TextAnalysis
from cloister.rank.forest import ForestSettings
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.query_length_forests import (
    QueryLengthForests,
    QueryLengthForestSettings,
    fit_query_length_forests,
)
from cloister.rank.tree_features import TreeFeatureSettings
from cloud.private_ranking_world import SETTINGS, World

LETTERS = TextAnalysis(stop_words="none", min_length=1)


def _trees(kind: str, order: str = "rarest") -> TreeFeatureSettings:
    return TreeFeatureSettings(kind=kind, combined=False, n_positions=3, order=order)


KINDS = {
    "T1": {"features": _trees("T1")},
    "T1 in query order": {"features": _trees("T1", "query")},
    "T2": {"features": _trees("T2")},
    "no trees": {"features": None},
    "plain values": {"obfuscation": KernelObfuscation(base=None)},
    "base 5, no trees": {"obfuscation": KernelObfuscation(base=5), "features": None},
}


class BuiltIndex:
    def __init__(self, settings: PrivateRankingSettings = SETTINGS, *, seed: int = 0) -> None:
        self.world = World(settings, seed=seed)
        forests = _grown(self.world, seed) if settings.features else None
        n_features = N_SOFT_FEATURES + (forests is not None)
        rng = np.random.default_rng(seed)
        layer = KernelRanker(rng.normal(size=n_features), 0.5)
        self.ranker = PrivateRanker(self.world.ranker, layer, forests, settings)
        self.doc_ids = [f"document {d}" for d in range(self.world.texts.n_documents)]
        self.texts = [" ".join(words) for words in self.world.documents]
        self.index, self.dictionary = build_private_index(
            self.ranker,
            self.world.texts,
            self.world.priors,
            self.doc_ids,
            rng.bytes(32),
            analysis=LETTERS,
            document_texts=self.texts,
            keys=self.world.keys,
        )

    def plain_scores(self, terms: Sequence[str]) -> dict[str, float]:
        """Return the score of each document, by name, from plain data."""
        everywhere = np.arange(len(self.doc_ids))
        scores = served_scores(self.ranker, self.world.served, terms, everywhere)
        return dict(zip(self.doc_ids, scores.tolist(), strict=True))

    def held(self, terms: Sequence[str]) -> set[str]:
        """Return the documents that the closures of a query's words and phrases hold."""
        found = self.world.keys.held(terms, np.arange(len(self.doc_ids)))
        rows = np.concatenate([found.words, found.phrases])
        return {self.doc_ids[d] for d in np.flatnonzero(rows.any(axis=0)).tolist()}


@cache
def built(kind: str = "T1", seed: int = 0) -> BuiltIndex:
    """Build an index of a kind once."""
    return BuiltIndex(SETTINGS.model_copy(update=KINDS[kind]), seed=seed)


def _grown(world: World, seed: int) -> QueryLengthForests:
    """Grow trees on made-up grades."""
    rng = np.random.default_rng(seed)
    queries = [rng.choice(list("abcdefgh"), n, replace=False).tolist() for n in (1, 2, 3, 4) * 6]
    everywhere = np.arange(world.texts.n_documents)
    rows = np.concatenate([world.served.tree_rows(query, everywhere) for query in queries])
    grades = rng.integers(0, 3, len(rows)).astype(np.int8)
    data = RankingData(rows, grades, np.arange(0, len(rows) + 1, len(everywhere)))
    forest = ForestSettings(n_trees=12, n_leaves=12, min_leaf_rows=5)
    settings = QueryLengthForestSettings(longest=3, min_queries=6, forest=forest)
    return fit_query_length_forests(data, [len(query) for query in queries], settings)
