from __future__ import annotations

import numpy as np
import pytest

from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.cloud.private_ranker_training import (
    CandidateLists,
    PrivateRankerTraining,
    cross_fitted_signal,
    fit_private_ranker,
)
from cloister.cloud.served_features import served_scores
from cloister.core.errors import DataError
from cloister.data.ranking_data import RankingData
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.rank.forest import ForestSettings
from cloister.rank.kernel_ranker import KernelRankerSettings
from cloister.rank.layer_fitting import LayerSettings
from cloister.rank.query_length_forests import QueryLengthForestSettings, fit_query_length_forests
from cloud.private_ranking_world import SETTINGS, WORDS, World

pytest.importorskip("lightgbm")

FORESTS = QueryLengthForestSettings(
    longest=2, min_queries=10, forest=ForestSettings(n_trees=8, n_leaves=4, min_leaf_rows=5)
)
HOW = PrivateRankerTraining(
    forests=FORESTS,
    n_parts=3,
    layer=LayerSettings(
        n_seeds=1,
        fit=KernelRankerSettings(n_epochs=4, l2=0.1),
        balance=KernelRankerSettings(n_epochs=4, l2=0.3),
    ),
)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def made_lists(world: World, n: int, seed: int) -> CandidateLists:
    """A document is relevant if it holds the query's words often."""
    rng = np.random.default_rng(seed)
    queries = [rng.choice(WORDS[:12], rng.integers(1, 4), replace=False).tolist() for _ in range(n)]
    candidates = [rng.choice(40, 12, replace=False) for _ in queries]
    counts = world.texts.counts
    grades = [
        np.minimum(counts.term_counts(q, c).sum(axis=0) // 2, 2).astype(np.int8)
        for q, c in zip(queries, candidates, strict=True)
    ]
    return CandidateLists(queries, candidates, grades)


def mean_ndcg(scores: np.ndarray, data: RankingData) -> float:
    return float(np.nanmean(ndcg(rank_labels(scores, data.labels, data.offsets, depth=10), k=10)))


def test_a_trained_ranker_ranks_other_queries_by_what_is_served(world: World) -> None:
    training, validation = made_lists(world, 40, 1), made_lists(world, 15, 2)
    ranker = fit_private_ranker(
        world.texts, world.priors, world.ranker, training, SETTINGS, HOW, validation=validation
    )
    assert ranker.n_features == 31
    test = made_lists(world, 30, 3)
    rows = test.rows(world.served.soft)
    scores = [served_scores(ranker, world.served, q, c) for q, c in zip(*test[:2], strict=True)]
    found = mean_ndcg(np.concatenate(scores), rows)
    chance = np.mean(
        [mean_ndcg(np.random.default_rng(i).random(rows.n_rows), rows) for i in range(9)]
    )
    assert found > chance + 0.15


def test_one_seed_gives_one_ranker_and_another_seed_another(world: World) -> None:
    training = made_lists(world, 25, 1)
    fitted = [
        fit_private_ranker(
            world.texts, world.priors, world.ranker, training, SETTINGS, HOW, seed=seed
        )
        for seed in (5, 5, 6)
    ]
    weights = [ranker.layer.weights.tolist() for ranker in fitted]
    assert weights[0] == weights[1] != weights[2]


def test_without_tree_features_there_are_no_forests(world: World) -> None:
    settings = SETTINGS.model_copy(
        update={"features": None, "obfuscation": KernelObfuscation(base=5)}
    )
    training = made_lists(world, 10, 1)
    ranker = fit_private_ranker(world.texts, None, world.ranker, training, settings, HOW)
    assert ranker.forests is None
    assert ranker.layer.n_features == 30


def test_the_signal_of_a_query_does_not_depend_on_its_own_grades(world: World) -> None:
    lists = made_lists(world, 12, 4)
    trees = lists.rows(world.served.tree_rows)
    before = cross_fitted_signal(trees, lists.n_terms, FORESTS, 3, seed=1)
    own = trees.rows(5)
    labels = trees.labels.copy()
    labels[own] = 2 - labels[own]
    changed = RankingData(trees.features, labels, trees.offsets)
    after = cross_fitted_signal(changed, lists.n_terms, FORESTS, 3, seed=1)
    assert after[own].tolist() == before[own].tolist()
    assert after.tolist() != before.tolist()  # others' signals do


def test_the_signal_is_less_sure_than_that_of_forests_that_saw_the_grades(world: World) -> None:
    rng = np.random.default_rng(0)
    lists = made_lists(world, 40, 4)
    noise = [rng.permutation(grades) for grades in lists.grades]  # nothing can be learnt
    trees = lists._replace(grades=noise).rows(world.served.tree_rows)
    seen = fit_query_length_forests(trees, lists.n_terms, FORESTS).score_rows(trees, lists.n_terms)
    unseen = cross_fitted_signal(trees, lists.n_terms, FORESTS, 4)
    assert mean_ndcg(seen, trees) > mean_ndcg(unseen, trees) + 0.1


def test_lists_that_do_not_fit_together_are_refused(world: World) -> None:
    lists = made_lists(world, 3, 0)
    for broken in (
        lists._replace(grades=lists.grades[:2]),
        lists._replace(grades=[lists.grades[0][:-1], *lists.grades[1:]]),
        lists._replace(queries=lists.queries[:2]),
        CandidateLists([], [], []),
    ):
        with pytest.raises(DataError):
            broken.rows(world.served.soft)
    one = lists.rows(world.served.tree_rows)
    alone = RankingData(one.features[:12], one.labels[:12], one.offsets[:2])
    with pytest.raises(DataError, match="two queries"):
        cross_fitted_signal(alone, lists.n_terms[:1], FORESTS)
