"""log32 and exp32 against NumPy in double precision."""

from __future__ import annotations

import math
from typing import Any, Final

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.random import stream
from cloister.core.single_precision import exp32, log32

TINY = float(np.finfo(np.float32).tiny)  # the smallest normal number
LARGEST = float(np.finfo(np.float32).max)

# Compiled anew each time: machine code kept on disk outlives a change of what it calls.
_OPTIONS: Final = {"error_model": "numpy", "cache": False}


@numba.njit(**_OPTIONS)
def logs(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = log32(x[i])
    return out


@numba.njit(**_OPTIONS)
def exponentials(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = exp32(x[i])
    return out


@numba.njit(fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)
def sum_of_exponentials(x: Any) -> Any:
    total = np.float32(0.0)
    for i in range(len(x)):
        total += exp32(x[i])
    return total


def every_exponent() -> np.ndarray:
    """Return mantissas of all sorts with every exponent that a normal number has."""
    rng = stream(1, "test", "single precision")
    mantissas = np.concatenate([[1.0, math.sqrt(2), 2 - 2**-23], 1 + rng.random(200)])
    return (mantissas[:, None] * 2.0 ** np.arange(-126, 128)).astype(np.float32).ravel()


def test_logarithms_are_right_for_every_exponent() -> None:
    x = every_exponent()
    expected = np.log(x.astype(float))
    error = np.abs(logs(x) - expected) / np.maximum(1, np.abs(expected))
    assert error.max() < 3e-7


def test_logarithms_near_1_keep_their_relative_precision() -> None:
    # -log(u) of the largest random numbers: without this, Gumbel noise would have a wrong tail.
    one = np.float32(1).view(np.int32)
    x = (one + np.arange(-100_000, 100_000, dtype=np.int32)).view(np.float32)
    x = x[x != 1]
    expected = np.log(x.astype(float))
    assert np.abs(logs(x) / expected - 1).max() < 3e-7
    assert (logs(x[x < 1]) < 0).all()
    assert log32(np.float32(1)) == 0


def test_every_random_number_has_a_gumbel_value() -> None:
    # The random generator gives the middles of 2^23 parts; these are those at both ends.
    ends = np.concatenate([np.arange(1000), 2**23 - 1 - np.arange(1000)])
    u = ((ends + 0.5) / 2**23).astype(np.float32)
    found = -logs(-logs(u))
    expected = -np.log(-np.log(u.astype(float)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_exponentials_are_right_over_the_whole_range() -> None:
    rng = stream(2, "test", "single precision")
    x = np.concatenate([np.linspace(-87.3, 88, 200_001), rng.normal(size=50_000)])
    x = np.clip(x.astype(np.float32), np.float32(-87.3), np.float32(88))
    assert np.abs(exponentials(x) / np.exp(x.astype(float)) - 1).max() < 2e-7
    assert exp32(np.float32(0)) == 1


@pytest.mark.parametrize(
    ("beyond", "clamp"),
    [(-87.31, -87.3), (-1000.0, -87.3), (-math.inf, -87.3), (88.1, 88.0), (math.inf, 88.0)],
)
def test_exponentials_are_clamped_to_what_is_a_normal_number(beyond: float, clamp: float) -> None:
    found = exp32(np.float32(beyond))
    assert found == exp32(np.float32(clamp))
    assert TINY <= found < math.inf


@given(st.floats(TINY, LARGEST, width=32))
def test_any_logarithm_is_right(x: float) -> None:
    assert float(log32(np.float32(x))) == pytest.approx(math.log(x), rel=3e-7, abs=3e-7)


@given(st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=40))
def test_a_number_does_not_depend_on_its_neighbours(values: list[float]) -> None:
    x = np.array(values, np.float32)
    assert exponentials(x).tolist() == [float(exp32(value)) for value in x]
    positive = np.exp(x)
    assert logs(positive).tolist() == [float(log32(value)) for value in positive]


def test_sums_in_any_order_are_as_good() -> None:
    x = stream(3, "test", "single precision").normal(size=1003).astype(np.float32)
    expected = np.exp(x.astype(float)).sum()
    assert sum_of_exponentials(x) == pytest.approx(expected, rel=1e-6)
