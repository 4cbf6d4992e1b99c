"""One round of many clients against a literal reading of the thesis; then its bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.data.partitions import Views, by_quantity, iid
from cloister.federate.local_training import MOST_BLOCKS, LocalRule, RoundSums, train_clients
from cloister.federate.population import Population
from cloister.lab.simulation.run import threads_limited
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import RankerSettings
from federate import literal_round as literal
from federate.made_clients import INFORMATIONAL, PARTITIONS, divided, ragged, two_threads

NEAR = 1e-4  # single precision may show another page where keys are as near as this

RANKERS = {
    "linear": RankerSettings(n_features=5),
    "relu": RankerSettings(kind="mlp", n_features=5, hidden=3, activation="relu"),
    "sigmoid": RankerSettings(kind="mlp", n_features=5, hidden=3, activation="sigmoid"),
}
rankers = pytest.mark.parametrize("made_of", RANKERS.values(), ids=RANKERS)

conventions = st.builds(
    PdgdSettings,
    negatives=st.sampled_from(["to_last_click", "whole_page"]),
    rho_over=st.sampled_from(["candidates", "page"]),
    learning_rate=st.sampled_from([0.1, 0.7]),
    decay=st.sampled_from([1.0, 0.9]),
)
seeds = st.integers(0, 2**64 - 1)


def models_for(made_of: RankerSettings, n: int, seed: int) -> np.ndarray:
    return stream(seed, "test", "models").normal(size=(n, made_of.n_parameters)).astype(np.float32)


def run_round(
    population: Population, training: literal.Training, models: np.ndarray, **fields: Any
) -> tuple[RoundSums, np.ndarray]:
    """Call the kernel; return its sums and every client's difference."""
    participants = fields.pop("participants", np.arange(population.n_clients))
    updates = np.full((len(participants), models.shape[1]), np.nan, np.float32)
    sums = train_clients(
        population,
        participants,
        models,
        training.ranker.shape,
        training.pdgd.pair_rule,
        LocalRule(
            training.pdgd.learning_rate,
            training.pdgd.decay,
            training.proximal,
            training.clip_norm,
            training.one_step,
            fields.pop("parts_by_query", True),
        ),
        queries_per_round=training.queries_per_round,
        seed=training.seed,
        round=training.round,
        updates=updates,
        **fields,
    )
    return sums, updates


def literal_contributions(
    population: Population, training: literal.Training, begins: Sequence[np.ndarray]
) -> list[literal.Contribution]:
    sent = [
        literal.train_client(view, c, begins[c].astype(float), population.click_model, training)
        for c, view in enumerate(population.views)
    ]
    assume(min(each.margin for each in sent) > NEAR)
    return sent


def assert_same_round(
    sums: RoundSums,
    updates: np.ndarray,
    sent: list[literal.Contribution],
    groups: np.ndarray,
    *,
    weighted: bool = True,
) -> None:
    """Compare each client's difference, their (weighted) sums by model, and what users saw."""
    for found, each in zip(updates, sent, strict=True):
        np.testing.assert_allclose(found, each.difference, rtol=2e-4, atol=2e-5)
    for model in range(len(sums.differences)):
        members = [each for each, group in zip(sent, groups, strict=True) if group == model]
        weights = [each.n if weighted else 1 for each in members]
        parts = [w * each.difference for w, each in zip(weights, members, strict=True)]
        total = np.sum([np.zeros(updates.shape[1]), *parts], axis=0)
        np.testing.assert_allclose(sums.differences[model], total, rtol=2e-4, atol=1e-4)
        assert sums.n_interactions[model] == sum(each.n for each in members)
    pages = [page for each in sent for page in each.pages]
    assert sums.ndcg == pytest.approx(sum(page.ndcg for page in pages), rel=1e-12)
    assert sums.max_rr == pytest.approx(sum(page.max_rr for page in pages), rel=1e-12)
    assert sums.clicks == sum(sum(page.clicked) for page in pages)


