"""Small labelled data sets for the tests of rankers."""

from __future__ import annotations

import numpy as np

from cloister.data.ranking_data import RankingData


def made_data(
    seed: int = 0, *, n_queries: int = 20, n_features: int = 4, n_grades: int = 3
) -> RankingData:
    """Queries of 1 to 12 documents whose grades follow a noisy linear score."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 13, n_queries)
    features = rng.normal(size=(lengths.sum(), n_features))
    truth = np.linspace(1, -1, n_features)
    score = features @ truth + rng.normal(size=len(features))
    labels = np.clip(np.floor(score + n_grades / 2), 0, n_grades - 1).astype(np.int8)
    return RankingData(features, labels, np.concatenate([[0], np.cumsum(lengths)]))
