from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import pytest

from cloister.core.counter_random import new_stream
from cloister.core.errors import DataError, SettingsError
from cloister.data.clicks import click_model, draw_clicks
from cloister.data.partitions import (
    ClientView,
    Views,
    by_click_behaviour,
    by_document_preference,
    by_label,
    by_quantity,
    iid,
    mixed_click_behaviour,
)
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.evolution import EvolutionStrategies
from cloister.federate.evolution_kernel import INTERACTION_PURPOSE
from cloister.federate.learner import Learner
from cloister.federate.population import Population
from cloister.measure.named import evaluate
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.privacy.release import Release
from cloister.rank.evolution_strategies import (
    EvolutionSettings,
    draw_below,
    estimate_gradient,
    perturbation,
    randomised_response,
    stochastic_level,
)
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import INFORMATIONAL, ragged

WORLD = "world:features?queries=60&documents=15&features=6"
PERFECT = click_model("perfect", 5)
NAVIGATIONAL = click_model("navigational", 5)

# With these Adam adds the gradient itself: rate * g / (|g| + epsilon), both numbers large.
PLAIN_STEP: dict[str, Any] = {
    "learning_rate": 1e9,
    "adam_epsilon": 1e9,
    "beta1": 0.0,
    "beta2": 0.0,
}


def world(address: str = WORLD) -> RankingData:
    return load_fold(address).train


def linear(population: Population, weights: Any = None) -> Ranker:
    ranker = Ranker.initial(RankerSettings(n_features=population.n_features))
    return ranker if weights is None else ranker.with_parameters(weights)


def offline(ranker: Ranker, data: RankingData) -> float:
    rng = np.random.default_rng(0)
    scores = ranker.score(data.features)
    return float(np.nanmean(evaluate(scores, data, ["nDCG@10"], ties="random", rng=rng)["nDCG@10"]))


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(n)
    try:
        yield
    finally:
        numba.set_num_threads(before)


# --- one round against a literal reading


def literal_ndcg(shown: np.ndarray, all_labels: np.ndarray, k: int) -> float:
    def dcg(labels: np.ndarray) -> float:
        return sum((2.0**r - 1) / math.log2(i + 2) for i, r in enumerate(labels[:k]))

    ideal = dcg(np.sort(all_labels)[::-1])
    return dcg(shown) / ideal if ideal > 0 else 0.0


def literal_interaction(
    view: ClientView,
    population: Population,
    settings: EvolutionSettings,
    model: Ranker,
    stream: Any,
) -> tuple[float, float, float, int]:
    """Return the privatised reward, nDCG, MaxRR and the number of clicks."""
    k = population.page_length
    query = draw_below(stream, view.n_queries)
    features = view.data.features[view.query_rows(query)]
    labels = view.query_labels(query)
    shown = labels[np.argsort(-model.score(features), kind="stable")[:k]]
    user = population.click_model
    if len(view.click_models) == 1:
        user = view.click_models[0]
    elif view.click_models:
        user = view.click_models[draw_below(stream, len(view.click_models))]
    clicked = np.zeros(k, np.bool_)
    draw_clicks(shown, len(shown), *user.table(k), stream, clicked)
    ranks = np.flatnonzero(clicked) + 1
    max_rr = 1 / ranks[0] if len(ranks) else 0.0
    ndcg = literal_ndcg(shown, labels, 10)
    values = settings.reward_values(k).tolist()
    reward = max_rr if settings.reward == "max_rr" else ndcg
    if settings.keep_probability < 1:
        number = (
            values.index(max_rr)
            if settings.reward == "max_rr"
            else stochastic_level(ndcg, len(values), stream)
        )
        keep = settings.keep_probability
        reward = values[randomised_response(number, len(values), keep, stream)]
    return reward, ndcg, max_rr, len(ranks)


