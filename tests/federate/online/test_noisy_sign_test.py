"""The sign test on noisy counts: against sums worked out by hand, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cloister.core.random import stream
from cloister.federate.online.noisy_sign_test import SignTest, VoteCounts, exceeded_with
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise

N_NODES = 3


def literal_threshold(chance: float, n_signs: int, n_noises: int, scale: float) -> int:
    """Add variables one after the other, value by value."""
    reach = 60 if n_noises else 0
    p = math.exp(-1 / scale)
    noise = np.array([(1 - p) / (1 + p) * p ** abs(x) for x in range(-reach, reach + 1)])
    total, lowest = np.array([1.0]), 0
    for one, low in [([0.5, 0.0, 0.5], -1)] * n_signs + [(noise, -reach)] * n_noises:
        total, lowest = np.convolve(total, one), lowest + low
    values = np.arange(lowest, lowest + len(total))
    return next(int(t) for t in values if math.fsum(total[values > t]) <= chance)


@pytest.mark.parametrize("chance", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize(("n_signs", "n_noises"), [(0, 2), (7, 0), (12, 4), (51, 6)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_thresholds_are_those_of_the_exact_distribution(
    chance: float, n_signs: int, n_noises: int, scale: float
) -> None:
    expected = literal_threshold(chance, n_signs, n_noises, scale)
    assert exceeded_with(chance, n_signs, n_noises, scale) == expected


@pytest.mark.parametrize("n", [10, 33, 200])
def test_without_noise_it_is_the_sign_test(n: int) -> None:
    threshold = exceeded_with(0.05, n, 0, 1.0)
    fewest = next(w for w in range(n + 1) if stats.binom.sf(w - 1, n, 0.5) <= 0.05)
    passing = next(w for w in range(n + 1) if 2 * w - n > threshold)
    assert passing == fewest


def test_the_threshold_for_very_many_votes_is_a_bound() -> None:
    exact = exceeded_with(0.05, 2**17, 6, 1.0)
    bounded = exceeded_with(0.05, 2**17 + 1, 6, 1.0)
    assert exact < bounded < 2 * exact
    assert SignTest().verdict([VoteCounts(2**40, -(2**40))]).better is False  # no votes in sum


def promoted_share(chance_of_win: float, n_trials: int, n_users: int, test: SignTest) -> float:
    """Return how often a candidate is promoted whose users prefer it with this chance."""
    rng = stream(3, "trials", str(chance_of_win), n_users)
    source = SimulatedNoise(rng)
    promoted = 0
    for _ in range(n_trials):
        wins = rng.binomial(n_users // N_NODES, chance_of_win, N_NODES)
        counts = np.stack([wins, n_users // N_NODES - wins], axis=1).ravel()
        noised = source.discrete_laplace(counts, 1 / test.epsilon).reshape(N_NODES, 2)
        promoted += test.verdict([VoteCounts(*row) for row in noised.tolist()]).better
    return promoted / n_trials


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("n_users", [24, 120])
def test_a_ranker_that_is_not_better_is_promoted_at_most_alpha_of_the_time(
    epsilon: float, n_users: int
) -> None:
    test, n_trials = SignTest(alpha=0.05, min_votes=1, epsilon=epsilon), 1500
    slack = 3 * math.sqrt(0.05 * 0.95 / n_trials)
    assert promoted_share(0.5, n_trials, n_users, test) <= 0.05 + slack
    assert promoted_share(0.4, n_trials, n_users, test) <= 0.02


def chance_of_promotion(test: SignTest, n_users: int) -> float:
    """Return how likely a fair candidate is promoted by one node's votes: all outcomes added up."""
    p = math.exp(-test.epsilon)
    reach = max(3, math.ceil(30 / test.epsilon))
    noise = {x: (1 - p) / (1 + p) * p ** abs(x) for x in range(-reach, reach + 1)}
    margins = 2 * np.arange(n_users + 1) - n_users
    chances = stats.binom.pmf(np.arange(n_users + 1), n_users, 0.5)
    total = 0.0
    for more, of_more in noise.items():
        for less, of_less in noise.items():
            n_votes = n_users + more + less
            if of_more * of_less < 1e-12 or n_votes < test.min_votes:
                continue
            threshold = test.verdict([VoteCounts(n_votes, 0)]).threshold
            total += of_more * of_less * chances[margins + more - less > threshold].sum()
    return total


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("epsilon", [2.0, 5.0, 12.0, 100.0])
def test_the_level_is_kept_exactly_whether_votes_are_even_or_odd(
    alpha: float, epsilon: float
) -> None:
    test = SignTest(alpha=alpha, epsilon=epsilon)
    for n_users in (20, 21, 26, 27, 31, 34, 40, 45):
        assert chance_of_promotion(test, n_users) <= alpha


def test_a_much_better_ranker_is_promoted() -> None:
    test = SignTest(alpha=0.05, epsilon=1.0)
    assert promoted_share(0.8, 200, 120, test) > 0.97
    assert promoted_share(0.95, 200, 45, test) > 0.97


def test_the_test_is_not_empty_of_power_where_candidates_are_equal() -> None:
    """A test that never promotes would also keep its level."""
    test = SignTest(alpha=0.05, min_votes=1, epsilon=1.0)
    assert promoted_share(0.5, 1500, 120, test) > 0.01


def test_too_few_votes_promote_nobody() -> None:
    counts = [VoteCounts(12, 0)]
    assert SignTest(min_votes=12).verdict(counts).better
    assert not SignTest(min_votes=13).verdict(counts).better
    assert not SignTest(min_votes=1).verdict([]).better
