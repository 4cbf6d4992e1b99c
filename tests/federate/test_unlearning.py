"""Unlearning against a literal loop, and what it must not depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from cloister.core.errors import BudgetExceeded, DataError, SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import Views, iid, with_quantities
from cloister.data.source import load_fold
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FpdgdSettings, local_rule
from cloister.federate.local_training import train_clients
from cloister.federate.population import Population
from cloister.federate.retraining import Retraining, ShortRetraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.krum import Krum
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Sent
from cloister.federate.unlearning import FedEraser, calibrated, unlearning_seed
from cloister.federate.update_store import KeptRound, MemoryUpdateStore
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.rank.ranker import Ranker, RankerSettings
from federate.made_clients import PERFECT, divided, ragged, two_threads

SETTINGS = FpdgdSettings(queries_per_round=3)
FIRST = Ranker.initial(RankerSettings(n_features=5))


class Opposite:
    """The thesis's malicious client (eq. 6.4) with z = 2, played by the last clients."""

    def __init__(self, n_attackers: int) -> None:
        self.n_attackers = n_attackers

    def tampered(self, sent: Sent) -> NDArray[np.float64]:
        arrived = sent.updates.copy()
        arrived[-self.n_attackers :] = -2 * arrived[-self.n_attackers :] - 3 * sent.model
        return arrived


def _population(views: Views | None = None) -> Population:
    return Population(iid(ragged(1), 6) if views is None else views, PERFECT)


def _history(
    population: Population, *, keep: str = "lengths", settings: FpdgdSettings = SETTINGS
) -> list[KeptRound]:
    store = MemoryUpdateStore(keep_every=2, keep="updates" if keep == "updates" else "lengths")
    learner = RobustFPDGD(
        population,
        FIRST,
        rule=WeightedMean(),
        tampering=Opposite(1),
        observers=[store],
        settings=settings,
        seed=5,
    )
    for _ in range(9):
        learner.step()
    return store.kept_rounds()


def _unlearned(population: Population, history: list[KeptRound], forgotten: list[int]) -> Ranker:
    seed = unlearning_seed(5, forgotten)
    return FedEraser(
        population,
        FIRST,
        history=history,
        forgotten=forgotten,
        local_steps=2,
        seed=seed,
        settings=SETTINGS,
    ).run()


def _literally(
    population: Population, history: list[KeptRound], forgotten: list[int], steps: int
) -> NDArray[np.float64]:
    """Thesis section 6.1.2, steps 1 to 4, one client at a time."""
    model = FIRST.parameters.astype(np.float64)
    for number, kept in enumerate(history):
        total, weight = np.zeros_like(model), 0.0
        for client, length in zip(kept.clients.tolist(), kept.lengths.tolist(), strict=True):
            if client in forgotten:
                continue
            new = np.zeros((1, len(model)), np.float32)
            train_clients(
                population,
                np.array([client]),
                model.astype(np.float32)[None],
                FIRST.settings.shape,
                SETTINGS.pdgd.pair_rule,
                local_rule(SETTINGS),
                queries_per_round=steps,
                seed=unlearning_seed(5, forgotten),
                round=number,
                updates=new,
            )
            direction = new[0].astype(np.float64)
            size = np.sqrt(sum(value**2 for value in direction))
            if size > 0:
                total += length * direction / size
            weight += 1.0
        model = model + total / weight
    return model


@pytest.mark.parametrize("forgotten", [[5], [0, 5], [1, 2, 3, 4]])
def test_fed_eraser_is_the_loop_of_the_thesis(forgotten: list[int]) -> None:
    population = _population()
    history = _history(population)
    expected = _literally(population, history, forgotten, 2)
    found = _unlearned(population, history, forgotten)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found.parameters, expected, rtol=1e-5, atol=1e-7)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3))),
    arrays(np.float64, 4, elements=st.floats(0, 1e3).map(lambda x: round(x, 3))),
)
def test_calibration_takes_old_lengths_and_new_directions(
    updates: NDArray[np.float64], lengths: NDArray[np.float64]
) -> None:
    found = calibrated(updates, lengths)
    for new, old, given_update in zip(found, lengths, updates, strict=True):
        size = np.linalg.norm(given_update)
        if size == 0 or old == 0:
            continue
        np.testing.assert_allclose(np.linalg.norm(new), old, rtol=1e-9)
        np.testing.assert_allclose(new / old, given_update / size, atol=1e-9)
    assert (found[lengths == 0] == 0).all()
    assert (found[(updates == 0).all(axis=1)] == 0).all()


