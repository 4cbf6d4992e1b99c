"""How much a ranker shows of a promoted target, and what promotion costs everybody else."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cloister.adversary.poisoning.promotion import Target
from cloister.core.random import stream
from cloister.measure.mean import mean
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.measure.reciprocal_rank import reciprocal_rank
from cloister.rank.ranker import Ranker

__all__ = ["Exposure", "Promoted", "exposure", "promoted"]

CUTOFF: Final = 10  # results of a page


class Exposure(NamedTuple):
    """How well a target is seen, over the queries among whose candidates it is.

    Where a query has several of its rows, the one ranked best counts.

    Parameters
    ----------
    n_queries
        How many queries have the target.
    top_share
        In how many of them it is on the first page, as a share.
    reciprocal_rank
        The mean of 1 / rank.
    rank
        The mean rank, from 1.
    """

    n_queries: int
    top_share: float
    reciprocal_rank: float
    rank: float


class Promoted(NamedTuple):
    """What a promotion reached, and its cost: a target's exposure and nDCG@10, twice."""

    before: Exposure
    after: Exposure
    ndcg_before: float
    ndcg_after: float

    @property
    def top_share_gained(self) -> float:
        """How much the share of first pages with the target has risen."""
        return self.after.top_share - self.before.top_share

    @property
    def ndcg_lost(self) -> float:
        """How much nDCG@10 has fallen."""
        return self.ndcg_before - self.ndcg_after


def exposure(ranker: Ranker, target: Target, *, k: int = CUTOFF, seed: int = 0) -> Exposure:
    """Measure how well a ranker shows a target.

    Parameters
    ----------
    ranker
        Ranks the candidates of each query of the target's data.
    target
        What is looked for.
    k
        Length of a page.
    seed
        Decides ties.

    Examples
    --------
    >>> from cloister.data.ranking_data import RankingData
    >>> from cloister.rank.ranker import RankerSettings
    >>> features = np.array([[1.0], [2.0], [3.0], [9.0]], np.float32)
    >>> data = RankingData(features, np.zeros(4, np.int8), np.array([0, 3, 4]))
    >>> ranker = Ranker(RankerSettings(n_features=1), np.ones(1, np.float32))
    >>> exposure(ranker, Target(data, np.array([1])), k=1)
    Exposure(n_queries=1, top_share=0.0, reciprocal_rank=0.5, rank=2.0)
    """
    data = target.data
    ranked = rank_labels(
        ranker.score(data.features),
        target.mask.astype(np.int8),
        data.offsets,
        ties="random",
        rng=stream(seed, "exposure ties"),
    )
    found = reciprocal_rank(ranked)[target.queries]
    ranks = np.rint(1 / found)
    return Exposure(
        len(found), float((ranks <= k).mean()), float(found.mean()), float(ranks.mean())
    )


def promoted(
    before: Ranker, after: Ranker, target: Target, *, k: int = CUTOFF, seed: int = 0
) -> Promoted:
    """Compare two rankers: trained without the attackers' doing, and with it.

    nDCG@10 is over all queries of the target's data that have something relevant.
    """
    return Promoted(
        exposure(before, target, k=k, seed=seed),
        exposure(after, target, k=k, seed=seed),
        _ndcg(before, target, seed),
        _ndcg(after, target, seed),
    )


def _ndcg(ranker: Ranker, target: Target, seed: int) -> float:
    data = target.data
    ranked = rank_labels(
        ranker.score(data.features),
        data.labels,
        data.offsets,
        depth=CUTOFF,
        ties="random",
        rng=stream(seed, "exposure ties"),
    )
    return mean(ndcg(ranked, k=CUTOFF))