@rankers
@pytest.mark.parametrize("partition", PARTITIONS)
@settings(max_examples=5)
@given(
    seed=seeds,
    round=st.integers(0, 3),
    pdgd=conventions,
    queries_per_round=st.integers(1, 3),
    page_length=st.integers(2, 5),
)
def test_round_is_that_of_a_literal_reading(
    made_of: RankerSettings,
    partition: str,
    seed: int,
    round: int,
    pdgd: PdgdSettings,
    queries_per_round: int,
    page_length: int,
) -> None:
    views = divided(ragged(seed), partition, seed=seed)
    population = Population(views, INFORMATIONAL, page_length=page_length)
    training = literal.Training(
        made_of, pdgd, queries_per_round, page_length, seed=seed, round=round
    )
    models = models_for(made_of, 1, seed)
    sent = literal_contributions(population, training, models[[0] * len(views)])
    assert_same_round(*run_round(population, training, models), sent, np.zeros(len(views)))


@rankers
@settings(max_examples=10)
@given(seed=seeds, pdgd=conventions, mu=st.sampled_from([0.5, 2.0]))
def test_proximal_step_is_that_of_the_regularised_objective(
    made_of: RankerSettings, seed: int, pdgd: PdgdSettings, mu: float
) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, pdgd, 3, 4, proximal=mu, seed=seed)
    models = models_for(made_of, 1, seed)
    sent = literal_contributions(population, training, models[[0] * len(views)])
    assert_same_round(*run_round(population, training, models), sent, np.zeros(len(views)))


@rankers
@settings(max_examples=10)
@given(seed=seeds, clip_norm=st.sampled_from([0.5, 1.5, 4.0]))
def test_parameters_are_clipped_once_before_they_leave(
    made_of: RankerSettings, seed: int, clip_norm: float
) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, PdgdSettings(), 3, 4, clip_norm=clip_norm, seed=seed)
    models = models_for(made_of, 1, seed)
    sums, updates = run_round(population, training, models)
    sent = literal_contributions(population, training, models[[0] * len(views)])
    assert_same_round(sums, updates, sent, np.zeros(len(views)))
    lengths = np.linalg.norm(models + updates.astype(float), axis=1)
    assert (lengths <= clip_norm * (1 + 1e-6)).all()


@rankers
@settings(max_examples=10)
@given(seed=seeds, pdgd=conventions)
def test_batch_takes_all_gradients_where_the_round_began(
    made_of: RankerSettings, seed: int, pdgd: PdgdSettings
) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, pdgd, 3, 4, one_step=True, seed=seed, round=1)
    models = models_for(made_of, 1, seed)
    sent = literal_contributions(population, training, models[[0] * len(views)])
    sums, updates = run_round(population, training, models)
    assert_same_round(sums, updates, sent, np.zeros(len(views)), weighted=False)


@rankers
@settings(max_examples=10)
@given(seed=seeds, pdgd=conventions)
def test_each_client_begins_from_the_model_of_its_group(
    made_of: RankerSettings, seed: int, pdgd: PdgdSettings
) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, pdgd, 2, 4, seed=seed)
    models = models_for(made_of, 3, seed)
    group = np.array([2, 0, 2, 0, 0], np.int32)  # nobody begins from the model 1
    sent = literal_contributions(population, training, models[group])
    sums, updates = run_round(population, training, models, model_of_client=group)
    assert_same_round(sums, updates, sent, group)
    assert not sums.differences[1].any()


@rankers
@settings(max_examples=10)
@given(seed=seeds, pdgd=conventions)
def test_private_parameters_stay_with_the_client_and_are_learnt_there(
    made_of: RankerSettings, seed: int, pdgd: PdgdSettings
) -> None:
    views = divided(ragged(seed), "everything", seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, pdgd, 2, 4, seed=seed)
    models = models_for(made_of, 1, seed)
    private = stream(seed, "private").normal(size=(5, 3)).astype(np.float32)
    shared = models.shape[1] - 3
    begins = [np.concatenate((models[0, :shared], own)) for own in private]
    sent = literal_contributions(population, training, begins)
    sums, updates = run_round(population, training, models, private=private)
    assert not sums.differences[0, shared:].any()
    assert not updates[:, shared:].any()
    updates[:, shared:] = [each.difference[shared:] for each in sent]
    sums.differences[0, shared:] = sum(each.n * each.difference for each in sent)[shared:]
    assert_same_round(sums, updates, sent, np.zeros(5))
    for own, each in zip(private, sent, strict=True):
        np.testing.assert_allclose(own, each.parameters[shared:], rtol=2e-4, atol=2e-5)