def test_lengths_serve_as_well_as_updates_bit_by_bit() -> None:
    population = _population()
    rankers = [
        _unlearned(population, _history(population, keep=keep), [5])
        for keep in ("updates", "lengths")
    ]
    assert np.array_equal(rankers[0].parameters, rankers[1].parameters)


def test_nothing_depends_on_the_forgotten_clients_data_or_record() -> None:
    population = _population()
    history = _history(population)
    expected = _unlearned(population, history, [5]).parameters
    views = list(population.views)
    views[5] = replace(views[5], labels=2 - views[5].data.labels)
    without = [kept.without([5]) for kept in history]
    found = _unlearned(_population(tuple(views)), without, [5]).parameters
    assert np.array_equal(found, expected)
    assert not np.array_equal(_unlearned(population, history, [4]).parameters, expected)


def test_the_order_in_which_clients_are_named_does_not_matter() -> None:
    population = _population()
    history = _history(population)
    one, other = (_unlearned(population, history, gone) for gone in ([5, 2], [2, 5, 2]))
    assert np.array_equal(one.parameters, other.parameters)


@two_threads
def test_unlearning_has_the_same_bits_for_any_number_of_threads() -> None:
    before = numba.get_num_threads()
    train = load_fold("world:features?queries=60&documents=100&features=40").train
    first = Ranker.initial(RankerSettings(n_features=40))
    found = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            population = Population(iid(train, 70), click_model("informational", 5))
            kept = MemoryUpdateStore(keep_every=2)
            learner = RobustFPDGD(population, first, rule=WeightedMean(), observers=[kept], seed=1)
            for _ in range(6):
                learner.step()
            eraser = FedEraser(
                population, first, history=kept.kept_rounds(), forgotten=[69, 3], seed=2
            )
            found.append(eraser.run().parameters)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(found[0], found[1])


def test_retraining_is_training_as_if_the_last_client_had_never_been() -> None:
    views = iid(ragged(1), 6)
    learner = RobustFPDGD(
        _population(views[:5]), FIRST, rule=WeightedMean(), settings=SETTINGS, seed=5
    )
    for _ in range(7):
        learner.step()
    again = Retraining(
        _population(views), FIRST, forgotten=[5], n_planned=7, seed=5, settings=SETTINGS
    )
    assert np.array_equal(again.run().parameters, learner.ranker.parameters)


def test_costs_are_counted() -> None:
    population = _population()
    history = _history(population)
    eraser = FedEraser(population, FIRST, history=history, forgotten=[5, 0], local_steps=2, seed=1)
    short = ShortRetraining(population, FIRST, forgotten=[5, 0], n_planned=5, local_steps=2, seed=1)
    long = Retraining(population, FIRST, forgotten=[5, 0], n_planned=9, seed=1, settings=SETTINGS)
    for learner in (eraser, short, long):
        learner.run()
    assert eraser.cost == short.cost == (5, 20, 40)  # 5 kept rounds x 4 clients x 2 steps
    assert long.cost == (9, 36, 108)


def test_rankers_come_one_a_round_and_end_where_a_run_does() -> None:
    population = _population()
    history = _history(population)
    made = [
        FedEraser(population, FIRST, history=history, forgotten=[5], local_steps=2, seed=3)
        for _ in range(2)
    ]
    along = list(made[0].rankers())
    assert len(along) == len(history) == made[0].n_planned
    assert np.array_equal(along[-1].parameters, made[1].run().parameters)


