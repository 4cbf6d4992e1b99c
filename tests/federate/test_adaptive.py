"""The adaptive rule: FedAvg while all are alike, and a way out and back for those who are not."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.federate.client_groups import N_PARTS, distance_from_chance
from cloister.federate.protected_update import UpdateProtection
from cloister.federate.rules.adaptive import FAR, FIRST_TEST, LONGEST, PATIENCE, Adaptive
from cloister.federate.rules.behaviour import (
    Behaviour,
    _consistency,
    _effect,
    _first_direction,
    _smaller_side,
)
from cloister.federate.rules.groups import plan_groups
from cloister.federate.rules.rule import Aggregated
from cloister.federate.secure_sum import secure_sum
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise

N = 10
D = 20


def drawn(round: int, seed: int, n: int = N) -> np.ndarray:
    """Return what honest clients send: a common direction and as much chance."""
    return 0.3 + stream(seed, "honest", round).standard_normal((n, D))


def attacked(round: int, seed: int, attackers: Sequence[int], push: float = 1.2) -> np.ndarray:
    updates = drawn(round, seed)
    updates[list(attackers)] -= push
    return updates


def train(rule: Adaptive, rounds: range, seed: int, attackers: list[int]) -> list[Aggregated]:
    return [
        rule.aggregate(attacked(round, seed, attackers), np.arange(N), round=round)
        for round in rounds
    ]


def test_with_honest_clients_it_is_the_mean_bit_by_bit() -> None:
    """Normal updates lie within four times the usual distance, so that none is cut off."""
    rule = Adaptive()
    for round in range(400):
        updates = drawn(round, 3)
        outcome = rule.aggregate(updates, np.arange(N), round=round)
        mean = np.zeros(D)
        for update in updates:
            mean += update
        assert np.array_equal(outcome.update, mean / N)
        assert outcome.used.all()
    assert rule.decisions == []


def test_false_alarms_are_rare_among_honest_clients() -> None:
    suspended = 0
    for seed in range(30):
        rule = Adaptive()
        train(rule, range(200), seed, [])
        suspended += len(rule.suspended)
    assert suspended == 0  # 30 runs of four tests: at 6 standard deviations none is expected


@pytest.mark.parametrize("attackers", [[4], [0, 9], [1, 2, 3], [5, 6, 7, 8]])
def test_attackers_are_suspended_and_nobody_else(attackers: list[int]) -> None:
    rule = Adaptive()
    outcomes = train(rule, range(4 * FIRST_TEST), 1, attackers)
    assert rule.suspended == tuple(attackers)
    assert rule.decisions[0].certainty > 6
    honest = np.setdiff1d(np.arange(N), attackers)
    assert outcomes[-1].used.tolist() == np.isin(np.arange(N), honest).tolist()
    last = attacked(4 * FIRST_TEST - 1, 1, attackers)[honest]
    assert np.allclose(outcomes[-1].update, last.mean(axis=0))


def test_when_attackers_are_found_the_model_is_as_if_they_had_not_been_there() -> None:
    rule = Adaptive()
    outcomes = train(rule, range(FIRST_TEST), 1, [7, 8])
    assert rule.suspended == (7, 8)
    honest = [attacked(r, 1, [7, 8])[[0, 1, 2, 3, 4, 5, 6, 9]] for r in range(FIRST_TEST)]
    expected = np.sum([updates.mean(axis=0) for updates in honest], axis=0)
    found = np.sum([outcome.update for outcome in outcomes], axis=0)
    assert np.allclose(found, expected)


def test_what_a_client_gave_long_ago_stays_in_the_model() -> None:
    rule = Adaptive()
    train(rule, range(LONGEST), 1, [])
    outcomes = train(rule, range(LONGEST, LONGEST + FIRST_TEST), 1, [7, 8])
    assert rule.suspended == (7, 8)
    sent = [attacked(r, 1, [7, 8]) for r in range(LONGEST, LONGEST + FIRST_TEST)]
    kept = [updates[[0, 1, 2, 3, 4, 5, 6, 9]].mean(axis=0) for updates in sent]
    assert np.allclose(np.sum([o.update for o in outcomes], axis=0), np.sum(kept, axis=0))


def test_a_copy_goes_on_as_the_rule_would_and_leaves_it_alone() -> None:
    rule, same = Adaptive(), Adaptive()
    for chosen in (rule, same):
        train(chosen, range(300), 1, [7, 8])
    twin = copy.deepcopy(rule)
    ahead = train(twin, range(300, 1700), 1, [])
    assert twin.decisions != rule.decisions
    for mine, theirs in zip(train(rule, range(300, 1700), 1, []), ahead, strict=True):
        assert np.array_equal(mine.update, theirs.update)
    assert twin.decisions == rule.decisions
    fields = [name for name in vars(rule) if isinstance(vars(rule)[name], np.ndarray | list)]
    assert all(vars(copy.deepcopy(rule))[name] is not vars(rule)[name] for name in fields)


def test_who_behaves_again_is_taken_back_and_waits_longer_the_second_time() -> None:
    rule = Adaptive()
    rounds = iter(range(10**6))
    waits = []
    for _ in range(2):
        began = next(rounds)
        while not rule.suspended:
            train(rule, range(began := next(rounds), began + 1), 2, [7, 8])
        out = began
        while rule.suspended:
            train(rule, range(began := next(rounds), began + 1), 2, [])
        waits.append(began - out)
    assert waits[0] >= PATIENCE - 1
    assert waits[1] >= 2 * waits[0] - 1


def test_an_attacker_who_comes_and_goes_is_out_most_of_the_time() -> None:
    rule = Adaptive()
    used = 0
    rounds = 6_000
    for round in range(rounds):
        attackers = [7, 8, 9] if round % 200 < 100 else []
        updates = attacked(round, 5, attackers)
        used += int(rule.aggregate(updates, np.arange(N), round=round).used[7:].sum())
    assert used < 0.25 * 3 * rounds


def test_half_of_the_clients_or_more_are_never_suspended() -> None:
    rule = Adaptive()
    train(rule, range(200), 1, [5, 6, 7, 8, 9])
    assert len(rule.suspended) < N / 2
    assert not all(decision.is_clear for decision in rule.decisions)


@given(st.integers(0, 2**32), st.floats(1e-3, 1e6), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_before_anybody_is_found_an_attacker_pulls_no_further_than_the_bound(
    seed: int, strength: float, n_attackers: int
) -> None:
    """The mean moves by at most the attackers' share of the farthest that is let through."""
    honest = drawn(0, seed)
    sent = honest.copy()
    sent[:n_attackers] *= -strength
    outcome = Adaptive().aggregate(sent, np.arange(N))
    middle = np.median(sent, axis=0)
    usual = np.sqrt(np.median(((sent - middle) ** 2).sum(axis=1)))
    kept = np.minimum(1.0, FAR * usual / np.linalg.norm(sent - middle, axis=1))
    literal = (middle + (sent - middle) * kept[:, None]).mean(axis=0)
    assert np.allclose(outcome.update, literal)
    assert np.linalg.norm(outcome.update - middle) <= FAR * usual * (1 + 1e-9)


