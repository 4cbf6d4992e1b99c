"""Clipping: the exact norm of what comes out never exceeds the bound."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.clipping import Norm, clipped

LEAST = 5e-324  # the smallest double
MOST = 1.7976931348623157e308
vectors = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda kind: arrays(
        kind,
        st.integers(1, 12),
        elements=st.floats(width=kind(0).itemsize * 8, allow_nan=False, allow_infinity=False),
    )
)
bounds = st.floats(LEAST, MOST, allow_subnormal=True)
norms = st.sampled_from(["l1", "l2"])


def power_of_norm(values: NDArray[Any], norm: Norm) -> Fraction:
    """Return the exact norm, or its square."""
    exact = [abs(Fraction(float(value))) for value in values]
    return sum(exact) if norm == "l1" else sum(value**2 for value in exact)


def power_of_bound(bound: float, norm: Norm) -> Fraction:
    return Fraction(bound) if norm == "l1" else Fraction(bound) ** 2


@given(vectors, bounds, norms)
@example(np.full(3, MOST), MOST, "l2")
@example(np.full(3, MOST), LEAST, "l2")
@example(np.full(12, LEAST), LEAST, "l1")
@example(np.array([MOST, LEAST, 1.0]), 1e300, "l2")
@example(np.array([2.5e-323, 1e-323], np.float64), 1.5e-323, "l2")
@example(np.full(9, 1e-45, np.float32), 1e-45, "l2")
@settings(max_examples=400)
def test_exact_norm_never_exceeds_the_bound(
    values: NDArray[Any], clip_norm: float, norm: Norm
) -> None:
    result = clipped(values, clip_norm, norm=norm)
    assert result.dtype == values.dtype
    assert power_of_norm(result, norm) <= power_of_bound(clip_norm, norm)


@given(vectors, bounds, norms)
@example(np.array([MOST, 1.5 * 2**-50]), 0.9 * MOST, "l2")
@settings(max_examples=150)
def test_clipping_never_grows_a_value_nor_turns_its_sign(
    values: NDArray[Any], clip_norm: float, norm: Norm
) -> None:
    result = clipped(values, clip_norm, norm=norm)
    assert (np.abs(result) <= np.abs(values)).all()
    assert (result * np.sign(values) >= 0).all()


@given(vectors, bounds, norms)
@settings(max_examples=150)
def test_short_vectors_are_not_changed_and_clipping_twice_is_clipping_once(
    values: NDArray[Any], clip_norm: float, norm: Norm
) -> None:
    once = clipped(values, clip_norm, norm=norm)
    if power_of_norm(values, norm) <= power_of_bound(clip_norm, norm):
        assert (once == values).all()
    assert (clipped(once, clip_norm, norm=norm) == once).all()


@given(vectors, st.floats(1e-30, 1e30), norms)
@settings(max_examples=150)
def test_long_vectors_keep_their_direction_and_nearly_all_of_the_bound(
    values: NDArray[Any], clip_norm: float, norm: Norm
) -> None:
    if power_of_norm(values, norm) <= power_of_bound(clip_norm, norm):
        return
    result = clipped(values, clip_norm, norm=norm).astype(np.float64)
    rounding = 1e-6 if values.dtype == np.float32 else 1e-13
    assert power_of_norm(result, norm) >= (1 - Fraction(rounding)) ** 2 * power_of_bound(
        clip_norm, norm
    )
    direction = values / np.abs(values.astype(np.float64)).max()
    assert result / np.abs(result).max() == pytest.approx(direction, rel=2 * rounding, abs=1e-7)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("n_values", [136, 20_000])
def test_long_vectors_of_many_values_stay_within_the_bound(
    kind: type[Any], norm: Norm, n_values: int
) -> None:
    values = np.random.default_rng(1).normal(size=n_values).astype(kind)
    result = clipped(values, 0.1, norm=norm)
    assert power_of_norm(result, norm) <= power_of_bound(0.1, norm)
    assert float(power_of_norm(result, norm)) == pytest.approx(
        float(power_of_bound(0.1, norm)), rel=1e-6
    )
    assert (clipped(result, 0.1, norm=norm) == result).all()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_bounds_of_a_few_of_the_smallest_doubles_hold(norm: Norm) -> None:
    rng = np.random.default_rng(2)
    for n_steps in range(1, 150):
        for _ in range(8):
            result = clipped(rng.uniform(0.5, 1.0, rng.integers(2, 12)), n_steps * LEAST, norm=norm)
            steps = (result / LEAST).astype(int)
            assert (steps * LEAST == result).all()
            length = steps.sum() if norm == "l1" else math.sqrt((steps**2).sum())
            assert length <= n_steps


def test_a_vector_exactly_as_long_as_the_bound_is_kept_and_one_bit_more_is_not() -> None:
    assert clipped([3.0, 4.0], 5.0).tolist() == [3.0, 4.0]
    longer = np.array([3.0, math.nextafter(4.0, 5.0)])
    result = clipped(longer, 5.0)
    assert (result < longer).all()
    assert power_of_norm(result, "l2") <= 25


def test_zero_vectors_stay_and_the_input_is_not_touched() -> None:
    assert clipped(np.zeros(3), 1e-300).tolist() == [0, 0, 0]
    values = np.array([[3.0, 4.0]])
    result = clipped(values, 1.0)
    assert result.shape == (1, 2)
    assert values.tolist() == [[3.0, 4.0]]
    same = clipped(values, 10.0)
    same[0, 0] = 7
    assert values[0, 0] == 3


@pytest.mark.parametrize(
    "bad", [[], 1.0, [math.nan], [1.0, math.inf], ["a"], [1j], [True], [[1.0], [1.0, 2.0]]], ids=str
)
def test_what_is_no_finite_vector_is_refused(bad: Any) -> None:
    with pytest.raises(DataError):
        clipped(bad, 1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_that_bounds_nothing_is_refused(bad: float) -> None:
    with pytest.raises(SettingsError):
        clipped([1.0], bad)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(SettingsError):
        clipped([1.0], 1.0, norm="l3")  # type: ignore[arg-type]
