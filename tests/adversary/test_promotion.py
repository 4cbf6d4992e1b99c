"""Targeted promotion: targets, the two attacks, what they reach and what they cost."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.adversary.poisoning import (
    Promotion,
    Target,
    exposure,
    highest_in_feature,
    make_tampering,
    poisoned_views,
    promoted,
    with_promoting_clicks,
)
from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.letor_folder import FoldData
from cloister.data.partitions import ClientView, iid, iid_disjoint
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.population import Population
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules import make_rule
from cloister.federate.tampering import Sent
from cloister.rank.ranker import Ranker, RankerSettings
from measure import literal as literal_measures

FEATURE = 3  # of the world; its highest documents are seldom relevant


def small(seed: int = 1, n_queries: int = 12) -> RankingData:
    rng = stream(seed, "test promotion")
    lengths = rng.integers(0, 9, n_queries)
    lengths[0] = 5
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    features = rng.normal(size=(int(offsets[-1]), 4)).astype(np.float32)
    return RankingData(features, rng.integers(0, 3, len(features)).astype(np.int8), offsets)


def linear(weights: Any) -> Ranker:
    return Ranker(RankerSettings(n_features=len(weights)), np.array(weights, np.float32))


# Targets


def test_the_highest_of_a_feature_is_one_document_a_query() -> None:
    data = small()
    target = highest_in_feature(data, 2)
    for query in range(data.n_queries):
        values = data.features[data.rows(query), 2]
        chosen = [
            row for row in target.rows if data.rows(query).start <= row < data.rows(query).stop
        ]
        assert len(chosen) == (len(values) > 0)
        assert all(data.features[row, 2] == values.max() for row in chosen)
    assert target.queries.tolist() == np.flatnonzero(data.lengths > 0).tolist()
    assert np.flatnonzero(target.mask).tolist() == target.rows.tolist()


def test_targets_outside_the_data_are_refused() -> None:
    data = small()
    with pytest.raises(DataError):
        Target(data, np.array([data.n_rows]))
    with pytest.raises(DataError):
        Target(data, np.array([], np.int64))
    with pytest.raises(DataError):
        Target.named(data, ["nowhere"])
    with pytest.raises(SettingsError):
        highest_in_feature(data, 4)


# Exposure


@given(seed=st.integers(0, 200), k=st.integers(1, 6))
@settings(max_examples=30)
def test_exposure_is_what_counting_gives(seed: int, k: int) -> None:
    data, rng = small(seed), stream(seed, "test exposure")
    target = Target(data, rng.choice(data.n_rows, 6, replace=False))
    ranker = linear(rng.normal(size=4))
    scores = ranker.score(data.features)
    ranks = []
    for query in target.queries:
        rows = np.arange(data.n_rows)[data.rows(int(query))]
        order = sorted(rows, key=lambda row: -scores[row])
        ranks.append(min(1 + order.index(row) for row in target.rows if row in rows))
    found = exposure(ranker, target, k=k)
    assert found.n_queries == len(ranks)
    assert found.rank == pytest.approx(np.mean(ranks))
    assert found.reciprocal_rank == pytest.approx(np.mean([1 / rank for rank in ranks]))
    assert found.top_share == pytest.approx(np.mean([rank <= k for rank in ranks]))


def test_the_cost_of_promotion_is_lost_ndcg() -> None:
    data = small(3)
    before, after = linear([1.0, 0.5, 0.0, 0.0]), linear([0.0, 0.0, 1.0, 0.0])
    target = highest_in_feature(data, 2)
    found = promoted(before, after, target)
    assert found.after.rank == 1.0
    assert found.after.top_share == 1.0

    def ndcg(ranker: Ranker) -> float:
        values = []
        for query in range(data.n_queries):
            labels = data.labels[data.rows(query)]
            order = np.argsort(-ranker.score(data.features[data.rows(query)]))
            if labels.any():
                values.append(literal_measures.ndcg(labels[order].tolist(), 10))
        return float(np.mean(values))

    assert found.ndcg_before == pytest.approx(ndcg(before))
    assert found.ndcg_lost == pytest.approx(ndcg(before) - ndcg(after))


# By clicks


def test_promoting_attackers_want_the_target_and_search_for_it() -> None:
    data = small()
    row = int(data.offsets[-1]) - 1
    target = Target(data, np.array([row]))
    views = with_promoting_clicks(iid(data, 4), [0, 2], target, 3)
    for number in (0, 2):
        assert views[number].labels is not None
        assert np.flatnonzero(views[number].labels).tolist() == [row]
        assert views[number].labels[row] == 2
        assert views[number].click_models == (click_model("perfect", 3),)
        assert views[number].queries.tolist() == target.queries.tolist()
    assert views[1].labels is None
    assert views[1].queries is None
    assert views[0] is views[2]


def test_attackers_keep_to_the_documents_that_they_hold() -> None:
    data = small()
    whole = ClientView(
        data, queries=np.array([0, 0]), rows=np.array([0, 1, 3, 4]), offsets=np.array([0, 2, 4])
    )
    (view,) = with_promoting_clicks((whole,), [0], Target(data, np.array([4])), 3)
    assert view.queries.tolist() == [0]
    assert view.rows.tolist() == [3, 4]
    assert view.query_labels(0).tolist() == [0, 2]


def test_attackers_who_hold_no_target_keep_their_queries_and_click_on_nothing() -> None:
    data = small()
    views = iid_disjoint(data, 3, seed=1)
    target = Target(data, np.array([0]))
    changed = with_promoting_clicks(views, range(3), target, 3)
    for before, after in zip(views, changed, strict=True):
        if 0 not in before.queries:
            assert after.queries.tolist() == before.queries.tolist()
            assert not any(after.query_labels(i).any() for i in range(after.n_queries))


def test_targets_of_other_data_are_refused() -> None:
    with pytest.raises(DataError):
        with_promoting_clicks(iid(small(1), 2), [0], highest_in_feature(small(2), 1), 3)


# By model


def test_the_push_goes_from_competitors_to_the_target() -> None:
    data = small()
    target = highest_in_feature(data, 1)
    attack = Promotion(attackers=[0, 1], seed=1, target=target, boost=2.5)
    total = np.zeros(4)
    for query in range(data.n_queries):
        rows = range(data.rows(query).start, data.rows(query).stop)
        wanted = [data.features[row].astype(float) for row in rows if row in target.rows]
        others = [data.features[row].astype(float) for row in rows if row not in target.rows]
        if wanted and others:
            total += np.mean(wanted, axis=0) - np.mean(others, axis=0)
    updates = stream(1, "test").normal(size=(5, 4))
    arrived = attack.tampered(Sent(updates, np.arange(5), np.zeros(4), 0))
    length = 2.5 * np.mean([np.linalg.norm(update) for update in updates[:2]])
    for row in arrived[:2]:
        np.testing.assert_allclose(row, length * total / np.linalg.norm(total), atol=1e-7)


def test_a_neural_ranker_cannot_be_pushed_along_features() -> None:
    attack = Promotion(attackers=[0], seed=1, target=highest_in_feature(small(), 1))
    with pytest.raises(SettingsError, match="no linear ranker"):
        attack.tampered(Sent(np.ones((2, 9)), np.arange(2), np.zeros(9), 0))
    alone = Target(RankingData(np.eye(2), np.zeros(2, np.int8), np.arange(3)), np.array([0]))
    with pytest.raises(DataError, match="competitors"):
        Promotion(attackers=[0], seed=1, target=alone)


# A small federation


@cache
def world() -> FoldData:
    return load_fold("world:features?queries=150&documents=30&features=12&seed=3")


@cache
def trained(attack: str, rule: str = "fedavg", boost: float = 1.0, n_rounds: int = 200) -> Ranker:
    train = world().train
    target = highest_in_feature(train, FEATURE)
    views, tampering = iid(train, 10), None
    if attack:
        views = poisoned_views(attack, views, range(3), 5, target=target)
        tampering = make_tampering(attack, attackers=range(3), seed=1, target=target)
    if tampering is not None:
        tampering = Promotion(attackers=range(3), seed=1, target=target, boost=boost)
    learner = RobustFPDGD(
        Population(views, click_model("navigational", 5)),
        Ranker.initial(RankerSettings(n_features=12)),
        rule=make_rule(rule, n_attackers=0 if rule == "fedavg" else 3),
        tampering=tampering,
        settings=FpdgdSettings(queries_per_round=4),
        seed=1,
    )
    for _ in range(n_rounds):
        learner.step()
    return learner.ranker


@pytest.mark.parametrize("attack", ["promote-clicks", "promote-model"])
def test_promotion_raises_exposure_on_unseen_queries_and_costs_quality(attack: str) -> None:
    target = highest_in_feature(world().test, FEATURE)
    found = promoted(trained(""), trained(attack), target)
    assert found.top_share_gained > 0.2
    assert found.after.reciprocal_rank > 1.5 * found.before.reciprocal_rank
    assert found.after.rank < found.before.rank - 3
    assert 0.005 < found.ndcg_lost < 0.4


def test_a_boost_reaches_more_where_nobody_defends_and_nothing_against_krum() -> None:
    target = highest_in_feature(world().test, FEATURE)
    plain = exposure(trained("promote-model"), target)
    boosted = exposure(trained("promote-model", boost=10.0), target)
    assert boosted.reciprocal_rank > plain.reciprocal_rank
    honest = exposure(trained("", "krum"), target)
    defended = exposure(trained("promote-model", "krum", 10.0), target)
    assert abs(defended.top_share - honest.top_share) < 0.15


def test_krum_chooses_attackers_who_agree_with_each_other() -> None:
    target = highest_in_feature(world().test, FEATURE)
    found = promoted(trained("", "krum"), trained("promote-model", "krum"), target)
    assert found.after.top_share > 0.95


def test_a_slow_push_stays_within_the_distance_that_the_adaptive_rule_lets_pass() -> None:
    target = highest_in_feature(world().train, FEATURE)
    attack = make_tampering("promote-slowly", attackers=range(3), seed=1, target=target)
    rng = np.random.default_rng(1)
    updates = rng.normal(0.1, 0.3, (10, world().train.n_features))
    sent = Sent(updates, clients=np.arange(10), model=np.zeros(updates.shape[1]), round=0)
    moved = attack.tampered(sent) - updates
    usual = np.linalg.norm(updates - updates.mean(axis=0), axis=1).mean()
    assert (np.linalg.norm(moved[:3], axis=1) < 0.2 * usual).all()
    assert (moved[:3] @ attack.direction > 0).all()
    assert not moved[3:].any()
