"""The canary: exact under the null, strong before forgetting, harmless to the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import binom, rankdata

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.canary import (
    Mark,
    Marking,
    _ranks,
    draw_mark,
    marked,
    presence,
    quiet_directions,
)
from cloister.federate.population import Population
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Sent
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import MemoryUpdateStore
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import ragged

RANKERS = {
    "normal": stream(1, "test", "ranker").normal(size=12),
    "one large part": np.array([1e6] + [1e-3] * 11),
    "ties": np.ones(12),
    "mostly nothing": np.array([0.5, -0.5] + [0.0] * 10),
}


@pytest.mark.parametrize("name", RANKERS)
def test_p_values_of_marks_that_nobody_used_are_no_smaller_than_chance(name: str) -> None:
    rng = stream(2, "test", name)
    p_values = np.array(
        [
            presence(RANKERS[name], draw_mark(np.eye(12), rng=rng), rng=rng, n_draws=199)
            for _ in range(3000)
        ]
    )
    for level in (0.005, 0.05, 0.1, 0.5):
        most = binom.ppf(0.9999, len(p_values), level)
        assert np.count_nonzero(p_values <= level) <= most
    if name == "normal":  # few ties: uniform, not only conservative
        for level in (0.05, 0.5):
            least = binom.ppf(0.0001, len(p_values), level * 0.9)
            assert np.count_nonzero(p_values <= level) >= least


def test_a_ranker_without_any_part_in_the_directions_tells_nothing() -> None:
    mark = draw_mark(np.eye(4)[:2], rng=stream(1, "test"))
    ranker = np.array([0.0, 0.0, 3.0, 4.0])
    assert presence(ranker, mark, rng=stream(2, "test")) == 1.0


def test_the_least_p_value_is_that_of_the_draws() -> None:
    mark = draw_mark(np.eye(64), rng=stream(1, "test"))
    assert presence(mark.vector, mark, rng=stream(2, "test"), n_draws=999) == 1 / 1000
    assert presence(-mark.vector, mark, rng=stream(2, "test"), n_draws=999) == 1.0


@given(arrays(np.float64, 9, elements=st.sampled_from([0.0, 0.25, 1.0, 2.0, 2.5, 7.0])))
def test_ranks_are_scipys_and_nothing_counts_nothing(values: NDArray[np.float64]) -> None:
    assert np.array_equal(_ranks(values), np.where(values > 0, rankdata(values), 0.0))


@given(
    arrays(np.float64, 6, elements=st.floats(-1e3, 1e3, allow_subnormal=False)),
    st.floats(0, 2),
    st.integers(0, 100),
)
def test_a_mark_has_the_length_that_was_asked_for(
    update: NDArray[np.float64], size: float, seed: int
) -> None:
    mark = draw_mark(np.linalg.qr(np.arange(36.0).reshape(6, 6) ** 2 + np.eye(6))[0][:4],
                     rng=stream(seed, "test"))  # fmt: skip
    added = marked(update, mark, size=size) - update
    np.testing.assert_allclose(
        np.linalg.norm(added), size * np.linalg.norm(update), rtol=1e-6, atol=1e-9
    )


def test_only_the_client_itself_is_marked() -> None:
    mark = draw_mark(np.eye(3), rng=stream(1, "test"))
    sent = Sent(np.ones((3, 3)), np.array([2, 5, 7]), np.zeros(3), 0)
    arrived = Marking(5, mark, size=0.1).tampered(sent)
    assert np.array_equal(arrived[[0, 2]], sent.updates[[0, 2]])
    assert np.array_equal(arrived[1], marked(sent.updates[1], mark, size=0.1))
    assert np.array_equal(sent.updates, np.ones((3, 3)))


def test_quiet_directions_are_orthogonal_and_vary_least() -> None:
    data = ragged(3, n_queries=20)
    scatter = np.zeros((5, 5))
    for query in range(data.n_queries):
        block = data.features[data.rows(query)].astype(np.float64)
        if len(block):
            centred = block - block.mean(axis=0)
            scatter += centred.T @ centred
    found = quiet_directions(data, 5)
    np.testing.assert_allclose(found @ found.T, np.eye(5), atol=1e-12)
    spread = np.einsum("ij,jk,ik->i", found, scatter, found)
    np.testing.assert_allclose(spread, np.linalg.eigvalsh(scatter), rtol=1e-9)


def test_a_mark_on_features_that_are_constant_in_a_query_changes_no_ranking() -> None:
    data = ragged(3, n_queries=20, n_features=7)
    features = data.features.copy()
    for query in range(data.n_queries):
        features[data.rows(query), 2:4] = query
    data = RankingData(features, data.labels, data.offsets)
    mark = draw_mark(quiet_directions(data, 2), rng=stream(1, "test"))
    weights = stream(1, "test", "weights").normal(size=7)
    scores = [features @ ranker for ranker in (weights, marked(weights, mark, size=3.0))]
    for query in range(data.n_queries):
        rows = data.rows(query)
        shift = scores[1][rows] - scores[0][rows]
        np.testing.assert_allclose(shift, shift.mean() if len(shift) else 0.0, atol=1e-9)


def test_a_real_clients_signs_come_from_the_system() -> None:
    signs = [draw_mark(np.eye(100)).signs for _ in range(2)]
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert not np.array_equal(signs[0], signs[1])


def test_the_mark_shows_before_and_not_after_unlearning() -> None:
    world = load_fold("world:features?queries=100&documents=20&features=32").train
    narrow = np.where(np.arange(32) % 2, 0.1, 1.0).astype(np.float32)  # half of them are quiet
    train = RankingData(world.features * narrow, world.labels, world.offsets)
    population = Population(iid(train, 10), click_model("perfect", 5))
    first = Ranker.initial(RankerSettings(n_features=32))
    directions = quiet_directions(train, 16)
    before, after, projected = [], [], []
    for seed in range(8):
        mark = draw_mark(directions, rng=stream(seed, "test", "mark"))
        store = MemoryUpdateStore(keep_every=10)
        learner = RobustFPDGD(
            population,
            first,
            rule=WeightedMean(),
            tampering=Marking(9, mark, size=0.2),
            observers=[store],
            seed=seed,
        )
        for _ in range(400):
            learner.step()
        eraser = FedEraser(
            population,
            first,
            history=store.kept_rounds(),
            forgotten=[9],
            seed=unlearning_seed(seed, [9]),
        )
        rng = stream(seed, "test", "draws")
        before.append(presence(learner.ranker.parameters, mark, rng=rng))
        after.append(presence(eraser.run().parameters, mark, rng=rng))
        noise = 1e-3 * stream(seed, "test", "noise").normal(size=32)
        weights = learner.ranker.parameters.astype(np.float64)
        weights = weights - weights @ directions.T @ directions + noise
        projected.append(presence(weights, mark, rng=rng))
        scores = [train.features @ one for one in (weights, learner.ranker.parameters)]
        assert np.corrcoef(scores)[0, 1] > 0.9
    assert max(before) < 0.02
    assert np.median(after) > 0.1
    # What the documentation warns of: who has features can take the mark out and keep the rest.
    assert np.median(projected) > 0.1


def test_wrong_settings_are_refused() -> None:
    mark = Mark(np.eye(2), np.ones(2))
    with pytest.raises(SettingsError, match="number of features"):
        quiet_directions(ragged(1), 6)
    with pytest.raises(SettingsError, match="at least 0"):
        marked(np.ones(2), mark, size=-1.0)
    for wrong in (np.ones(3), np.array([1.0, np.nan])):
        with pytest.raises(DataError, match="finite parameters"):
            presence(wrong, mark, rng=stream(1, "test"))
