"""FedPer: the first layer is learnt together, the last one apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.data.partitions import iid
from cloister.federate.fedper import initial_private_layers, with_private_layer
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.population import Population
from cloister.lab.simulation.run import threads_limited
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings
from federate import literal_round as literal
from federate.made_clients import INFORMATIONAL, divided, ragged, two_threads

MADE_OF = RankerSettings(kind="mlp", n_features=5, hidden=3, activation="sigmoid")
SHARED = MADE_OF.n_parameters - MADE_OF.hidden
PRIVATE = FpdgdSettings(
    pdgd=PdgdSettings(learning_rate=0.5), queries_per_round=2, private_layer=True
)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_shared_part_is_averaged_and_private_layers_stay_apart(seed: int) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    first = Ranker.initial(MADE_OF, seed=seed)
    learner = FPDGD(population, first, settings=PRIVATE, seed=seed)
    shared = first.parameters[:SHARED].astype(float)
    private = [first.parameters[SHARED:].astype(float)] * len(views)
    for round in range(3):
        training = literal.Training(MADE_OF, PRIVATE.pdgd, 2, 4, seed=seed, round=round)
        sent = [
            literal.train_client(view, c, np.concatenate((shared, own)), INFORMATIONAL, training)
            for c, (view, own) in enumerate(zip(views, private, strict=True))
        ]
        assume(min(each.margin for each in sent) > 1e-4)
        shared = literal.fedavg(sent)[:SHARED]
        private = [each.parameters[SHARED:] for each in sent]
        learner.step()
        rankers = learner.client_rankers()
        assert rankers.of_client.tolist() == list(range(len(views)))
        for ranker, own in zip(rankers.rankers, private, strict=True):
            expected = np.concatenate((shared, own))
            np.testing.assert_allclose(ranker.parameters, expected, rtol=5e-4, atol=5e-5)


def test_who_does_not_take_part_keeps_the_private_layer() -> None:
    population = Population(iid(ragged(1), 20), INFORMATIONAL)
    first = Ranker.initial(MADE_OF, seed=1)
    chosen = PRIVATE.model_copy(update={"participants": 6})
    learner = FPDGD(population, first, settings=chosen, seed=1)
    learner.step()
    layers = np.stack([r.parameters[SHARED:] for r in learner.client_rankers().rankers])
    changed = (layers != first.parameters[SHARED:]).any(axis=1)
    assert 3 <= changed.sum() <= 6
    assert len(np.unique(layers[changed], axis=0)) == changed.sum()
    shared = np.stack([r.parameters[:SHARED] for r in learner.client_rankers().rankers])
    assert (shared == learner.ranker.parameters[:SHARED]).all()
    assert (learner.ranker.parameters[SHARED:] == first.parameters[SHARED:]).all()


@two_threads
def test_private_layers_have_the_same_bits_for_one_thread_and_for_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cloister.federate.local_training._LITTLE_WORK", 0.0)
    population = Population(iid(ragged(1), 40), INFORMATIONAL)
    found = []
    for n in (1, 2):
        learner = FPDGD(population, Ranker.initial(MADE_OF, seed=1), settings=PRIVATE, seed=1)
        with threads_limited(n):
            for _ in range(3):
                learner.step()
        found.append([r.parameters.tobytes() for r in learner.client_rankers().rankers])
    assert found[0] == found[1]
    assert len(set(found[0])) > 30


def test_every_client_begins_with_its_own_copy_of_the_output_weights() -> None:
    first = Ranker.initial(MADE_OF, seed=1)
    layers = initial_private_layers(first, 4)
    assert (layers == first.parameters[SHARED:]).all()
    layers[0] = 9.0
    assert (layers[1] == first.parameters[SHARED:]).all()
    own = with_private_layer(first, layers[0])
    assert own.parameters[SHARED:].tolist() == [9.0] * 3
    assert (own.parameters[:SHARED] == first.parameters[:SHARED]).all()


def test_linear_rankers_have_no_layer_to_keep() -> None:
    population = Population(iid(ragged(1), 3), INFORMATIONAL)
    with pytest.raises(SettingsError, match="no layer to keep") as caught:
        FPDGD(population, Ranker.initial(RankerSettings(n_features=5)), settings=PRIVATE, seed=1)
    assert caught.value.remedy == "use the ranker mlp"
