"""Clustered FPDGD: FPDGD to the last bit while clients are alike, better where they are not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import ClientView, Views, by_quantity, iid, iid_disjoint
from cloister.data.source import load_fold
from cloister.data.worlds.intents import IntentData, IntentsSettings, IntentsWorld
from cloister.federate.clustered import ClusteredFPDGD, ClusteringSettings
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import Learner
from cloister.federate.population import Population
from cloister.lab.simulation.run import threads_limited
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import two_threads

N_CLIENTS, N_INTENTS = 20, 4
USER = click_model("navigational", 2)


@cache
def intents() -> tuple[IntentData, IntentData]:
    world = IntentsWorld(IntentsSettings(queries=60, documents=25, features=12, intents=N_INTENTS))
    return world.data("train"), world.data("test")


def by_intent(part: IntentData, n_clients: int = N_CLIENTS) -> Views:
    """Client c wants the intent c modulo their number."""
    views = [
        ClientView(part.data, labels=np.ascontiguousarray(column))
        for column in part.intent_labels.T
    ]
    return tuple(views[client % N_INTENTS] for client in range(n_clients))


def alike_clients(n: int = N_CLIENTS) -> Population:
    train = load_fold("world:features?queries=60&documents=20&features=12").train
    return Population(iid(train, n), click_model("navigational", 5))


def first(kind: Any = "linear") -> Ranker:
    return Ranker.initial(RankerSettings(kind=kind, n_features=12, hidden=24), seed=1)


def run(learner: Learner, n_rounds: int) -> Learner:
    for _ in range(n_rounds):
        learner.step()
    return learner


def clustered(population: Population, *, seed: int = 1, **fields: Any) -> ClusteredFPDGD:
    return ClusteredFPDGD(population, first(), settings=FpdgdSettings(**fields), seed=seed)


# --- clients who want different things


@pytest.mark.parametrize("seed", [1, 2])
def test_groups_of_one_intent_are_found_and_serve_clients_better(seed: int) -> None:
    train, test = intents()
    population = Population(by_intent(train), USER)
    learner = clustered(population, seed=seed)
    run(learner, 100)
    group = learner.client_rankers().of_client
    for number in set(group.tolist()):
        wanted = {client % N_INTENTS for client in np.flatnonzero(group == number).tolist()}
        assert len(wanted) == 1  # nobody shares a ranker with somebody who wants something else
    assert learner.splits[0].round == 40
    assert learner.splits[0].certainty > 5
    assert sum(split.n_groups - 1 for split in learner.splits) + 1 == len(set(group.tolist()))
    evaluation = Evaluation(by_intent(test), USER, seed=1)
    plain = run(FPDGD(population, first(), seed=seed), 100)
    gain = (
        evaluation.measure(learner.client_rankers()).by_client
        - evaluation.measure(plain.client_rankers()).by_client
    )
    assert gain.min() > 0.05
    assert gain.mean() > 0.15


def test_neural_rankers_are_told_apart_by_folded_updates() -> None:
    population = Population(by_intent(intents()[0]), USER)
    learner = ClusteredFPDGD(population, first("mlp"), seed=1)
    assert learner.ranker.settings.n_parameters > 256
    run(learner, 90)
    group = learner.client_rankers().of_client
    assert len(set(group.tolist())) > 1
    for number in set(group.tolist()):
        assert len({c % N_INTENTS for c in np.flatnonzero(group == number).tolist()}) == 1


def test_groups_are_found_though_few_clients_take_part_in_a_round() -> None:
    population = Population(by_intent(intents()[0]), USER)
    learner = clustered(population, participants=10)
    counts = {learner.step().n_interactions for _ in range(160)}
    assert counts == {40}
    assert learner.splits
    assert learner.splits[0].round > 60  # each client takes part in every other round
    group = learner.client_rankers().of_client
    for number in set(group.tolist()):
        assert len({c % N_INTENTS for c in np.flatnonzero(group == number).tolist()}) == 1


@pytest.mark.parametrize("queries_per_round", [1, 4, 6])
def test_groups_are_found_by_what_lasts_over_rounds(queries_per_round: int) -> None:
    population = Population(by_intent(intents()[0]), USER)
    learner = ClusteredFPDGD(
        population,
        first(),
        settings=FpdgdSettings(queries_per_round=queries_per_round),
        clustering=ClusteringSettings(divide_by="rounds"),
        seed=1,
    )
    run(learner, 170)
    assert learner.splits
    group = learner.client_rankers().of_client
    for number in set(group.tolist()):
        assert len({c % N_INTENTS for c in np.flatnonzero(group == number).tolist()}) == 1


def test_each_group_begins_as_a_copy_of_what_it_was() -> None:
    population = Population(by_intent(intents()[0]), USER)
    learner, plain = clustered(population), FPDGD(population, first(), seed=1)
    run(learner, 40)
    run(plain, 40)
    rankers = learner.client_rankers().rankers
    assert len(rankers) == learner.splits[0].n_groups
    for ranker in rankers:
        assert ranker.parameters.tobytes() == plain.ranker.parameters.tobytes()
    learner.step()
    assert len({r.parameters.tobytes() for r in learner.client_rankers().rankers}) == len(rankers)


def test_new_client_gets_the_ranker_of_the_largest_group() -> None:
    train = intents()[0]
    views = by_intent(train)
    many = tuple(views[0] if client < 12 else views[client] for client in range(N_CLIENTS))
    learner = clustered(Population(many, USER))
    run(learner, 60)
    rankers, group = learner.client_rankers()
    assert len(rankers) > 1
    assert len(set(group[:12].tolist())) == 1
    assert (learner.ranker.parameters == rankers[group[0]].parameters).all()


@two_threads
def test_groups_have_the_same_bits_for_one_thread_and_for_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cloister.federate.local_training._LITTLE_WORK", 0.0)
    population = Population(by_intent(intents()[0]), USER)
    found = []
    for n in (1, 2):
        learner = clustered(population)
        with threads_limited(n):
            run(learner, 45)
        rankers, group = learner.client_rankers()
        found.append(
            (learner.splits, group.tolist(), [ranker.parameters.tobytes() for ranker in rankers])
        )
    assert found[0] == found[1]
    assert found[0][0]


# --- clients who are alike


@pytest.mark.parametrize("seed", range(5))
def test_training_is_that_of_fpdgd_bit_for_bit_while_clients_are_alike(seed: int) -> None:
    population = alike_clients()
    learner = clustered(population, seed=seed)
    plain = FPDGD(population, first(), seed=seed)
    outcomes = [(learner.step(), plain.step()) for _ in range(170)]  # three tests
    assert learner.splits == []
    assert all(one == two for one, two in outcomes)
    assert learner.ranker.parameters.tobytes() == plain.ranker.parameters.tobytes()
    rankers = learner.client_rankers()
    assert len(rankers.rankers) == 1
    assert rankers.of_client.tolist() == [0] * N_CLIENTS


@pytest.mark.parametrize("seed", range(3))
def test_clients_who_search_more_or_less_often_are_not_told_apart(seed: int) -> None:
    train = load_fold("world:features?queries=60&documents=20&features=12").train
    population = Population(by_quantity(train, n_clients=20), click_model("navigational", 5))
    learner = clustered(population, seed=seed)
    run(learner, 170)
    assert learner.splits == []


def test_client_sampling_of_alike_clients_is_fpdgd_bit_for_bit() -> None:
    population = alike_clients()
    learner = clustered(population, participants=7)
    plain = FPDGD(population, first(), settings=FpdgdSettings(participants=7), seed=1)
    run(learner, 60)
    run(plain, 60)
    assert learner.ranker.parameters.tobytes() == plain.ranker.parameters.tobytes()


def test_single_client_is_never_divided() -> None:
    learner = clustered(alike_clients(1))
    run(learner, 60)
    assert learner.splits == []
    assert learner.n_rounds == 60


@pytest.mark.parametrize("seed", range(3))
def test_clients_whose_queries_were_dealt_at_random_are_alike(seed: int) -> None:
    train = load_fold("world:features?queries=300&documents=15&features=12").train
    views = iid_disjoint(train, 20, seed=seed)  # fifteen queries each, which nobody else has
    learner = clustered(Population(views, click_model("navigational", 5)), seed=seed)
    run(learner, 170)
    assert learner._lessons.complete(np.arange(20)).all()  # all were judged
    assert learner.splits == []


def test_client_with_few_queries_is_not_judged() -> None:
    train = intents()[0]
    views = by_intent(train)
    few = ClientView(train.data, queries=np.arange(7), labels=views[1].labels)
    learner = clustered(Population((*views, few), USER))
    run(learner, 60)
    assert learner.splits
    assert learner.client_rankers().of_client[-1] == 0


def test_client_who_never_clicks_does_not_keep_the_others_together() -> None:
    train = intents()[0]
    silent = ClientView(train.data, labels=np.zeros(train.data.n_rows, np.int8))
    population = Population((*by_intent(train), silent), click_model("perfect", 2))
    learner = clustered(population)
    run(learner, 90)
    assert learner.splits
    group = learner.client_rankers().of_client
    assert len({(number, c % N_INTENTS) for c, number in enumerate(group[:-1].tolist())}) == len(
        set(group[:-1].tolist())
    )  # no group holds two intents
    assert group[-1] == 0


# --- settings


@pytest.mark.parametrize("wrong", [{"private_layer": True}, {"aggregation": "sum"}])
def test_what_is_no_plain_mean_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="clustered: takes FPDGD's plain mean"):
        ClusteredFPDGD(alike_clients(3), first("mlp"), settings=FpdgdSettings(**wrong), seed=1)


@pytest.mark.parametrize("wrong", [{"first_test": 0}, {"certainty": 0}, {"most_groups": 1}])
def test_clustering_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        ClusteringSettings(**wrong)


def test_first_test_waits_for_the_rounds_asked_for() -> None:
    population = Population(by_intent(intents()[0]), USER)
    chosen = ClusteringSettings(first_test=56)
    learner = ClusteredFPDGD(population, first(), clustering=chosen, seed=1)
    run(learner, 56)
    assert [split.round for split in learner.splits] == [56]


def test_groups_are_watched_anew_after_a_split() -> None:
    population = Population(by_intent(intents()[0]), USER)
    chosen = ClusteringSettings(most_groups=2)
    learner = ClusteredFPDGD(population, first(), clustering=chosen, seed=1)
    run(learner, 85)
    rounds = [split.round for split in learner.splits]
    assert rounds[0] == 40
    assert len(rounds) >= 2  # four intents take at least two splits into two
    assert min(rounds[1:]) >= 80


def test_certainty_that_is_never_reached_splits_nothing() -> None:
    population = Population(by_intent(intents()[0]), USER)
    chosen = ClusteringSettings(certainty=1e9)
    learner = ClusteredFPDGD(population, first(), clustering=chosen, seed=1)
    run(learner, 50)
    assert learner.splits == []