def test_clients_that_come_now_and_then_are_judged_by_their_own_turns() -> None:
    rule = Adaptive()
    attackers = [36, 37, 38, 39]
    for round in range(600):
        rng = stream(9, "turns", round)
        clients = np.sort(rng.choice(40, 10, replace=False))
        updates = drawn(round, 9)
        updates[np.isin(clients, attackers)] -= 1.2
        rule.aggregate(updates, clients, round=round)
    assert rule.suspended == tuple(attackers)


@pytest.mark.parametrize("group_size", [2, 3])
def test_in_groups_attackers_are_found_too(group_size: int) -> None:
    rule = Adaptive(group_size=group_size, seed=4)
    train(rule, range(2_000), 1, [8, 9])
    assert rule.suspended == (8, 9)


def test_groups_need_no_more_than_what_secure_aggregation_gives() -> None:
    """The rule has the same outcome if each update is replaced by its group's secure mean."""
    plain, summed = Adaptive(group_size=5, seed=4), Adaptive(group_size=5, seed=4)
    for round in range(6):
        updates = drawn(round, 8)
        expected = plain.aggregate(updates, np.arange(N), round=round)
        plan = plan_groups(np.zeros(N, np.bool_), 5, stream(4, "groups", round))
        means = np.empty_like(updates)
        for group in range(plan.group.max() + 1):
            rows = np.flatnonzero(plan.group == group)
            means[rows] = _secure_mean(updates[rows], seed=round)
        found = summed.aggregate(means, np.arange(N), round=round)
        assert np.allclose(found.update, expected.update, atol=3e-3)