def literal_round(
    population: Population, ranker: Ranker, settings: EvolutionSettings, n: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient as the server finds it from the messages, and the online means."""
    normals, signals, weights, seen = [], [], [], []
    for client, view in enumerate(population.views):
        normal = perturbation(len(ranker.parameters), seed=seed, round=0, client=client)
        stream = new_stream(seed, client=client, purpose=INTERACTION_PURPOSE)
        n_own = view.queries_per_round or n
        n_plus = -(-n_own // 2) if settings.antithetic else n_own
        rewards = []
        for i in range(n_own):
            sign = 1 if i < n_plus else -1
            model = ranker.with_parameters(
                ranker.parameters + np.float32(sign * settings.sigma) * normal
            )
            reward, *online = literal_interaction(view, population, settings, model, stream)
            rewards.append(reward)
            seen.append(online)
        signal = np.mean(rewards[:n_plus])
        if n_own > n_plus:
            signal = (signal - np.mean(rewards[n_plus:])) / 2
        normals.append(normal)
        signals.append(signal)
        weights.append(n_own)
    gradient = estimate_gradient(normals, signals, sigma=settings.sigma, weights=weights)
    return gradient, np.mean(seen, axis=0)


def partitions() -> dict[str, Views]:
    data = world("world:features?queries=60&documents=13&features=5")
    users = [PERFECT, NAVIGATIONAL, click_model("pbm-1", 5)]
    intents = np.random.default_rng(1).integers(0, 3, (data.n_rows, 2))
    return {
        "iid": iid(data, 7),
        "quantity": by_quantity(data),
        "label": by_label(data, n_labels_per_client=2, seed=1),
        "click": by_click_behaviour(data, users),
        "mixed": mixed_click_behaviour(data, users, 6),
        "document": by_document_preference(data, intents, seed=1),
    }


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize(
    "settings",
    [
        EvolutionSettings(sigma=0.3, **PLAIN_STEP),
        EvolutionSettings(sigma=0.3, keep_probability=0.5, **PLAIN_STEP),
        EvolutionSettings(sigma=0.3, reward="ndcg", antithetic=False, **PLAIN_STEP),
        EvolutionSettings(sigma=0.3, reward="ndcg", keep_probability=0.7, **PLAIN_STEP),
    ],
)
def test_round_is_that_of_a_literal_reading(kind: Any, settings: EvolutionSettings) -> None:
    for name, views in partitions().items():
        population = Population(views, NAVIGATIONAL, page_length=6)
        # A rectifier would give equal scores, whose order is drawn.
        shape = RankerSettings(kind=kind, n_features=5, hidden=3, activation="sigmoid")
        weights = np.random.default_rng(2).normal(size=shape.n_parameters)
        ranker = Ranker(shape, weights)
        learner = EvolutionStrategies(
            population=population, ranker=ranker, settings=settings, queries_per_round=5, seed=11
        )
        outcome = learner.step()
        gradient, online = literal_round(population, ranker, settings, 5, 11)
        change = learner.ranker.parameters - ranker.parameters
        np.testing.assert_allclose(change, gradient, atol=2e-6, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(outcome[1:], online, rtol=1e-9, err_msg=name)
        assert outcome.n_interactions == population.n_interactions(5).sum()


# --- the same bits


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_bits_are_the_same_with_one_thread_and_with_two(kind: Any) -> None:
    population = Population(iid(world(), 300), NAVIGATIONAL)
    found = []
    for n in (1, 2):
        ranker = Ranker.initial(RankerSettings(kind=kind, n_features=6, hidden=10))
        settings = EvolutionSettings(keep_probability=0.9)
        learner = EvolutionStrategies(
            population=population, ranker=ranker, settings=settings, participants=211, seed=3
        )
        with threads(n):
            outcomes = [learner.step() for _ in range(5)]
        found.append((outcomes, learner.ranker.parameters.tobytes()))
    assert found[0] == found[1]


def test_another_seed_gives_another_ranker() -> None:
    population = Population(iid(world(), 20), PERFECT)
    learners = [
        EvolutionStrategies(population=population, ranker=linear(population), seed=seed)
        for seed in (1, 1, 2)
    ]
    outcomes = [learner.step() for learner in learners]
    weights = [learner.ranker.parameters for learner in learners]
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()


def test_twice_sigma_and_learning_rate_give_exactly_twice_the_weights() -> None:
    population = Population(iid(world(), 50), NAVIGATIONAL)
    weights, outcomes = [], []
    for scale in (1.0, 2.0):
        settings = EvolutionSettings(
            sigma=0.25 * scale, learning_rate=0.125 * scale, adam_epsilon=1e-100
        )
        learner = EvolutionStrategies(
            population=population, ranker=linear(population), settings=settings
        )
        outcomes.append([learner.step() for _ in range(10)])
        weights.append(learner.ranker.parameters)
    assert outcomes[0] == outcomes[1]
    assert (2 * weights[0] == weights[1]).all()


# --- learning


@pytest.mark.parametrize(
    ("kind", "fields", "gain"),
    [
        ("linear", {}, 0.10),
        ("linear", {"keep_probability": 0.5}, 0.08),
        ("linear", {"reward": "ndcg"}, 0.10),
        ("linear", {"reward": "ndcg", "keep_probability": 0.9}, 0.10),
        ("linear", {"antithetic": False}, 0.05),
        ("mlp", {}, 0.08),
    ],
)
def test_learning_raises_offline_ndcg(kind: Any, fields: dict[str, Any], gain: float) -> None:
    fold = load_fold("world:features?queries=100&documents=20&features=8")
    population = Population(iid(fold.train, 500), PERFECT)
    ranker = Ranker.initial(RankerSettings(kind=kind, n_features=8, hidden=10))
    ranker = ranker.with_parameters(np.zeros_like(ranker.parameters))
    learner = EvolutionStrategies(
        population=population, ranker=ranker, settings=EvolutionSettings(**fields), seed=1
    )
    outcomes = [learner.step() for _ in range(100)]
    before, after = offline(ranker, fold.test), offline(learner.ranker, fold.test)
    assert after > before + gain
    first, last = outcomes[:10], outcomes[-10:]
    assert np.mean([o.ndcg for o in last]) > np.mean([o.ndcg for o in first])
    assert np.mean([o.max_rr for o in last]) > np.mean([o.max_rr for o in first])


def test_rewards_that_are_almost_always_replaced_teach_less() -> None:
    fold = load_fold("world:features?queries=100&documents=20&features=8")
    population = Population(iid(fold.train, 200), PERFECT)
    found = []
    for keep in (0.1, 1.0):
        learner = EvolutionStrategies(
            population=population,
            ranker=linear(population),
            settings=EvolutionSettings(keep_probability=keep),
        )
        for _ in range(60):
            learner.step()
        found.append(offline(learner.ranker, fold.test))
    assert found[0] < found[1] - 0.05


def test_learning_raises_offline_ndcg_on_mq2008(real_data: Any) -> None:
    fold = load_fold(str(real_data("ltr/mq2008")))
    population = Population(iid(fold.train, 1000), click_model("navigational", 3))
    learner = EvolutionStrategies(population=population, ranker=linear(population))
    before = offline(learner.ranker, fold.test)
    for _ in range(60):
        learner.step()
    assert offline(learner.ranker, fold.test) > max(before + 0.1, 0.67)


# --- edges


def flat_data(labels: list[int], n_queries: int = 3) -> RankingData:
    """Queries whose documents nobody can tell apart."""
    n = len(labels)
    features = np.ones((n * n_queries, 2), np.float32)
    return RankingData(
        features, np.array(labels * n_queries, np.int8), np.arange(n_queries + 1) * n
    )


def one_step(data: RankingData, n_clients: int = 50, **fields: Any) -> tuple[Any, np.ndarray]:
    population = Population(iid(data, n_clients), PERFECT)
    learner = EvolutionStrategies(
        population=population, ranker=linear(population), settings=EvolutionSettings(**fields)
    )
    return learner.step(), learner.ranker.parameters


def test_queries_of_one_document_teach_nothing() -> None:
    outcome, weights = one_step(flat_data([4]))
    assert outcome == (200, 1.0, 1.0, 1.0)
    assert (weights == 0).all()


def test_pages_without_a_click_teach_nothing() -> None:
    outcome, weights = one_step(flat_data([0, 0, 0]))
    assert outcome == (200, 0.0, 0.0, 0.0)
    assert (weights == 0).all()


def test_pages_on_which_all_is_clicked_teach_nothing() -> None:
    outcome, weights = one_step(flat_data([4, 4, 4]))
    assert outcome == (200, 1.0, 1.0, 3.0)
    assert (weights == 0).all()


def test_equal_scores_are_ranked_in_random_order() -> None:
    n, n_documents = 5000, 14
    outcome, _ = one_step(flat_data([4] + [0] * (n_documents - 1)), n_clients=n)
    # The only relevant document is at each of 14 ranks alike, and clicked if it is on the page.
    chances = np.array([1 / rank for rank in range(1, 11)] + [0.0] * 4)
    assert abs(outcome.max_rr - chances.mean()) < 5 * chances.std() / math.sqrt(4 * n)
    shown = math.sqrt(10 / 14 * 4 / 14 / (4 * n))
    assert abs(outcome.clicks - 10 / 14) < 5 * shown


def test_one_client_with_one_interaction_learns() -> None:
    data = world()
    population = Population(iid(data, 1), PERFECT)
    learner = EvolutionStrategies(
        population=population, ranker=linear(population), queries_per_round=1
    )
    n_interactions = sum(learner.step().n_interactions for _ in range(20))
    assert n_interactions == 20
    assert learner.ranker.parameters.any()


def test_participants_are_drawn_anew_each_round() -> None:
    data = world()
    # Client c issues 2^c queries, so the number of interactions tells who took part.
    views = by_quantity(data, [2**c for c in range(10)])
    population = Population(views, PERFECT)
    learner = EvolutionStrategies(population=population, ranker=linear(population), participants=3)
    counts = [learner.step().n_interactions for _ in range(30)]
    assert {n.bit_count() for n in counts} == {3}
    assert np.bitwise_or.reduce(counts) == 2**10 - 1
    assert len(set(counts)) > 10


def test_learner_says_where_it_stands() -> None:
    population = Population(by_quantity(world()), PERFECT)
    learner: Learner = EvolutionStrategies(
        population=population,
        ranker=linear(population),
        settings=EvolutionSettings(keep_probability=0.5),
    )
    for _ in range(3):
        learner.step()
    rankers = learner.client_rankers()
    assert learner.n_rounds == 3
    assert rankers.rankers == (learner.ranker,)
    assert rankers.of_client.tolist() == [0] * 5
    assert isinstance(learner, EvolutionStrategies)
    cost = learner.epsilon()
    assert cost.per_interaction == pytest.approx(math.log(10))
    assert cost.per_message == pytest.approx(9 * math.log(10))  # 1, 3, 5, 7 or 9 queries
    assert cost.per_training == pytest.approx(27 * math.log(10))


def test_epsilon_counts_the_values_of_the_page() -> None:
    population = Population(iid(world(), 5), PERFECT, page_length=5)
    learner = EvolutionStrategies(
        population=population,
        ranker=linear(population),
        settings=EvolutionSettings(keep_probability=0.5),
    )
    assert learner.epsilon().per_interaction == pytest.approx(math.log(5))
    assert EvolutionStrategies(
        population=population, ranker=linear(population)
    ).epsilon().per_message == pytest.approx(math.inf)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"queries_per_round": 0}, "queries_per_round"),
        ({"queries_per_round": 1.5}, "queries_per_round"),
        ({"participants": 0}, "participants"),
        ({"participants": 2.0}, "participants"),
        ({"participants": 11}, "participants"),
        ({"seed": -1}, "seed"),
        ({"settings": EvolutionSettings(keep_probability=1 / 11)}, "keep_probability"),
        ({"ranker": Ranker.initial(RankerSettings(n_features=5))}, "ranker"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], named: str) -> None:
    population = Population(iid(world(), 10), PERFECT)
    fields: dict[str, Any] = {"population": population, "ranker": linear(population)}
    with pytest.raises(SettingsError, match=named):
        EvolutionStrategies(**{**fields, **wrong})


def test_features_in_half_precision_give_nearly_the_same_round() -> None:
    views = iid(world(), 300)
    rounds = []
    for precision in ("single", "half"):
        population = Population(views, PERFECT, precision=precision)
        learner = EvolutionStrategies(
            population=population,
            ranker=linear(population, [0.5, 1.0, -1.0, 0.2, 0.0, 0.3]),
            settings=EvolutionSettings(sigma=0.3, reward="ndcg", **PLAIN_STEP),
        )
        rounds.append((learner.step(), learner.ranker.parameters))
    (single, weights), (half, half_weights) = rounds
    np.testing.assert_allclose(half, single, rtol=0.01)
    np.testing.assert_allclose(half_weights, weights, atol=0.02)


def test_neural_ranker_on_half_precision_is_refused() -> None:
    population = Population(iid(world(), 10), PERFECT, precision="half")
    ranker = Ranker.initial(RankerSettings(kind="mlp", n_features=6, hidden=3))
    with pytest.raises(SettingsError, match="half precision"):
        EvolutionStrategies(population=population, ranker=ranker)


def test_ranker_that_is_not_finite_is_refused() -> None:
    population = Population(iid(world(), 10), PERFECT)
    ranker = linear(population, np.full(6, np.nan))
    with pytest.raises(DataError, match="not finite"):
        EvolutionStrategies(population=population, ranker=ranker)


def test_federation_without_clients_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one client"):
        Population((), PERFECT)


# --- what a ledger is told


@pytest.mark.parametrize("keep", [0.5, 1.0])
def test_every_round_is_recorded_with_the_cost_of_its_message(keep: float) -> None:
    released: list[Release] = []
    learner = EvolutionStrategies(
        population=Population(iid(ragged(2), 6), INFORMATIONAL),
        ranker=Ranker.initial(RankerSettings(n_features=5)),
        settings=EvolutionSettings(keep_probability=keep),
        queries_per_round=3,
        record=released.append,
    )
    learner.step()
    learner.step()
    assert len(released) == 2
    alone = composed_epsilon(losses_of(released[:1], Level.USER), 1e-12).epsilon
    if keep == 1:
        assert alone == math.inf
    else:
        assert alone == pytest.approx(learner.epsilon().per_message, rel=1e-6)
        one = composed_epsilon(losses_of(released[:1], Level.INTERACTION), 1e-12).epsilon
        assert one == pytest.approx(learner.epsilon().per_interaction, rel=1e-6)
