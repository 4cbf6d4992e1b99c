from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.kernel_obfuscation import (
    KernelObfuscation,
    TermFrequencyGuess,
    bayes_success,
    levels_of,
    statistical_distance,
)
from cloister.core.errors import DataError, SettingsError

BASES = [2.0, 2.5, 5.0, 10.0, 12.7]
kernel_values = st.floats(0, 1e9)


def literal_level(kernel: float, base: float) -> int:
    """ceil(log_base K) where K > 1, else 1, in exact arithmetic."""
    if kernel <= 1:
        return 1
    level = 1
    while Fraction(kernel) > Fraction(base) ** level:
        level += 1
    return level


@given(kernel_values, st.sampled_from(BASES))
def test_a_level_is_the_rounded_up_logarithm(kernel: float, base: float) -> None:
    assert levels_of(np.array([kernel]), base).tolist() == [literal_level(kernel, base)]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("power", range(1, 12))
def test_a_value_at_a_power_has_that_power_as_level(base: float, power: int) -> None:
    at = float(Fraction(base) ** power)
    near = [np.nextafter(at, 0.0), at, np.nextafter(at, np.inf)]
    assert levels_of(np.array(near), base).tolist() == [literal_level(k, base) for k in near]
    if Fraction(at) == Fraction(base) ** power:
        assert levels_of(np.array(near), base).tolist() == [power, power, power + 1]


def test_logarithms_would_miss_a_power() -> None:
    assert np.ceil(np.log(125.0) / np.log(5.0)) == 4  # why no logarithm is taken
    assert levels_of(np.array([125.0]), 5).tolist() == [3]


@given(st.lists(kernel_values, min_size=2, max_size=20), st.sampled_from(BASES))
def test_levels_rise_with_values(kernels: list[float], base: float) -> None:
    levels = levels_of(np.array(sorted(kernels)), base)
    assert (np.diff(levels.astype(int)) >= 0).all()
    assert levels.min() >= 1


@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf, 1e200])
def test_values_that_are_no_kernel_values_are_refused(wrong: float) -> None:
    with pytest.raises(DataError):
        levels_of(np.array([1.0, wrong]), 5)


def test_a_base_below_2_is_refused() -> None:
    with pytest.raises(SettingsError, match="base"):
        KernelObfuscation(base=1.0)


def test_features_are_sums_of_levels_over_query_terms() -> None:
    kernels = np.array([[[0.5, 30.0], [6.0, 5.0]], [[1.0, 1.0], [26.0, 0.0]]])
    obfuscation = KernelObfuscation(base=5)
    assert obfuscation.features(obfuscation.stored(kernels)).tolist() == [[3, 4], [4, 2]]


def test_plain_features_are_those_of_knrm() -> None:
    plain = KernelObfuscation(base=None)
    kernels = np.array([[0.0, 2.0], [3.0, 0.5]])
    wanted = 0.01 * np.array([np.log(1e-10) + np.log(3.0), np.log(2.0) + np.log(0.5)])
    assert plain.stored(kernels).dtype == plain.dtype == np.float32
    np.testing.assert_allclose(plain.features(plain.stored(kernels)), wanted, rtol=1e-6)


def test_a_statistical_distance_is_half_the_absolute_differences() -> None:
    a, b = np.array([1, 1, 3]), np.array([2, 1, 1])
    literal = sum(abs(x / 5 - y / 4) for x, y in zip(a, b, strict=True)) / 2
    assert statistical_distance(a, b) == pytest.approx(literal)
    assert statistical_distance(a, b, normalise=False) == 1.5


def test_a_small_statistical_distance_hides_nothing_from_who_knows_both_candidates() -> None:
    first = np.full(10, 3)
    second = first.copy()
    second[0] = 4
    assert statistical_distance(first, second) < 0.03
    guess = TermFrequencyGuess.learnt(np.stack([first, second]), np.array([0, 1]))
    assert guess.success == 1.0


samples = st.lists(
    st.tuples(st.tuples(st.integers(1, 3), st.integers(1, 2)), st.integers(0, 4)),
    min_size=1,
    max_size=30,
)


@given(samples, st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 2)), st.integers(0, 4)))
def test_no_rule_on_levels_beats_the_bayes_guess(
    sample: list[tuple[tuple[int, int], int]], rule: dict[tuple[int, int], int]
) -> None:
    levels = np.array([levels for levels, _ in sample], np.uint8)
    frequencies = np.array([tf for _, tf in sample])
    right = sum(rule.get(levels, 0) == tf for levels, tf in sample)
    guess = TermFrequencyGuess.learnt(levels, frequencies)
    best = float((guess.guess(levels) == frequencies).mean())
    assert best == pytest.approx(guess.success) == pytest.approx(bayes_success(levels, frequencies))
    assert right / len(sample) <= best + 1e-12
    assert guess.blind_success <= guess.success


def test_an_unknown_vector_is_answered_with_the_commonest_frequency() -> None:
    guess = TermFrequencyGuess.learnt(np.array([[1], [2], [3]]), np.array([2, 2, 9]))
    assert guess.guess(np.array([[7]])).tolist() == [2]
    with pytest.raises(DataError, match="rows of 1"):
        guess.guess(np.array([[7, 8]]))


def test_levels_tell_less_of_a_frequency_than_plain_values_do() -> None:
    rng = np.random.default_rng(3)
    tf = rng.geometric(0.3, 2000)
    kernels = np.exp(-0.5) * tf + rng.random(2000)  # the unmasked kernel at 0.9
    plain = bayes_success(kernels[:, None], tf)
    by_base = [bayes_success(levels_of(kernels, base)[:, None], tf) for base in (2.0, 5.0, 10.0)]
    assert plain == 1.0
    assert plain > by_base[0] > by_base[1] >= by_base[2]
