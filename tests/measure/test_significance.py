"""The paired t-test against SciPy's, and its correction."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.measure.significance import compare_with_baseline, paired_t_test

shares = st.floats(0, 1).map(lambda x: round(x, 3))


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(shares, shares), min_size=2, max_size=60))
def test_t_and_p_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    system, baseline = map(np.array, zip(*pairs, strict=True))
    assume(np.ptp(system - baseline) > 1e-6)
    ours, theirs = paired_t_test(system, baseline), ttest_rel(system, baseline)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    assert ours.mean_difference == pytest.approx(system.mean() - baseline.mean(), abs=1e-12)
    assert (ours.n, ours.n_dropped) == (len(pairs), 0)


def test_a_far_tail_keeps_its_digits() -> None:
    system = 1.0 + 1e-3 * stream(51).normal(size=30)
    ours, theirs = paired_t_test(system, np.zeros(30)), ttest_rel(system, np.zeros(30))
    assert 0 < ours.p_value < 1e-60
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-6)


def test_the_two_tails_are_alike() -> None:
    a, b = [0.5, 0.7, 0.9, 0.4], [0.4, 0.8, 0.6, 0.2]
    there, back = paired_t_test(a, b), paired_t_test(b, a)
    assert (there.t, there.p_value) == (-back.t, back.p_value)


def test_bonferroni_multiplies_by_the_number_of_comparisons() -> None:
    a, b = [0.50, 0.70, 0.90, 0.40, 0.80], [0.42, 0.65, 0.84, 0.31, 0.77]
    single = paired_t_test(a, b)
    assert single.p_corrected == single.p_value < 0.01
    corrected = paired_t_test(a, b, n_comparisons=12)
    assert corrected.p_corrected == pytest.approx(12 * single.p_value)
    assert (single.significant, corrected.significant) == (True, False)
    assert paired_t_test(a, b, n_comparisons=10**6).p_corrected == 1.0
    many = compare_with_baseline({str(i): a for i in range(12)}, b)
    assert set(many.values()) == {corrected}


def test_the_correction_keeps_false_alarms_below_alpha() -> None:
    rng = stream(52)
    baseline = rng.normal(size=(400, 20))
    alarms = corrected_alarms = 0
    for run in baseline:
        systems = {str(i): run + rng.normal(size=20) for i in range(10)}
        outcomes = compare_with_baseline(systems, run, alpha=0.05).values()
        alarms += any(outcome.p_value < 0.05 for outcome in outcomes)
        corrected_alarms += any(outcome.significant for outcome in outcomes)
    assert 0.33 < alarms / 400 < 0.47  # 1 - 0.95^10 = 0.40
    assert 0.02 < corrected_alarms / 400 < 0.085  # 1 - 0.995^10 = 0.049


def test_equal_systems_do_not_differ() -> None:
    a = [0.1, 0.5, 0.9]
    outcome = paired_t_test(a, a)
    assert (outcome.mean_difference, outcome.t, outcome.p_value) == (0.0, 0.0, 1.0)
    assert not outcome.significant


def test_rounding_is_no_difference() -> None:
    exact = stream(53).random(1000)
    rounded = exact * (1 + 2.3e-16)
    assert not np.array_equal(exact, rounded)
    assert paired_t_test(rounded, exact).p_value == 1.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_constant_difference_is_certain(sign: int) -> None:
    baseline = np.array([0.25, 0.5, 0.75])
    outcome = paired_t_test(baseline + sign * 0.125, baseline)
    assert (outcome.t, outcome.p_value, outcome.significant) == (sign * math.inf, 0.0, True)


def test_pairs_with_a_skipped_query_are_left_out_as_pairs() -> None:
    nan = math.nan
    outcome = paired_t_test([0.5, nan, 0.9, 0.4, nan], [0.4, 0.1, 0.6, nan, nan])
    assert (outcome.n, outcome.n_dropped) == (2, 3)
    assert outcome._replace(n_dropped=0) == paired_t_test([0.5, 0.9], [0.4, 0.6])


@pytest.mark.parametrize(
    ("system", "baseline"),
    [([0.5], [0.4]), ([0.5, math.nan], [0.4, 0.1]), ([], []), ([1, 2], [1, 2, 3]),
     ([[1, 2]], [[1, 2]]), ([1.0, math.inf], [0.0, 0.0])],
)  # fmt: skip
def test_values_that_cannot_be_compared_are_refused(
    system: list[float], baseline: list[float]
) -> None:
    with pytest.raises(DataError):
        paired_t_test(system, baseline)


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(SettingsError, match="n_comparisons"):
        paired_t_test([1.0, 2.0], [0.0, 0.0], n_comparisons=0)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(SettingsError, match="alpha"):
            paired_t_test([1.0, 2.0], [0.0, 0.0], alpha=alpha)


def test_importing_the_statistics_loads_no_scipy() -> None:
    code = (
        "import sys, cloister.measure.significance, cloister.measure.bootstrap;"
        "sys.exit(any(name.split('.')[0] in ('scipy', 'numba') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
