"""One run from settings to figures: every method, the same bits, sums that are right."""

from __future__ import annotations

import hashlib
import math
from typing import Any, get_args

import numba
import numpy as np
import pytest

from cloister.adversary.poisoning import ATTACKS
from cloister.core.errors import SettingsError
from cloister.data.partitions import iid
from cloister.federate.clustered import ClusteredFPDGD
from cloister.federate.evaluation import Evaluation
from cloister.federate.evolution import EvolutionStrategies
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.population import Population
from cloister.federate.rules import RULES
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.run import (
    SimulationResult,
    simulate,
    threads_limited,
)
from cloister.lab.simulation.settings import (
    AttackName,
    Method,
    Partition,
    RuleName,
    SimulationSettings,
)
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import two_threads

FEATURES = "world:features?queries=40&documents=12&features=6&seed=2"
INTENTS = "world:intents?queries=20&documents=15&features=6&intents=3"

methods = pytest.mark.parametrize("method", get_args(Method))
rankers = pytest.mark.parametrize("ranker", ["linear", "mlp"])


def settings_of(**fields: Any) -> SimulationSettings:
    small = {"data": FEATURES, "clients": 20, "rounds": 6, "queries_per_round": 2, "hidden": 4}
    return SimulationSettings(**small | fields)


def run(**fields: Any) -> SimulationResult:
    return simulate(settings_of(**fields))


# --- settings


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"private_layer": True}, "private_layer .* needs the method fpdgd and the ranker mlp"),
        ({"private_layer": True, "ranker": "mlp", "method": "es"}, "private_layer"),
        ({"proximal": 0.1, "method": "pdgd"}, "proximal .* needs the method fpdgd"),
        ({"paper_epsilon": 1.0, "method": "clustered"}, "paper_epsilon needs the method fpdgd"),
        ({"warm_up_rounds": 3}, "warm_up_rounds trains on shared data: give share_data"),
        (
            {"warm_up_rounds": 3, "share_data": 0.1, "method": "es"},
            "begin from zero: no warm_up_rounds",
        ),
        ({"keep_probability": 0.5}, "keep_probability protects rewards of the method es only"),
        ({"precision": "half", "ranker": "mlp"}, "half precision is for the linear ranker"),
        ({"fold": 2}, "a world has "),
        ({"data": INTENTS, "partition": "intents", "test": "t"}, "does not go with intents"),
        ({"participants": 21}, "there are 20 clients, fewer than participants"),
        ({"participants": 0}, "participants"),
        ({"clients": 0}, "clients"),
        ({"rounds": 0}, "rounds"),
        ({"queries_per_round": 0}, "queries_per_round"),
        ({"fold": 0}, "fold"),
        ({"method": "sgd"}, "method"),
        ({"partition": "random"}, "partition"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"decay": 1.5}, "decay"),
        ({"share_data": 1.1}, "share_data"),
        ({"paper_epsilon": 0}, "paper_epsilon"),
        ({"keep_probability": 0}, "keep_probability"),
        ({"page_length": 0}, "page_length"),
        ({"page_length": 1001}, "page_length"),
        ({"seed": -1}, "seed"),
        ({"rule": "magic"}, "rule"),
        ({"rule": "krum", "method": "es"}, "see updates"),
        ({"attack": "lie", "attackers": 5, "clients": 5}, "at least one must be honest"),
        ({"attack": "poison-clicks", "attackers": 1, "method": "pdgd"}, "without a federation"),
        ({"attack": "poison-clicks", "attackers": 1, "off_rounds": 5}, "poisoned for good"),
        ({"rule": "krum", "group_size": 2}, "group_size is for"),
        ({"roundz": 3}, "roundz: unknown setting"),
    ],
)
def test_settings_that_do_not_fit_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings_of(**wrong)


def test_defaults_are_those_of_the_thesis_for_each_method() -> None:
    plain, es = (SimulationSettings(data="d", method=method) for method in ("fpdgd", "es"))
    assert (plain.rate, plain.n_hidden, es.rate, es.n_hidden) == (0.1, 64, 0.001, 10)
    assert (plain.click_model, plain.page_length, plain.decay) == ("perfect", 10, 1.0)
    assert (plain.clients, plain.queries_per_round) == (1000, 4)
    given = SimulationSettings(data="d", method="es", learning_rate=0.5, hidden=7)
    assert (given.rate, given.n_hidden) == (0.5, 7)