@rankers
@pytest.mark.parametrize("one_step", [False, True])
@settings(max_examples=8)
@given(
    seed=seeds,
    round=st.integers(0, 9),
    pdgd=conventions,
    partition=st.sampled_from(PARTITIONS),
    by_query=st.booleans(),
)
def test_lessons_are_gathered_by_part_of_the_own_queries_or_of_the_rounds(
    made_of: RankerSettings,
    one_step: bool,
    seed: int,
    round: int,
    pdgd: PdgdSettings,
    partition: str,
    by_query: bool,
) -> None:
    views = divided(ragged(seed), partition, seed=seed)
    population = Population(views, INFORMATIONAL, page_length=4)
    training = literal.Training(
        made_of, pdgd, 3, 4, proximal=0.3, clip_norm=5.0, one_step=one_step, seed=seed, round=round
    )
    models = models_for(made_of, 1, seed)
    parts = np.zeros((len(views), 3, max(8, made_of.n_parameters)), np.float32)
    parts[:, :, 0] = 1.0  # what was there before stays
    expected = parts.astype(float)
    sent = literal_contributions(population, training, models[[0] * len(views)])
    for client, each in enumerate(sent):
        for page, step in zip(each.pages, each.steps, strict=True):
            part = (page.query if by_query else round) % 3
            expected[client, part, : made_of.n_parameters] += step
    run_round(population, training, models, parts=parts, parts_by_query=by_query)
    np.testing.assert_allclose(parts, expected, rtol=2e-4, atol=2e-5)


# --- the same bits

SETTINGS = {
    "linear": (RankerSettings(n_features=11), "single"),
    "half": (RankerSettings(n_features=11), "half"),
    "mlp": (RankerSettings(kind="mlp", n_features=11, hidden=6), "single"),
}
makes = pytest.mark.parametrize(("made_of", "precision"), SETTINGS.values(), ids=SETTINGS)


def crowd(n_clients: int, precision: Any = "single") -> Population:
    """More clients than blocks, of different quantities."""
    data = ragged(3, n_queries=40, most_documents=14, n_features=11)
    return Population(
        by_quantity(data, (1, 2, 5), n_clients=n_clients), INFORMATIONAL, precision=precision
    )


def everything(sums: RoundSums, updates: np.ndarray) -> tuple[Any, ...]:
    return (
        sums.differences.tobytes(),
        sums.n_interactions.tobytes(),
        sums.ndcg,
        sums.max_rr,
        sums.clicks,
        updates.tobytes(),
    )


