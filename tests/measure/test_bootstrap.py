"""Bootstrap intervals: exact small cases, coverage, and degenerate input."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.measure.bootstrap import mean_difference_interval, mean_interval


@pytest.mark.parametrize("confidence", [0.4, 0.6, 0.8])
def test_a_percentile_interval_is_made_of_quantiles_of_all_resamples(confidence: float) -> None:
    values = [0.0, 1.0, 4.0, 11.0]
    means = np.sort([np.mean(drawn) for drawn in product(values, repeat=4)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    interval = mean_interval(values, rng=stream(61), confidence=confidence, n_resamples=20_000)
    assert interval.estimate == 4.0
    assert interval.low == pytest.approx(low, abs=0.26)  # the next mean is one step away
    assert interval.high == pytest.approx(high, abs=0.26)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_the_interval_of_many_values_is_the_normal_one(method: str) -> None:
    values = stream(62).normal(3.0, 2.0, size=2000)
    interval = mean_interval(values, rng=stream(63), method=method)  # type: ignore[arg-type]
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert interval.estimate == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_hold_the_true_mean_about_as_often_as_they_say(method: str) -> None:
    rng = stream(64, method)
    n_held = 0
    for sample in rng.beta(2, 3, size=(300, 60)):
        interval = mean_interval(
            sample,
            rng=rng,
            confidence=0.9,
            n_resamples=400,
            method=method,  # type: ignore[arg-type]
        )
        n_held += interval.low <= 0.4 <= interval.high
    assert 0.84 < n_held / 300 < 0.95  # 0.9 give or take 3 standard errors, and some bias


def test_pairs_give_a_narrower_interval_than_their_spread_suggests() -> None:
    rng = stream(65)
    difficulty = rng.random(200)
    system, baseline = difficulty + 0.01 + 0.001 * rng.normal(size=200), difficulty
    interval = mean_difference_interval(system, baseline, rng=rng)
    assert 0.0095 < interval.low < interval.estimate < interval.high < 0.0105


def test_skipped_queries_are_left_out() -> None:
    interval = mean_interval([0.5, math.nan, 1.0, 0.0], rng=stream(66))
    assert (interval.estimate, interval.n) == (0.5, 3)
    paired = mean_difference_interval(
        [0.5, math.nan, 1.0, 0.75], [0.25, 0.0, math.nan, 0.5], rng=stream(66)
    )
    assert (paired.estimate, paired.n) == (0.25, 2)


def test_the_generator_decides_the_resamples() -> None:
    values = stream(67).random(30)
    first = mean_interval(values, rng=stream(1), n_resamples=200)
    assert first == mean_interval(values, rng=stream(1), n_resamples=200)
    assert first != mean_interval(values, rng=stream(2), n_resamples=200)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_equal_values_give_a_point(method: str) -> None:
    interval = mean_interval([0.1] * 7, rng=stream(68), method=method)  # type: ignore[arg-type]
    assert (interval.low, interval.estimate, interval.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0] * 30 + [1.0], [0.3, 0.1 + 0.2]])
def test_nearly_equal_values_give_an_interval_around_the_mean(
    values: list[float], method: str
) -> None:
    interval = mean_interval(values, rng=stream(69), method=method)  # type: ignore[arg-type]
    assert min(values) <= interval.low <= interval.high <= max(values)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, math.nan], [0.5, math.inf]])
def test_too_few_values_are_refused(values: list[float]) -> None:
    with pytest.raises(DataError, match="two finite values"):
        mean_interval(values, rng=stream(70))


@pytest.mark.parametrize("values", [[[0.0, 1.0], [2.0, 3.0]], [[math.nan, 1.0, 2.0]], 0.5])
def test_values_that_are_not_one_list_are_refused(values: object) -> None:
    with pytest.raises(DataError, match="not the shape"):
        mean_interval(values, rng=stream(70))  # type: ignore[arg-type]


def test_settings_outside_their_range_are_refused() -> None:
    for confidence in (0.0, 1.0, 95):
        with pytest.raises(SettingsError, match="confidence"):
            mean_interval([0.0, 1.0], rng=stream(71), confidence=confidence)
    with pytest.raises(SettingsError, match="n_resamples"):
        mean_interval([0.0, 1.0], rng=stream(71), n_resamples=10)
    with pytest.raises(SettingsError, match="method"):
        mean_interval([0.0, 1.0], rng=stream(71), method="basic")  # type: ignore[arg-type]
