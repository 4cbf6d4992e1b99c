"""Round-robin SGD: turns, hand-overs, protection; equal to plain SGD for one party."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloister.core.errors import BudgetExceeded, DataError
from cloister.core.random import stream
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.linear_learners import LinearLearner
from cloister.federate.silos.round_robin import HandOver, RoundRobinSettings, round_robin
from cloister.federate.silos.runs import PartyRows
from cloister.rank import pairwise, pointwise

TRUE = np.array([2.0, -1.0, 0.0])


def made(seed: int, n_queries: int = 20, shift: float = 0.0) -> RankingData:
    rng = np.random.default_rng(seed)
    features = rng.random((n_queries * 10, 3))
    score = features @ TRUE + shift + 0.1 * rng.standard_normal(len(features))
    labels = np.clip(np.round(score), 0, 2).astype(np.int8)
    return RankingData(features, labels, np.arange(0, len(features) + 1, 10))


def rows(seed: int, **made_as: Any) -> PartyRows:
    data = made(seed, **made_as)
    return PartyRows(data, np.ones(data.n_rows))


def test_turns_go_round_as_a_slow_loop_says() -> None:
    settings = pointwise.PointwiseSettings()
    parties = {"a": rows(1), "b": rows(2), "c": rows(3)}
    learner = LinearLearner(settings, RoundRobinSettings(epochs=3, average_last=1))
    expected = pointwise.initial_parameters(3, settings)
    for epoch in range(3):
        for party, own in parties.items():
            rng = stream(7, "round-robin", epoch, party)
            expected = pointwise.sgd_pass(expected, own.data, rng, settings, n_done=epoch)
    found = learner.learn(parties, seed=7)  # type: ignore[arg-type]
    assert found.parameters.tobytes() == expected.tobytes()  # type: ignore[attr-defined]


def test_averaging_gives_the_mean_of_the_last_turns() -> None:
    seen: list[np.ndarray] = []

    def take_pass(parameters: np.ndarray, rows: float, *, rng: Any, epoch: int) -> np.ndarray:
        seen.append(parameters + rows)
        return seen[-1]

    parties = {"a": 1.0, "b": 10.0, "c": 100.0}
    found = round_robin(
        np.zeros(2),
        parties,  # type: ignore[arg-type]
        take_pass,
        seed=1,
        settings=RoundRobinSettings(epochs=2, average_last=0),
    )
    assert found == pytest.approx(np.mean(seen[-3:], axis=0))


@pytest.mark.parametrize("settings", [pointwise.PointwiseSettings(), pairwise.PairwiseSettings()])
def test_a_federated_ranker_learns_what_the_parties_have_in_common(settings: Any) -> None:
    parties = {name: rows(seed) for seed, name in enumerate("abcd")}
    ranker = LinearLearner(settings).learn(parties, seed=1)  # type: ignore[arg-type]
    test = made(99)
    order = np.corrcoef(ranker.score(test), test.features @ TRUE)[0, 1]
    assert order > 0.95


def test_one_party_alone_hands_nothing_over() -> None:
    sent: list[HandOver] = []
    LinearLearner(on_hand_over=sent.append).learn({"a": rows(1)}, seed=1)  # type: ignore[dict-item]
    assert sent == []


def test_each_turn_of_several_parties_is_one_hand_over_to_the_next() -> None:
    sent: list[HandOver] = []
    learner = LinearLearner(round_robin=RoundRobinSettings(epochs=2), on_hand_over=sent.append)
    ranker = learner.learn({"a": rows(1), "b": rows(2), "c": rows(3)}, seed=1)  # type: ignore[dict-item]
    assert [one.sender for one in sent] == list("abcabc")
    assert [one.recipient for one in sent] == list("bcabca")
    n_sent = sum(one.n_values for one in sent if one.sender == "a")
    assert n_sent == learner.n_crossing(ranker)


def test_a_ledger_that_refuses_stops_the_training_before_anything_leaves() -> None:
    left: list[np.ndarray] = []

    def refuse(leaving: HandOver) -> None:
        raise BudgetExceeded("no budget", where=leaving.sender)

    def protect(before: np.ndarray, after: np.ndarray, leaving: HandOver) -> np.ndarray:
        left.append(after)
        return after

    learner = LinearLearner(on_hand_over=refuse, protection=protect)
    with pytest.raises(BudgetExceeded, match="no budget"):
        learner.learn({"a": rows(1), "b": rows(2)}, seed=1)  # type: ignore[dict-item]
    assert left == []


def test_what_the_next_party_sees_is_what_the_protection_lets_out() -> None:
    begun: list[np.ndarray] = []

    def take_pass(parameters: np.ndarray, rows: float, *, rng: Any, epoch: int) -> np.ndarray:
        begun.append(parameters.copy())
        return parameters + rows

    def protect(before: np.ndarray, after: np.ndarray, leaving: HandOver) -> np.ndarray:
        return before + np.clip(after - before, -1, 1)

    found = round_robin(
        np.zeros(1),
        {"a": 5.0, "b": 7.0},  # type: ignore[dict-item]
        take_pass,
        seed=1,
        settings=RoundRobinSettings(epochs=2, average_last=1),
        protection=protect,
    )
    assert [one[0] for one in begun] == [0, 1, 2, 3]
    assert found[0] == 4


def test_nobody_is_refused() -> None:
    with pytest.raises(DataError, match="nobody"):
        round_robin(np.zeros(1), {}, lambda p, r, *, rng, epoch: p, seed=1)