def test_streams_differ_from_the_training_and_between_requests() -> None:
    seeds = {5, *(unlearning_seed(5, gone) for gone in ([5], [4], [4, 5])), unlearning_seed(6, [5])}
    assert len(seeds) == 5
    assert unlearning_seed(5, [4, 5]) == unlearning_seed(5, [5, 4, 4])


def test_clients_with_quantities_of_their_own_do_equal_steps_with_their_old_weights() -> None:
    views = with_quantities(iid(ragged(1), 6), (1, 4))
    population = _population(views)
    history = _history(population)
    eraser = FedEraser(population, FIRST, history=history[:1], forgotten=[5], local_steps=2, seed=1)
    ranker = eraser.run()
    assert eraser.cost.n_client_steps == 10
    plain = _population()
    new = np.zeros((5, 5), np.float32)
    train_clients(
        plain,
        np.arange(5),
        FIRST.parameters[None],
        FIRST.settings.shape,
        FpdgdSettings().pdgd.pair_rule,
        local_rule(FpdgdSettings()),
        queries_per_round=2,
        seed=1,
        round=0,
        updates=new,
    )
    weights = np.array([1.0, 4.0, 1.0, 4.0, 1.0])
    expected = weights @ calibrated(new.astype(np.float64), history[0].lengths[:5]) / weights.sum()
    np.testing.assert_allclose(ranker.parameters, expected, rtol=1e-5, atol=1e-8)


def test_only_those_take_part_who_did_in_the_kept_round() -> None:
    population = _population()
    history = _history(population, settings=SETTINGS.model_copy(update={"participants": 2}))
    gone = int(history[0].clients[0])
    eraser = FedEraser(population, FIRST, history=history, forgotten=[gone], seed=1)
    n = [len(set(kept.clients.tolist()) - {gone}) for kept in history]
    eraser.run()
    assert eraser.cost == (sum(k > 0 for k in n), sum(n), 3 * sum(n))


def test_a_rule_can_be_chosen() -> None:
    class Nothing(Rule):
        name = "nothing"

        def most_attackers(self, n: int) -> int:
            return n

        def choose(self, received: Received, n_attackers: int) -> Chosen:
            return Chosen(np.zeros(received.updates.shape[1]), np.zeros(received.n, np.bool_))

    population = _population()
    history = _history(population)
    eraser = FedEraser(population, FIRST, history=history, forgotten=[5], seed=1, rule=Nothing())
    assert np.array_equal(eraser.run().parameters, FIRST.parameters)
    assert eraser.n_unused.sum() == 5 * len(history)


def test_attackers_who_stay_tamper_with_calibrated_updates() -> None:
    seen: list[Sent] = []

    class Watching(Opposite):
        def tampered(self, sent: Sent) -> NDArray[np.float64]:
            seen.append(sent)
            return super().tampered(sent)

    population = _population()
    history = _history(population)
    attacked = FedEraser(
        population, FIRST, history=history, forgotten=[5], seed=1, tampering=Watching(1)
    ).run()
    honest = FedEraser(population, FIRST, history=history, forgotten=[5], seed=1).run()
    assert not np.array_equal(attacked.parameters, honest.parameters)
    for sent, kept in zip(seen, history, strict=True):
        found = np.linalg.norm(sent.updates, axis=1)
        moved = found > 0
        np.testing.assert_allclose(found[moved], kept.without([5]).lengths[moved], rtol=1e-9)


def test_each_round_is_recorded_before_it_is_made() -> None:
    population = _population()
    history = _history(population)
    told: list[Release] = []

    def record(release: Release) -> None:
        if len(told) == 2:
            raise BudgetExceeded("enough")
        told.append(release)

    eraser = FedEraser(population, FIRST, history=history, forgotten=[5], seed=1, record=record)
    with pytest.raises(BudgetExceeded):
        eraser.run()
    assert eraser.n_rounds == 2
    assert all(isinstance(one, UnprotectedRelease) and "anew" not in one.mechanism for one in told)
    assert told[0].n_values == 5
    assert "those who stay" in told[0].note


