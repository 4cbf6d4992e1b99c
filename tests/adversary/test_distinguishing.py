from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cloister.adversary.distinguishing import (
    epsilon_ceiling,
    epsilon_lower_bound,
    laplace_log_ratio,
    normal_log_ratio,
)
from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.releases.gaussian import GaussianRelease


def exact_limits(k: int, n: int, risk: float) -> tuple[float, float]:
    """Clopper and Pearson's limits by scipy, each wrong with the chance ``risk``."""
    interval = stats.binomtest(k, n).proportion_ci(1 - 2 * risk, method="exact")
    return interval.low, interval.high


# --- the bound


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_of_scores_with_two_values_the_bound_is_clopper_and_pearsons(delta: float) -> None:
    n, rng = 4001, stream(1, "two values")
    first, second = (rng.random(n) < 0.1) * 1.0, (rng.random(n) < 0.7) * 1.0
    found = epsilon_lower_bound(first, second, delta=delta, confidence=0.96)
    half = n // 2
    hits, alarms = int(second[half:].sum()), int(first[half:].sum())
    n_judged, risk = n - half, 0.01
    upwards = (
        exact_limits(hits, n_judged, risk)[0] - delta,
        exact_limits(alarms, n_judged, risk)[1],
    )
    downwards = (
        exact_limits(n_judged - alarms, n_judged, risk)[0] - delta,
        exact_limits(n_judged - hits, n_judged, risk)[1],
    )
    expected = max(math.log(upwards[0] / upwards[1]), math.log(downwards[0] / downwards[1]))
    assert found.epsilon == pytest.approx(expected, rel=1e-9)
    assert found.true_positive_rate - delta == pytest.approx(upwards[0], rel=1e-9)
    assert found.false_positive_rate == pytest.approx(upwards[1], rel=1e-9)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_bound_is_wrong_no_more_often_than_stated(confidence: float) -> None:
    rng = stream(2, "coverage")
    n_repetitions, n_wrong = 400, 0
    for _ in range(n_repetitions):
        # An event of which both chances are known: the ratio is exactly e.
        first, second = rng.random((2, 500))
        bound = epsilon_lower_bound(
            (first < 0.3 / math.e) * 1.0, (second < 0.3) * 1.0, confidence=confidence
        )
        n_wrong += bound.epsilon > 1
    allowed = stats.binom.ppf(0.9999, n_repetitions, 1 - confidence)
    assert n_wrong <= allowed


def test_of_laplace_noise_the_bound_is_below_the_truth_and_near_it() -> None:
    rng = stream(3, "laplace")
    bounds = [
        epsilon_lower_bound(
            laplace_log_ratio(rng.laplace(0, 0.5, 20_000), 1, 0.5),
            laplace_log_ratio(rng.laplace(1, 0.5, 20_000), 1, 0.5),
        ).epsilon
        for _ in range(100)
    ]
    assert np.mean(np.array(bounds) > 2) <= 0.05
    assert np.mean(bounds) > 1.75


def test_of_normal_noise_the_bound_is_below_the_accountants_epsilon_and_near_it() -> None:
    rng, delta = stream(4, "normal"), 0.01
    true = composed_epsilon({Loss("gaussian", 1.0): 1}, delta).epsilon
    bounds = [
        epsilon_lower_bound(rng.normal(0, 1, 50_000), rng.normal(1, 1, 50_000), delta=delta).epsilon
        for _ in range(40)
    ]
    assert max(bounds) < true
    assert np.mean(bounds) > 0.8 * true


def test_nothing_is_shown_of_inputs_that_look_alike() -> None:
    rng = stream(5, "alike")
    bounds = [epsilon_lower_bound(*rng.normal(size=(2, 2000))).epsilon for _ in range(300)]
    # Any bound above 0 is wrong here: one in a hundred may be.
    assert np.count_nonzero(bounds) <= stats.binom.ppf(0.9999, 300, 0.01)
    same = np.ones(1000)
    assert epsilon_lower_bound(same, same).epsilon == 0


@pytest.mark.parametrize("apart", [0.3, 1.0, math.inf])
def test_inputs_that_are_always_told_apart_give_the_ceiling(apart: float) -> None:
    rng = stream(6, "apart")
    first, second = rng.uniform(-0.1, 0.1, (2, 1000))
    found = epsilon_lower_bound(first, second + apart, delta=1e-3)
    assert found.epsilon == found.ceiling == epsilon_ceiling(1000, delta=1e-3)
    low, high = exact_limits(500, 500, 0.0025)[0], exact_limits(0, 500, 0.0025)[1]
    assert found.ceiling == pytest.approx(math.log((low - 1e-3) / high))


def test_a_loss_in_either_direction_is_found() -> None:
    # What never happens with one input and rarely with the other gives that other away.
    rng = stream(7, "one side")
    often, never = (rng.random(100_000) < 0.05) * 1.0, np.zeros(100_000)
    for first, second in ((never, often), (-often, never)):
        assert epsilon_lower_bound(first, second).epsilon > 5
        # Scores that speak for the wrong input show nothing.
        assert epsilon_lower_bound(second, first).epsilon == 0