@makes
@two_threads
@pytest.mark.parametrize("n_clients", [3, MOST_BLOCKS + 77])
def test_bits_are_the_same_for_any_number_of_threads(
    made_of: RankerSettings, precision: str, n_clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.federate.local_training._LITTLE_WORK", 0.0)
    population = crowd(n_clients, precision)
    training = literal.Training(made_of, queries_per_round=2, seed=7)
    models = models_for(made_of, 2, 1)
    group = (np.arange(n_clients) % 2).astype(np.int32)
    found = []
    for n in (1, 2, 1):
        with threads_limited(n):
            found.append(
                everything(*run_round(population, training, models, model_of_client=group))
            )
    assert found[0] == found[1] == found[2]


@two_threads
def test_number_of_threads_is_put_back_after_little_work() -> None:
    population = crowd(3)
    training = literal.Training(RankerSettings(n_features=11))
    for n in (1, 2):
        with threads_limited(n):
            run_round(population, training, models_for(training.ranker, 1, 1))
            assert numba.get_num_threads() == n


@makes
def test_seed_round_and_client_number_decide_what_is_drawn(
    made_of: RankerSettings, precision: str
) -> None:
    population = crowd(40, precision)
    models = models_for(made_of, 1, 1)
    first = literal.Training(made_of, seed=7)
    base = run_round(population, first, models)
    others = [first._replace(seed=8), first._replace(round=1), first._replace(seed=7 + 2**32)]
    for other in others:
        found = run_round(population, other, models)
        assert (found[1] != base[1]).any(axis=1).mean() > 0.5  # most clients learn something else
    # Clients 0 and 3 are alike but for their number.
    assert population.views[0] is population.views[3]
    assert (base[1][0] != base[1][3]).any()


@makes
@pytest.mark.parametrize("n_participants", [1, 5, 200])
def test_who_else_takes_part_changes_nobody(
    made_of: RankerSettings, precision: str, n_participants: int
) -> None:
    population = crowd(300, precision)
    training = literal.Training(made_of, queries_per_round=2, seed=7)
    models = models_for(made_of, 1, 1)
    some = np.sort(stream(1, "some").choice(300, n_participants, replace=False))
    _, all_updates = run_round(population, training, models)
    sums, updates = run_round(population, training, models, participants=some)
    assert updates.tobytes() == all_updates[some].tobytes()
    weights = population.n_interactions(2)[some, None]
    np.testing.assert_allclose(sums.differences[0], (weights * updates.astype(float)).sum(axis=0))
    assert sums.n_interactions.tolist() == [weights.sum()]


def test_sums_hold_what_clients_sent_for_each_model() -> None:
    made_of = RankerSettings(n_features=11)
    population = crowd(MOST_BLOCKS * 2 + 1)
    group = stream(2, "group").integers(0, 4, population.n_clients).astype(np.int32)
    training = literal.Training(made_of, queries_per_round=2, seed=7)
    sums, updates = run_round(
        population, training, models_for(made_of, 5, 1), model_of_client=group
    )
    n = population.n_interactions(2)
    for model in range(5):
        members = group == model
        assert sums.n_interactions[model] == n[members].sum()
        total = (n[members, None] * updates[members].astype(float)).sum(axis=0)
        np.testing.assert_allclose(sums.differences[model], total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_features", [1, 7, 8, 9])
@settings(max_examples=3)
@given(seed=seeds)
def test_number_of_features_need_not_fill_a_register(n_features: int, seed: int) -> None:
    made_of = RankerSettings(n_features=n_features)
    population = Population(
        iid(ragged(seed, n_features=n_features), 4), INFORMATIONAL, page_length=4
    )
    assert population.arrays.features.shape[1] % 8 == 0
    assert not population.arrays.features[:, n_features:].any()
    training = literal.Training(made_of, queries_per_round=3, page_length=4, seed=seed)
    models = models_for(made_of, 1, seed)
    sent = literal_contributions(population, training, models[[0] * 4])
    assert_same_round(*run_round(population, training, models), sent, np.zeros(4))


# --- half precision


def stored_features(population: Population) -> np.ndarray:
    """Return what half precision keeps, as numbers."""
    arrays = population.arrays
    return (arrays.features * arrays.units.astype(float))[:, : population.n_features]


def half(views: Views) -> Population:
    return Population(views, INFORMATIONAL, page_length=4, precision="half")


@settings(max_examples=10)
@given(seed=seeds, partition=st.sampled_from(PARTITIONS))
def test_half_precision_trains_as_single_precision_on_the_stored_features(
    seed: int, partition: str
) -> None:
    made_of = RANKERS["linear"]
    data = ragged(seed)
    population = half(divided(data, partition, seed=seed))
    kept = replace(data, features=stored_features(population).astype(np.float32))
    alike = Population(divided(kept, partition, seed=seed), INFORMATIONAL, page_length=4)
    training = literal.Training(made_of, queries_per_round=3, page_length=4, seed=seed)
    models = models_for(made_of, 1, seed)
    sent = literal_contributions(alike, training, models[[0] * len(alike.views)])
    for found in (population, alike):
        assert_same_round(*run_round(found, training, models), sent, np.zeros(len(sent)))


def test_neural_rankers_are_refused_in_half_precision() -> None:
    made_of = RANKERS["relu"]
    training = literal.Training(made_of)
    with pytest.raises(SettingsError, match="half precision is for linear rankers"):
        run_round(half(iid(ragged(1), 3)), training, models_for(made_of, 1, 1))


@pytest.mark.parametrize(("seed", "round"), [(-1, 0), (2**64, 0), (0, -1), (0, 2**32), (0.5, 0)])
def test_seeds_and_rounds_that_do_not_fit_are_refused(seed: Any, round: Any) -> None:
    training = literal.Training(RANKERS["linear"], seed=seed, round=round)
    population = Population(iid(ragged(1), 3), INFORMATIONAL)
    with pytest.raises(SettingsError, match=r"seed|round"):
        run_round(population, training, models_for(RANKERS["linear"], 1, 1))
