"""FPDGD round by round: eq. 3.16 literally, centralised and batch PDGD, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import by_quantity, iid
from cloister.data.source import load_fold
from cloister.federate.fedavg import averaged, summed
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import Learner
from cloister.federate.local_training import RoundSums
from cloister.federate.population import Population
from cloister.lab.simulation.run import threads_limited
from cloister.measure.named import evaluate
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from federate import literal_round as literal
from federate.made_clients import (
    INFORMATIONAL,
    NAVIGATIONAL,
    PARTITIONS,
    PERFECT,
    divided,
    ragged,
    two_threads,
)

LINEAR = RankerSettings(n_features=5)
MLP = RankerSettings(kind="mlp", n_features=5, hidden=3)
makes = pytest.mark.parametrize("made_of", [LINEAR, MLP], ids=["linear", "mlp"])
NEAR = 1e-4


def trained(made_of: RankerSettings, seed: int) -> Ranker:
    weights = stream(seed, "test", "ranker").normal(size=made_of.n_parameters)
    return Ranker(made_of, weights.astype(np.float32))


def literal_round(
    population: Population, training: literal.Training, theta: np.ndarray
) -> list[literal.Contribution]:
    sent = [
        literal.train_client(view, c, theta, population.click_model, training)
        for c, view in enumerate(population.views)
    ]
    assume(min(each.margin for each in sent) > NEAR)
    return sent


# --- against the thesis


@makes
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), partition=st.sampled_from(PARTITIONS))
def test_three_rounds_are_algorithm_2(made_of: RankerSettings, seed: int, partition: str) -> None:
    population = Population(
        divided(ragged(seed), partition, seed=seed), INFORMATIONAL, page_length=4
    )
    pdgd = PdgdSettings(learning_rate=0.5, decay=0.95)
    ranker = trained(made_of, seed)
    learner = FPDGD(
        population, ranker, settings=FpdgdSettings(pdgd=pdgd, queries_per_round=2), seed=seed
    )
    theta = ranker.parameters.astype(float)
    for round in range(3):
        training = literal.Training(made_of, pdgd, 2, 4, seed=seed, round=round)
        sent = literal_round(population, training, theta)
        theta = literal.fedavg(sent)
        outcome = learner.step()
        pages = [page for each in sent for page in each.pages]
        np.testing.assert_allclose(learner.ranker.parameters, theta, rtol=5e-4, atol=5e-5)
        assert outcome.n_interactions == len(pages)
        assert outcome.ndcg == pytest.approx(np.mean([page.ndcg for page in pages]))
        assert outcome.max_rr == pytest.approx(np.mean([page.max_rr for page in pages]))
        assert outcome.clicks == pytest.approx(np.mean([sum(page.clicked) for page in pages]))
    assert learner.n_rounds == 3


@settings(max_examples=100)
@given(
    n=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
)
def test_averaging_is_equation_3_16(n: list[int], seed: int) -> None:
    rng = stream(seed, "test", "fedavg")
    theta = rng.normal(size=4)
    of_clients = rng.normal(size=(len(n), 4))
    weights = np.array(n) / sum(n)
    total = (np.array(n)[:, None] * (of_clients - theta)).sum(axis=0)
    sums = RoundSums(total[None], np.array([float(sum(n))]), 0.0, 0.0, 0.0)
    (found,) = averaged(theta[None], sums)
    np.testing.assert_allclose(found, weights @ of_clients, rtol=1e-10, atol=1e-12)


def test_model_from_which_nobody_began_stays_as_it_is() -> None:
    models = np.array([[1.0, 2.0], [3.0, 4.0]])
    sums = RoundSums(np.array([[2.0, 4.0], [0.0, 0.0]]), np.array([2.0, 0.0]), 0.0, 0.0, 0.0)
    assert averaged(models, sums).tolist() == [[2.0, 4.0], [3.0, 4.0]]


@makes
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_one_client_who_issues_all_queries_is_centralised_pdgd(
    made_of: RankerSettings, seed: int
) -> None:
    population = Population(iid(ragged(seed), 1), INFORMATIONAL, page_length=4)
    ranker = trained(made_of, seed)
    pdgd = PdgdSettings(learning_rate=0.3)
    learner = FPDGD(
        population, ranker, settings=FpdgdSettings(pdgd=pdgd, queries_per_round=12), seed=seed
    )
    learner.step()
    training = literal.Training(made_of, pdgd, 12, 4, seed=seed)
    (sent,) = literal_round(population, training, ranker.parameters.astype(float))
    np.testing.assert_allclose(learner.ranker.parameters, sent.parameters, rtol=5e-4, atol=5e-5)


@makes
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_batch_pdgd_adds_up_gradients_at_the_same_weights(
    made_of: RankerSettings, seed: int
) -> None:
    population = Population(iid(ragged(seed), 12), INFORMATIONAL, page_length=4)
    ranker = trained(made_of, seed)
    theta = ranker.parameters.astype(float)
    pdgd = PdgdSettings(learning_rate=0.3)
    chosen = FpdgdSettings(pdgd=pdgd, queries_per_round=1, aggregation="sum")
    learner = FPDGD(population, ranker, settings=chosen, seed=seed)
    learner.step()
    training = literal.Training(made_of, pdgd, 1, 4, seed=seed)
    pages = [each.pages[0] for each in literal_round(population, training, theta)]
    total = sum(literal.gradient(page, made_of, theta, pdgd) for page in pages)
    np.testing.assert_allclose(learner.ranker.parameters, theta + 0.3 * total, rtol=5e-4, atol=5e-5)


def test_batch_pdgd_adds_up_each_gradient_once_whoever_issued_the_query() -> None:
    population = Population(by_quantity(ragged(1), (1, 3)), INFORMATIONAL, page_length=4)
    ranker = trained(LINEAR, 1)
    theta = ranker.parameters.astype(float)
    pdgd = PdgdSettings(learning_rate=0.3)
    learner = FPDGD(
        population, ranker, settings=FpdgdSettings(pdgd=pdgd, aggregation="sum"), seed=3
    )
    learner.step()
    training = literal.Training(LINEAR, pdgd, page_length=4, one_step=True, seed=3)
    sent = [
        literal.train_client(view, c, theta, population.click_model, training)
        for c, view in enumerate(population.views)
    ]
    expected = theta + sum(each.difference for each in sent)
    np.testing.assert_allclose(learner.ranker.parameters, expected, rtol=1e-3, atol=1e-4)


def test_summing_ignores_weights() -> None:
    sums = RoundSums(np.array([[2.0, 4.0]]), np.array([2.0]), 0.0, 0.0, 0.0)
    assert summed(np.array([[1.0, 1.0]]), sums).tolist() == [[3.0, 5.0]]


# --- the same bits


@makes
@two_threads
def test_bits_are_the_same_for_one_thread_and_for_two(
    made_of: RankerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.federate.local_training._LITTLE_WORK", 0.0)
    population = Population(by_quantity(ragged(1), n_clients=300), NAVIGATIONAL)
    found = []
    for n in (1, 2):
        learner = FPDGD(
            population, trained(made_of, 1), settings=FpdgdSettings(participants=290), seed=5
        )
        with threads_limited(n):
            outcomes = [learner.step() for _ in range(5)]
        found.append((outcomes, learner.ranker.parameters.tobytes()))
    assert found[0] == found[1]


@makes
def test_equal_seeds_give_equal_rankers_and_others_do_not(made_of: RankerSettings) -> None:
    population = Population(iid(ragged(1), 30), NAVIGATIONAL)
    learners = [FPDGD(population, trained(made_of, 1), seed=seed) for seed in (1, 1, 2)]
    outcomes = [[learner.step() for _ in range(3)] for learner in learners]
    weights = [learner.ranker.parameters.tobytes() for learner in learners]
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert weights[0] == weights[1] != weights[2]


def test_participants_are_drawn_anew_in_every_round() -> None:
    # Client c issues 2^c queries, so the number of interactions tells who took part.
    population = Population(by_quantity(ragged(1), [2**c for c in range(8)]), PERFECT)
    learner = FPDGD(population, trained(LINEAR, 1), settings=FpdgdSettings(participants=3), seed=1)
    counts = [learner.step().n_interactions for _ in range(40)]
    assert {n.bit_count() for n in counts} == {3}
    assert np.bitwise_or.reduce(counts) == 2**8 - 1
    assert len(set(counts)) > 10


# --- learning, and where it stops


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_training_raises_offline_and_online_performance(kind: Any) -> None:
    fold = load_fold("world:features?queries=60&documents=15&features=8&nonlinearity=0&noise=0")
    population = Population(iid(fold.train, 60), click_model("perfect", 5))
    made_of = RankerSettings(kind=kind, n_features=8, hidden=4)
    learner: Learner = FPDGD(population, Ranker.initial(made_of, seed=1), seed=1)

    def offline() -> float:
        scores, rng = learner.ranker.score(fold.test.features), stream(1, "ties")
        values = evaluate(scores, fold.test, ["nDCG@10"], ties="random", rng=rng)
        return float(np.nanmean(values["nDCG@10"]))

    before = offline()
    seen = [learner.step().ndcg for _ in range(60)]
    assert offline() > before + 0.3
    assert np.mean(seen[-10:]) > np.mean(seen[:10]) + 0.1


def run(learner: Learner, n_rounds: int) -> None:
    for _ in range(n_rounds):
        learner.step()


@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_training_that_diverges_is_stopped_with_a_remedy(aggregation: Any) -> None:
    data = ragged(1)
    steep = replace(data, features=data.features * np.float32(1e37))
    chosen = FpdgdSettings(pdgd=PdgdSettings(learning_rate=1e30), aggregation=aggregation)
    population = Population(iid(steep, 20), INFORMATIONAL)
    learner = FPDGD(population, Ranker.initial(LINEAR), settings=chosen, seed=1)
    with pytest.raises(DataError, match="training diverged") as caught:
        run(learner, 20)
    assert "learning rate" in caught.value.remedy
    assert np.isfinite(learner.ranker.parameters).all()


def test_client_rankers_are_one_for_all() -> None:
    learner = FPDGD(Population(iid(ragged(1), 4), PERFECT), trained(LINEAR, 1), seed=1)
    learner.step()
    rankers = learner.client_rankers()
    assert len(rankers.rankers) == 1
    assert rankers.of_client.tolist() == [0, 0, 0, 0]
    assert (rankers.rankers[0].parameters == learner.ranker.parameters).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"queries_per_round": 0},
        {"participants": 0},
        {"proximal": -0.1},
        {"aggregation": "median"},
        {"paper_noise": {"epsilon": 1.0}, "aggregation": "sum"},
        {"pdgd": {"learning_rate": 0}},
        {"pdgd": {"decay": 1.1}},
        {"mu": 1},
    ],
    ids=lambda wrong: ", ".join(wrong),
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    last = next(iter(wrong.values()))
    named = next(iter(last)) if isinstance(last, dict) and "pdgd" in wrong else next(iter(wrong))
    with pytest.raises(SettingsError, match=named):
        FpdgdSettings(**wrong)


@pytest.mark.parametrize("n_features", [4, 6])
def test_ranker_of_another_number_of_features_is_refused(n_features: int) -> None:
    ranker = Ranker.initial(RankerSettings(n_features=n_features))
    learner = FPDGD(Population(iid(ragged(1), 2), PERFECT), ranker, seed=1)
    with pytest.raises(SettingsError, match=f"ranker reads {n_features} features, the data has 5"):
        learner.step()