def test_more_trials_show_more() -> None:
    rng = stream(8, "more")
    first, second = rng.normal(0, 1, 100_000), rng.normal(2, 1, 100_000)
    bounds = [epsilon_lower_bound(first[:n], second[:n]).epsilon for n in (300, 5000, 100_000)]
    assert bounds == sorted(bounds)
    assert epsilon_ceiling(300) < epsilon_ceiling(5000) < epsilon_ceiling(100_000)


scores = st.lists(st.integers(-20, 20), min_size=2, max_size=60)


@given(scores, scores, st.sampled_from([0.0, 0.1]))
def test_the_bound_lies_between_nothing_and_the_ceiling(
    first: list[int], second: list[int], delta: float
) -> None:
    n = min(len(first), len(second))
    found = epsilon_lower_bound(first[:n], second[:n], delta=delta)
    assert 0 <= found.epsilon <= found.ceiling
    # Which input is called first, and the unit of the score, do not matter.
    swapped = epsilon_lower_bound(np.negative(second[:n]), np.negative(first[:n]), delta=delta)
    assert swapped.epsilon == pytest.approx(found.epsilon)
    scaled = epsilon_lower_bound(4 * np.array(first[:n]), 4 * np.array(second[:n]), delta=delta)
    assert scaled == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1.0, math.nan], [1.0, 2.0]), "not numbers"),
        (([1.0, 2.0], [1.0, 2.0, 3.0]), "as many trials"),
        (([[1.0, 2.0]], [[1.0, 2.0]]), "one number"),
    ],
)
def test_scores_that_are_none_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        epsilon_lower_bound(*arguments)


@pytest.mark.parametrize(
    "wrong", [{"delta": -0.1}, {"delta": 1.0}, {"confidence": 0}, {"confidence": 1}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        epsilon_lower_bound([1.0, 2.0], [1.0, 2.0], **wrong)
    with pytest.raises(SettingsError, match="n_trials"):
        epsilon_lower_bound([1.0], [1.0])


# --- likelihood ratios

values = st.floats(-50, 50)
shifts = st.floats(-5, 5)
widths = st.floats(0.5, 10)


@given(values, shifts, widths)
def test_ratios_are_those_of_the_densities(value: float, shift: float, width: float) -> None:
    normal = stats.norm.logpdf(value, shift, width) - stats.norm.logpdf(value, 0, width)
    assert normal_log_ratio(value, shift, width) == pytest.approx(normal, abs=1e-6)
    laplace = stats.laplace.logpdf(value, shift, width) - stats.laplace.logpdf(value, 0, width)
    assert laplace_log_ratio(value, shift, width) == pytest.approx(laplace, abs=1e-6)


@given(st.integers(-50, 50), st.integers(-5, 5), widths)
def test_of_whole_numbers_they_are_those_of_the_discrete_noise(
    value: int, shift: int, width: float
) -> None:
    noise = stats.dlaplace(1 / width)
    laplace = noise.logpmf(value - shift) - noise.logpmf(value)
    assert laplace_log_ratio(value, shift, width) == pytest.approx(laplace, abs=1e-6)


@given(values, st.floats(0.5, 5), widths, st.floats(0.001, 0.999))
def test_a_sampled_ratio_is_that_of_the_mixture(
    value: float, shift: float, sigma: float, rate: float
) -> None:
    without = stats.norm.pdf(value, 0, sigma)
    mixture = rate * stats.norm.pdf(value, shift, sigma) + (1 - rate) * without
    if without > 1e-300:
        found = normal_log_ratio(value, shift, sigma, sampling_rate=rate)
        assert found == pytest.approx(math.log(mixture / without), rel=1e-6, abs=1e-9)


def test_a_sampled_ratio_beyond_all_exponents_is_a_number() -> None:
    far = normal_log_ratio([1e6, -1e6], 1.0, 0.01, sampling_rate=0.25)
    plain = normal_log_ratio(1e6, 1.0, 0.01)
    assert far == pytest.approx([plain + math.log(0.25), math.log(0.75)])


def test_a_part_of_a_unit_can_turn_the_whole_unit_round() -> None:
    # A user's clipped sum of gradients: {-3, +6} gives +1, and without the second it is -1.
    release = GaussianRelease(level="user", sigma=1.0, sensitivity=1.0)
    rng = np.random.default_rng(1)
    first, second = rng.normal(-1, 1, 200_000), rng.normal(1, 1, 200_000)
    shown = epsilon_lower_bound(first, second, delta=1e-6).epsilon
    of_user = composed_epsilon(losses_of([release], Level.USER), 1e-6).epsilon
    of_interaction = composed_epsilon(losses_of([release], Level.INTERACTION), 1e-6).epsilon
    assert of_user < shown < of_interaction