# --- every method and partition


@methods
@rankers
def test_every_method_trains_and_is_measured(method: Any, ranker: Any) -> None:
    result = run(method=method, ranker=ranker)
    summary = result.summary()
    assert {
        "offline_ndcg@10",
        "offline_max_rr",
        "online_ndcg@10",
        "online_ndcg@10_mean",
        "interactions",
        "rounds",
        "seconds",
        "cpu_seconds",
        "weights_sha256",
    } <= set(summary)
    assert summary["rounds"] == 6
    assert summary["interactions"] == 6 * 20 * 2
    assert 0 < summary["offline_ndcg@10"] < 1
    assert 0 < summary["offline_max_rr"] <= 1
    assert summary["seconds"] > 0
    assert result.learner.n_rounds == 6
    assert result.learner.ranker.parameters.any()


@methods
@two_threads
def test_bits_are_the_same_for_one_thread_and_for_two(
    method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.federate.local_training._LITTLE_WORK", 0.0)
    one, two = (simulate(settings_of(method=method, clients=80), threads=n) for n in (1, 2))
    assert one.weights_sha256 == two.weights_sha256
    assert one.final.ndcg == two.final.ndcg
    assert one.final.max_rr == two.final.max_rr
    for name, curve in one.curves.items():
        assert curve.tobytes() == two.curves[name].tobytes(), name


@methods
def test_equal_settings_give_equal_runs_and_another_seed_another(method: Any) -> None:
    digests = [run(method=method, seed=seed).weights_sha256 for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("partition", get_args(Partition))
def test_every_partition_is_trained_on(partition: Any) -> None:
    data = INTENTS if partition.startswith("intents") else FEATURES
    result = run(data=data, partition=partition, click_model="navigational")
    assert len(result.final.by_client) == 20
    assert result.final.ndcg == pytest.approx(result.final.by_client.mean())
    assert np.isfinite(result.final.by_client).all()


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("fpdgd", FPDGD),
        ("pdgd", FPDGD),
        ("batch-pdgd", FPDGD),
        ("clustered", ClusteredFPDGD),
        ("es", EvolutionStrategies),
    ],
)
def test_method_is_the_learner_of_its_name(method: Any, kind: type) -> None:
    settings = settings_of(method=method)
    assert type(make_learner(settings, make_clients(settings))) is kind


# --- curves and sums


