"""A small made-up collection with an untrained C-KNRM*, for tests of private ranking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.private_ranker import PrivateRankingSettings
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.cloud.served_features import ServedFeatures
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings, DocumentKernels
from cloister.rank.document_priors import PRIOR_NAMES
from cloister.rank.embedding import Embedding
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.proximity_features import TermSequences
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

WORDS = tuple("abcdefghijklmnopqrst")
SETTINGS = PrivateRankingSettings(
    closures=AdaptiveThresholds(min_size=3),
    min_phrase_documents=2,
    min_pair_documents=2,
    features=TreeFeatureSettings(combined=False, n_positions=3),
)


def made_documents(n: int = 40, *, seed: int = 0, longest: int = 30) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, len(WORDS) + 1)
    shares /= shares.sum()
    return [rng.choice(WORDS, rng.integers(0, longest), p=shares).tolist() for _ in range(n)]


def made_ranker(*, seed: int = 0, mask_exact: bool = True, n_filters: int = 8) -> NeuralRanker:
    rng = np.random.default_rng(seed)
    known = WORDS[:-2]  # the last two have no vector
    embedding = Embedding(known, rng.normal(size=(len(known), 6)).astype(np.float32))
    settings = CKnrmStarSettings(n_filters=n_filters, mask_exact=mask_exact)
    return NeuralRanker.initial(CKnrmStar(settings), embedding, seed=seed)


class World:
    def __init__(self, settings: PrivateRankingSettings = SETTINGS, *, seed: int = 0) -> None:
        self.documents = made_documents(seed=seed)
        self.texts = TermSequences.of(self.documents)
        self.ranker = made_ranker(seed=seed)
        self.settings = settings
        self.kernels = DocumentKernels.of(self.ranker, self.documents)
        self.keys: RankingKeys = find_keys(self.texts, self.ranker.embedding, settings)
        shape = (self.texts.n_documents, len(PRIOR_NAMES))
        self.priors: NDArray[np.float32] = np.random.default_rng(seed + 1).random(shape, "f4")
        self.trees = (
            TreeFeatures(self.texts, self.priors, settings.features) if settings.features else None
        )
        self.served = ServedFeatures(self.kernels, self.trees, self.keys, settings)
