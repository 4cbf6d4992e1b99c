"""FedProx: no pull is FedAvg, and a strong one keeps clients where the round began."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.random import stream
from cloister.data.partitions import by_label, iid
from cloister.federate.fedprox import pull_back
from cloister.federate.fpdgd import FPDGD, FpdgdSettings, local_rule
from cloister.federate.local_training import train_clients
from cloister.federate.population import Population
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import INFORMATIONAL, ragged

kinds = pytest.mark.parametrize("kind", ["linear", "mlp"])
DATA = ragged(4, n_queries=30, most_documents=14)


def first(kind: Any) -> Ranker:
    made_of = RankerSettings(kind=kind, n_features=5, hidden=3)
    return Ranker(made_of, stream(1, "test").normal(size=made_of.n_parameters))


def after(kind: Any, mu: float, *, queries_per_round: int = 8, n_rounds: int = 4) -> np.ndarray:
    population = Population(by_label(DATA, n_labels_per_client=2, seed=1), INFORMATIONAL)
    settings = FpdgdSettings(proximal=mu, queries_per_round=queries_per_round)
    learner = FPDGD(population, first(kind), settings=settings, seed=2)
    for _ in range(n_rounds):
        learner.step()
    return learner.ranker.parameters


@kinds
def test_no_pull_is_federated_averaging_bit_for_bit(kind: Any) -> None:
    population = Population(by_label(DATA, n_labels_per_client=2, seed=1), INFORMATIONAL)
    learner = FPDGD(population, first(kind), settings=FpdgdSettings(queries_per_round=8), seed=2)
    for _ in range(4):
        learner.step()
    assert after(kind, 0.0).tobytes() == learner.ranker.parameters.tobytes()


@kinds
def test_hardly_any_pull_is_hardly_different_and_a_strong_one_is(kind: Any) -> None:
    plain = after(kind, 0.0)
    np.testing.assert_allclose(after(kind, 1e-7), plain, atol=1e-5)
    assert np.abs(after(kind, 1.0) - plain).max() > 1e-3


@kinds
def test_one_interaction_a_round_has_nowhere_to_be_pulled_from(kind: Any) -> None:
    found = after(kind, 5.0, queries_per_round=1)
    np.testing.assert_allclose(found, after(kind, 0.0, queries_per_round=1), atol=1e-6)


@kinds
def test_stronger_pull_keeps_clients_closer(kind: Any) -> None:
    population = Population(iid(DATA, 40), INFORMATIONAL)
    ranker = first(kind)
    distances = []
    for mu in (0.0, 1.0, 4.0, 9.0):
        # The rate times mu stays below 1: each step moves towards the beginning, never past it.
        chosen = FpdgdSettings(pdgd=PdgdSettings(learning_rate=0.1), proximal=mu)
        updates = np.empty((40, len(ranker.parameters)), np.float32)
        train_clients(
            population,
            np.arange(40),
            ranker.parameters[None],
            ranker.settings.shape,
            chosen.pdgd.pair_rule,
            local_rule(chosen),
            queries_per_round=20,
            seed=1,
            round=0,
            updates=updates,
        )
        distances.append(np.linalg.norm(updates, axis=1))
    means = [float(each.mean()) for each in distances]
    assert means[0] > 1.3 * means[1] > 1.5 * means[2] > 1.5 * means[3] > 0
    assert (distances[0] > distances[3]).mean() > 0.9


number = st.floats(-1e3, 1e3, width=32)


@given(st.lists(st.tuples(number, number, number), max_size=20), st.floats(0, 1, width=32))
def test_pull_is_a_step_of_the_squared_distance_from_where_the_step_began(
    triples: list[tuple[float, float, float]], rate: float
) -> None:
    local, before, origin = np.array(triples, np.float32).reshape(-1, 3).T.copy()
    pull_back(local, before, origin, np.float32(rate))
    expected = [a - rate * (b - c) for a, b, c in triples]
    np.testing.assert_allclose(local, expected, rtol=1e-5, atol=1e-3)