def test_curves_are_one_number_a_round() -> None:
    result = run(rounds=7, evaluate_every=3)
    assert set(result.curves) == {
        "round",
        "interactions",
        "online_ndcg",
        "online_max_rr",
        "clicks",
        "offline_ndcg",
        "offline_max_rr",
    }
    assert {len(curve) for curve in result.curves.values()} == {7}
    assert result.curves["round"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert result.curves["interactions"].tolist() == [40 * i for i in range(1, 8)]
    measured = ~np.isnan(result.curves["offline_ndcg"])
    assert measured.tolist() == [False, False, True, False, False, True, True]
    assert (measured == ~np.isnan(result.curves["offline_max_rr"])).all()
    assert result.curves["offline_ndcg"][-1] == result.final.ndcg
    assert result.curves["offline_max_rr"][-1] == result.final.max_rr


def test_curves_are_those_of_the_learner_and_of_its_evaluation() -> None:
    settings = settings_of(click_model="informational", seed=5)
    clients = make_clients(settings)
    made_of = RankerSettings(n_features=6, hidden=4)
    learner = FPDGD(
        Population(clients.train, clients.click_model),
        Ranker.initial(made_of, seed=5),
        settings=FpdgdSettings(queries_per_round=2),
        seed=5,
    )
    evaluation = Evaluation(clients.test, clients.click_model, seed=5)
    result = simulate(settings)
    for i in range(6):
        outcome = learner.step()
        offline = evaluation.measure_one(learner.ranker, round=i)
        assert result.curves["online_ndcg"][i] == outcome.ndcg
        assert result.curves["online_max_rr"][i] == outcome.max_rr
        assert result.curves["clicks"][i] == outcome.clicks
        assert result.curves["offline_ndcg"][i] == offline.ndcg
        assert result.curves["offline_max_rr"][i] == offline.max_rr


def test_online_figure_is_the_discounted_sum_over_rounds() -> None:
    result = run(rounds=9)
    online = result.curves["online_ndcg"]
    expected = math.fsum(float(value) * 0.9995**t for t, value in enumerate(online))
    assert result.summary()["online_ndcg@10"] == pytest.approx(expected, rel=1e-12)
    assert result.summary()["online_ndcg@10_mean"] == pytest.approx(math.fsum(online) / 9)


def test_digest_is_of_every_ranker_and_who_uses_it() -> None:
    result = run(ranker="mlp", private_layer=True, clients=3)
    rankers_of_clients = result.learner.client_rankers().rankers
    assert len(rankers_of_clients) == 3
    content = b"".join(ranker.parameters.tobytes() for ranker in rankers_of_clients)
    content += np.arange(3).tobytes()  # and of who uses which
    assert result.weights_sha256 == hashlib.sha256(content).hexdigest()


def test_progress_is_told_after_each_round() -> None:
    told: list[tuple[int, int]] = []
    simulate(settings_of(rounds=3), advance=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_measurements_are_told_as_they_are_made() -> None:
    told: list[tuple[int, float]] = []
    result = simulate(
        settings_of(rounds=5, evaluate_every=2),
        measured=lambda n_rounds, offline: told.append((n_rounds, offline.ndcg)),
    )
    curve = zip(result.curves["round"], result.curves["offline_ndcg"], strict=True)
    assert told == [(n, value) for n, value in curve if not np.isnan(value)]
    assert [n for n, _ in told] == [2, 4, 5]


@pytest.mark.parametrize("nothing_relevant", ["skip", "zero"])
def test_convention_for_queries_with_nothing_relevant_reaches_the_figure(
    nothing_relevant: Any,
) -> None:
    address = "world:features?queries=40&documents=3&features=6"  # few documents: many such
    result = run(data=address, nothing_relevant=nothing_relevant)
    has_answer = ~np.isnan(run(data=address).final.by_query)
    assert 0 < has_answer.mean() < 1
    by_query = result.final.by_query
    assert np.isnan(by_query[~has_answer]).all() == (nothing_relevant == "skip")
    assert result.final.ndcg == pytest.approx(np.nanmean(by_query))


def test_page_length_is_that_of_training_and_measuring() -> None:
    result = run(page_length=1, click_model="perfect")
    assert result.curves["clicks"].max() <= 1
    assert result.curves["online_max_rr"] == pytest.approx(result.curves["clicks"])


# --- without a federation


@pytest.mark.parametrize("method", ["pdgd", "batch-pdgd"])
@pytest.mark.parametrize("partition", ["labels", "clicks", "iid-disjoint"])
def test_without_a_federation_clients_cannot_differ(method: Any, partition: Any) -> None:
    with pytest.raises(SettingsError, match="without a federation all data is alike"):
        run(method=method, partition=partition)


def test_centralised_pdgd_is_one_client_who_issues_all_queries() -> None:
    result = run(method="pdgd", rounds=2, seed=3)
    clients = make_clients(result.settings)
    learner = FPDGD(
        Population(clients.train[:1], clients.click_model),
        Ranker.initial(RankerSettings(n_features=6)),
        settings=FpdgdSettings(queries_per_round=40),
        seed=3,
    )
    learner.step()
    learner.step()
    assert (result.learner.ranker.parameters == learner.ranker.parameters).all()


def test_batch_pdgd_moves_by_the_sum_of_all_gradients() -> None:
    mean = run(rounds=1, clients=40, queries_per_round=1)
    batch = run(rounds=1, method="batch-pdgd")
    # The same 40 clients with one interaction each: the sum is 40 times the mean.
    np.testing.assert_allclose(
        batch.learner.ranker.parameters, 40 * mean.learner.ranker.parameters, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("method", ["pdgd", "batch-pdgd"])
def test_without_a_federation_a_round_has_as_many_interactions_as_with_one(method: Any) -> None:
    with_one = run(rounds=1, participants=5)
    assert run(rounds=1, participants=5, method=method).curves["interactions"].tolist() == (
        with_one.curves["interactions"].tolist()
    )


@pytest.mark.parametrize("method", ["pdgd", "batch-pdgd"])
def test_equal_quantities_are_as_many_queries_a_round(method: Any) -> None:
    with_quantities = run(rounds=1, method=method, quantities=(2,))
    assert with_quantities.curves["interactions"].tolist() == [40]


# --- what goes with FPDGD


def test_no_pull_and_a_pull_are_different_runs() -> None:
    plain, none, some = (
        run(queries_per_round=8, **fields).weights_sha256
        for fields in ({}, {"proximal": 0.0}, {"proximal": 1.0})
    )
    assert plain == none != some


def test_conventions_reach_the_learner() -> None:
    digests = {
        run(click_model="informational", rounds=2, **fields).weights_sha256
        for fields in (
            {},
            {"negatives": "whole_page"},
            {"rho_over": "page"},
            {"decay": 0.9},
            {"learning_rate": 0.2},
            {"participants": 10},
            {"quantities": (1, 3)},
            {"stop": "at_each_document"},
            {"normalise": "none"},
            {"page_length": 5},
        )
    }
    assert len(digests) == 10


def test_private_layers_give_every_client_its_own_ranker() -> None:
    result = run(ranker="mlp", private_layer=True)
    rankers_of_clients = result.learner.client_rankers()
    assert len(rankers_of_clients.rankers) == 20
    assert len(set(result.final.by_client.tolist())) > 10


def test_noise_reports_what_truly_holds() -> None:
    summary = run(paper_epsilon=4.5, paper_sensitivity=5.0).summary()
    assert summary["epsilon_claimed"] == 4.5
    assert summary["epsilon_of_a_round"] == pytest.approx(4.5 * math.sqrt(6))
    assert summary["epsilon"] == pytest.approx(6 * 4.5 * math.sqrt(6))
    assert summary["epsilon_of_a_message"] == math.inf
    whole = run(paper_epsilon=4.5, paper_sensitivity=5.0, paper_clip="whole").summary()
    assert whole["epsilon"] == pytest.approx(2 * summary["epsilon"])


def test_randomised_rewards_report_what_truly_holds() -> None:
    summary = run(method="es", keep_probability=0.5).summary()
    # log(p (n - 1) / (1 - p)) with the 11 values of MaxRR; messages of 2 interactions, 6 rounds
    assert summary["epsilon_of_an_interaction"] == pytest.approx(math.log(10))
    assert summary["epsilon_of_a_message"] == pytest.approx(2 * math.log(10))
    assert summary["epsilon"] == pytest.approx(12 * math.log(10))


def test_clustered_run_reports_its_groups() -> None:
    fields: dict[str, Any] = {"data": INTENTS, "partition": "intents", "method": "clustered"}
    result = run(**fields, click_model="navigational", rounds=60, queries_per_round=6)
    summary = result.summary()
    assert summary["groups"] == 1 + sum(split["n_groups"] - 1 for split in summary["splits"])
    assert summary["groups"] > 1
    assert set(summary["splits"][0]) == {"round", "certainty", "n_groups"}
    patient = run(**fields, first_test=61, rounds=60)
    assert patient.summary()["splits"] == []


def test_half_precision_gives_nearly_the_same_run() -> None:
    single, half = (run(precision=precision, rounds=1) for precision in ("single", "half"))
    assert half.weights_sha256 != single.weights_sha256
    np.testing.assert_allclose(
        half.learner.ranker.parameters, single.learner.ranker.parameters, atol=1e-3
    )


@methods
def test_run_without_noise_reports_no_epsilon(method: Any) -> None:
    assert not [name for name in run(method=method).summary() if name.startswith("epsilon")]


def test_noise_on_clients_of_unequal_weight_is_refused() -> None:
    with pytest.raises(SettingsError, match="all clients weigh the same"):
        run(paper_epsilon=1.0, quantities=(1, 3))


# --- data sharing


def test_warm_up_trains_on_the_shared_queries_before_the_federation_begins() -> None:
    fields: dict[str, Any] = {"partition": "labels", "share_data": 0.2, "clients": 10}
    settings = settings_of(**fields, warm_up_rounds=5)
    clients = make_clients(settings)
    first = make_learner(settings, clients).ranker
    assert clients.shared is not None
    alone = FPDGD(
        Population(iid(clients.shared, 10), clients.click_model),
        Ranker.initial(RankerSettings(n_features=6)),
        settings=FpdgdSettings(queries_per_round=2),
        seed=1 + 2**32,
    )
    for _ in range(5):
        alone.step()
    assert first.parameters.any()
    assert (first.parameters == alone.ranker.parameters).all()
    cold, warm = run(**fields, rounds=1), run(**fields, rounds=1, warm_up_rounds=30)
    assert warm.final.ndcg > cold.final.ndcg


def test_sharing_without_a_warm_up_begins_untrained() -> None:
    settings = settings_of(partition="labels", share_data=0.2, clients=10)
    assert not make_learner(settings, make_clients(settings)).ranker.parameters.any()


@pytest.mark.parametrize(
    "fields",
    [
        {"method": "clustered"},
        {"method": "pdgd", "partition": "iid"},
        {"ranker": "mlp", "private_layer": True},
    ],
    ids=["clustered", "pdgd", "fedper"],
)
def test_warm_up_is_where_every_learner_begins(fields: dict[str, Any]) -> None:
    shared = {"partition": "labels", "clients": 10, "share_data": 0.2, "warm_up_rounds": 3}
    settings = settings_of(**shared | fields)
    cold = settings.model_copy(update={"warm_up_rounds": 0})
    clients = make_clients(settings)
    warm, untrained = (
        make_learner(each, clients).client_rankers().rankers[0].parameters
        for each in (settings, cold)
    )
    moved = warm != untrained
    assert moved.any()
    assert moved[-4:].any()  # the last layer of an MLP with four hidden units


# --- threads


def test_number_of_threads_is_put_back_even_after_an_error() -> None:
    before = numba.get_num_threads()
    with threads_limited(1):
        assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before
    with pytest.raises(SettingsError):
        simulate(settings_of(method="pdgd", partition="labels"), threads=1)
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("threads", [0, -1, 10_000])
def test_threads_that_the_machine_does_not_have_are_refused(threads: int) -> None:
    with pytest.raises(SettingsError, match="threads: this machine offers 1 to"):
        simulate(settings_of(rounds=1), threads=threads)


ATTACKED: dict[str, Any] = {
    "data": "world:features?queries=60&documents=15&features=8",
    "clients": 10,
    "queries_per_round": 5,
    "rounds": 60,
    "evaluate_every": 60,
    "click_model": "informational",
}


@pytest.mark.parametrize("rule", get_args(RuleName))
@pytest.mark.parametrize("attack", get_args(AttackName))
def test_every_attack_meets_every_rule(attack: AttackName, rule: RuleName) -> None:
    n = 0 if attack == "none" else 2
    settings = SimulationSettings(**ATTACKED | {"rule": rule, "attack": attack, "attackers": n})
    summary = simulate(settings).summary()
    assert 0 < summary["offline_ndcg@10"] <= 1
    if settings.sees_updates:
        assert 0 <= summary["unused_attackers"] <= 1
        assert summary["refused"] == {}
    if attack.startswith("promote"):
        assert 0 <= summary["target_on_first_page"] <= 1


def test_names_of_rules_and_attacks_are_those_of_the_registries() -> None:
    assert set(get_args(RuleName)) == set(RULES)
    assert set(get_args(AttackName)) == {"none", *ATTACKS}


def test_poisoned_clicks_harm_and_the_adaptive_rule_helps() -> None:
    longer = ATTACKED | {"rounds": 400, "evaluate_every": 400}
    poisoned = longer | {"attack": "poison-clicks", "attackers": 3}
    honest, harmed, helped = (
        simulate(SimulationSettings(**chosen)).final.ndcg
        for chosen in (longer, poisoned, poisoned | {"rule": "adaptive"})
    )
    assert harmed < honest - 0.05
    assert helped > harmed + 0.8 * (honest - harmed)


def test_a_run_with_attackers_is_the_same_for_any_number_of_threads() -> None:
    for rule in ("krum", "adaptive"):
        chosen = {"rule": rule, "attack": "dyn-opt", "attackers": 3}
        settings = SimulationSettings(**ATTACKED | chosen)
        runs = {simulate(settings, threads=threads).weights_sha256 for threads in (1, 2)}
        assert len(runs) == 1