def _secure_mean(updates: np.ndarray, *, seed: int) -> np.ndarray:
    """Return the mean by the whole protocol, with little noise."""
    agreed = UpdateProtection(
        clip_norm=64.0, sigma=5e-4, min_survivors=len(updates), n_values=updates.shape[1]
    )
    named = {f"client-{i}": update for i, update in enumerate(updates)}
    source = SimulatedNoise(np.random.default_rng(seed))
    return secure_sum(named, agreed, source).values / len(updates)


@given(
    st.integers(1, 40),
    st.integers(1, 8),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
@settings(max_examples=200, deadline=None)
def test_groups_are_never_smaller_than_asked_for(
    n: int, group_size: int, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    suspended = rng.random(n) < share
    suspended[0] = False
    plan = plan_groups(suspended, group_size, rng)
    sizes = np.bincount(plan.group[plan.group >= 0])
    assert (sizes >= group_size).all()
    assert not plan.used[suspended].any()
    for group in range(len(sizes)):  # a sum is used whole or not at all
        assert len(set(plan.used[plan.group == group].tolist())) == 1
    if (~suspended).sum() >= group_size:
        assert plan.used.any()
    assert (plan.group[plan.watched] >= 0).all()


def test_suspended_clients_are_not_always_seen_together() -> None:
    suspended = np.array([False] * 8 + [True] * 2)
    rng = np.random.default_rng(1)
    together = [plan_groups(suspended, 3, rng).watched[8:].sum() for _ in range(50)]
    assert set(together) == {1}


def test_a_group_of_no_client_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        Adaptive(group_size=0)


@pytest.mark.parametrize("n", [60, 150])
def test_the_direction_in_which_clients_differ_is_an_eigenvector(n: int) -> None:
    values = stream(1, "test", n).standard_normal((n, 5))
    products = values @ np.diag([9.0, 1.0, 1.0, 1.0, -3.0]) @ values.T
    found = _first_direction(products)
    largest = np.linalg.eigvalsh(products)[-1]
    assert np.allclose(products @ found, largest * found, atol=1e-6 * largest)


def test_pushes_are_added_up_as_written() -> None:
    behaviour = Behaviour(seed=5)
    expected = np.zeros((N, N_PARTS, D))
    for round in range(30):
        pushes = attacked(round, 6, [3])
        trusted = np.arange(N) != 3
        behaviour.observe(np.arange(N), pushes, trusted)
        part = stream(5, "parts", round // N_PARTS).permutation(N_PARTS)[round % N_PARTS]
        expected[:, part] += pushes - pushes[trusted].mean(axis=0)
    assert np.allclose(behaviour._sums[:N], expected)
    assert behaviour.turns(np.array([0, 99])).tolist() == [30, 0]
    assert _smaller_side(expected).tolist() == [3]
    found = behaviour.find(np.arange(N), certainty=6.0, least_effect=0.0)
    assert found.certainty == pytest.approx(distance_from_chance(expected * N_PARTS / 30))


def test_long_vectors_are_folded_and_tell_the_same() -> None:
    behaviour = Behaviour(seed=2)
    for round in range(60):
        pushes = stream(1, "long", round).standard_normal((N, 2_000))
        pushes[8:, :400] -= 1.0
        behaviour.observe(np.arange(N), pushes, np.ones(N, np.bool_))
    assert behaviour._sums.shape[2] == 256
    found = behaviour.find(np.arange(N), certainty=6.0, least_effect=0.1)
    assert found.suspects.tolist() == [8, 9]


def test_the_effect_is_the_distance_of_the_sides_without_chance() -> None:
    rng = stream(3, "effect")
    some = 2.0 * np.eye(1, D) + rng.standard_normal((400, N_PARTS, D))
    others = rng.standard_normal((400, N_PARTS, D))
    assert _effect(some, others) == pytest.approx(2.0, abs=0.05)
    assert _effect(some[:, :, 1:], others[:, :, 1:]) < 0.1


def test_consistency_is_near_normal_where_parts_are_chance() -> None:
    values = _consistency(stream(4, "chance").standard_normal((4_000, N_PARTS, D)))
    assert abs(values.mean()) < 0.06
    assert abs(values.std() - 1.0) < 0.06
    steady = 1.0 + stream(4, "steady").standard_normal((10, N_PARTS, D))
    assert _consistency(steady).min() > 6


def test_an_attacker_who_lets_directions_cancel_is_found() -> None:
    """Hard pushes in even rounds, next to nothing the other way in odd ones."""
    rule = Adaptive()
    for round in range(4 * FIRST_TEST):
        updates = drawn(round, 7)
        updates[7:] = (1e-6 if round % 2 else -4.0) * np.full(D, np.sqrt(1.1))
        rule.aggregate(updates, np.arange(N), round=round)
    assert rule.suspended == (7, 8, 9)


def test_never_are_half_of_all_clients_suspended_however_they_take_turns() -> None:
    rule = Adaptive()
    for first in (0, 4):
        rounds = range(500 * first, 500 * first + 400)
        train(rule, rounds, 1, list(range(first, first + 4)))
        assert len(rule.suspended) < N / 2
    assert not all(decision.is_clear for decision in rule.decisions)


def test_many_attackers_with_ways_of_their_own_do_not_get_honest_clients_suspended() -> None:
    n, n_attackers = 150, 10
    ways = stream(1, "ways").standard_normal((n_attackers, D))
    rule = Adaptive()
    for round in range(FIRST_TEST + 1):
        updates = drawn(round, 3, n)
        updates[:n_attackers] += 0.5 * ways
        rule.aggregate(updates, np.arange(n), round=round)
    assert set(rule.suspended) <= set(range(n_attackers))


def test_a_client_is_taken_back_though_another_goes_on_attacking() -> None:
    rule = Adaptive()
    train(rule, range(100), 2, [7, 8])
    assert rule.suspended == (7, 8)
    train(rule, range(100, 100 + 3 * PATIENCE), 2, [8])
    assert rule.suspended == (8,)


def test_staying_away_is_no_good_behaviour() -> None:
    rule = Adaptive()
    train(rule, range(60), 2, [8, 9])
    for round in range(60, 60 + 2 * PATIENCE):
        rule.aggregate(drawn(round, 2)[:8], np.arange(8), round=round)
    assert rule.suspended == (8, 9)


def test_a_round_of_suspended_clients_alone_moves_nothing() -> None:
    rule = Adaptive()
    train(rule, range(60), 2, [8, 9])
    outcome = rule.aggregate(np.full((2, D), 5.0), [8, 9], round=60)
    assert not outcome.update.any()
    assert not outcome.used.any()


def test_new_names_do_not_switch_the_tests_off() -> None:
    rule = Adaptive()
    for round in range(2 * FIRST_TEST):
        updates = attacked(round, 3, [7, 8])
        rule.aggregate(updates, [0, 1, 2, 3, 4, 5, 6, 7, 8, 1_000 + round], round=round)
    assert rule.suspended == (7, 8)


def test_names_may_be_any_numbers() -> None:
    rule = Adaptive()
    names = [10**12 + 7 * client for client in range(N)]
    for round in range(2 * FIRST_TEST):
        rule.aggregate(attacked(round, 3, [7, 8]), names, round=round)
    assert rule.suspended == (names[7], names[8])


def test_too_few_clients_for_a_group_move_nothing() -> None:
    rule = Adaptive(group_size=5, seed=1)
    outcome = rule.aggregate(drawn(0, 1, 4), np.arange(4))
    assert not outcome.update.any()
    assert not outcome.used.any()


def test_honest_clients_that_differ_a_little_are_left_alone() -> None:
    """Each has a wish of its own, too small to matter; over many rounds it is beyond chance."""
    wishes = 0.12 * stream(1, "wishes").standard_normal((N, D))
    rule = Adaptive()
    for round in range(4 * LONGEST):
        rule.aggregate(drawn(round, 4) + wishes, np.arange(N), round=round)
    assert rule.suspended == ()
    bold = Adaptive(least_effect=0.0)
    for round in range(4 * LONGEST):
        bold.aggregate(drawn(round, 4) + wishes, np.arange(N), round=round)
    assert bold.decisions