@pytest.mark.parametrize(
    ("forgotten", "steps", "words"),
    [([6], 2, "no client 6"), ([-1], 2, "no client -1"), (list(range(6)), 2, "nobody"),
     ([5], 0, "at least 1")],
)  # fmt: skip
def test_what_cannot_be_forgotten_is_refused(forgotten: list[int], steps: int, words: str) -> None:
    population = _population()
    history = _history(population)
    with pytest.raises(SettingsError, match=words):
        FedEraser(
            population, FIRST, history=history, forgotten=forgotten, local_steps=steps, seed=1
        )


def test_without_a_history_there_is_nothing_to_unlearn_from() -> None:
    population = _population()
    history = [kept.without([0, 1, 2, 3, 4]) for kept in _history(population)]
    for empty in ([], history):
        with pytest.raises(SettingsError, match="nothing is kept"):
            FedEraser(population, FIRST, history=empty, forgotten=[5], seed=1)


def test_retraining_needs_somebody() -> None:
    with pytest.raises(SettingsError, match="nobody would be left"):
        Retraining(_population(), FIRST, forgotten=list(range(6)), n_planned=2, seed=1)


@pytest.mark.parametrize("partition", ["intents", "clicks", "everything"])
def test_clients_who_differ_can_be_forgotten(partition: str) -> None:
    population = _population(divided(ragged(1), partition, seed=1))
    history = _history(population)
    forgotten = [population.n_clients - 1]
    found = _unlearned(population, history, forgotten)
    assert np.isfinite(found.parameters).all()
    assert found.parameters.any()


def test_a_poisoned_ranker_recovers_on_real_data(real_data: Callable[[str], Path]) -> None:
    fold = load_fold(str(real_data("ltr/mq2008")))
    model = click_model("perfect", 3)
    population = Population(iid(fold.train, 10), model)
    first = Ranker.initial(RankerSettings(n_features=46))
    evaluation = Evaluation(iid(fold.test, 10), model, seed=1)
    settings = FpdgdSettings(queries_per_round=5)
    store = MemoryUpdateStore(keep_every=10)
    learner = RobustFPDGD(
        population,
        first,
        rule=WeightedMean(),
        tampering=Opposite(3),
        observers=[store],
        settings=settings,
        seed=1,
    )
    for _ in range(2000):
        learner.step()
    eraser = FedEraser(
        population,
        first,
        history=store.kept_rounds(),
        forgotten=[7, 8, 9],
        seed=unlearning_seed(1, [7, 8, 9]),
        settings=settings,
    )
    before = evaluation.measure_one(learner.ranker).ndcg
    after = evaluation.measure_one(eraser.run()).ndcg
    assert after > before + 0.04
    assert eraser.cost.n_client_steps == 200 * 7 * 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_lengths_that_are_none_are_refused(value: float) -> None:
    population = _population()
    history = _history(population)
    history[1].lengths[2] = value
    with pytest.raises(DataError, match="not a finite number"):
        _unlearned(population, history, [5])


@pytest.mark.parametrize(
    ("beyond", "forgotten", "expected"),
    [("mark", [5], 2), ("refuse", [5], 1), ("mark", [3, 4, 5], 0), ("mark", [1, 2, 3, 4, 5], 0)],
)
def test_a_rule_expects_no_more_than_it_bears_among_those_who_stay(
    beyond: Beyond, forgotten: list[int], expected: int
) -> None:
    population = _population()
    rule = Krum(n_attackers=2, beyond="mark")
    learner = FedEraser(
        population, FIRST, history=_history(population), forgotten=forgotten, seed=1, rule=rule
    )
    rule.beyond = beyond
    assert learner.fewest_participants == 6 - len(forgotten)
    assert learner.expect_bearable() == 2 - expected
    assert rule.n_attackers == expected
    learner.run()
    assert learner.n_client_steps_planned == learner.cost.n_client_steps
