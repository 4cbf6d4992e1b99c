"""The tree's noise: against the estimate written out by least squares, and its variance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cloister.federate.dp_ftrl import TreeNoise, prefix_variance


def noise_by_least_squares(n_rounds: int) -> float:
    """Return the least variance of any unbiased estimate of the sum from all nodes below it.

    Written out for a whole tree over 2^h rounds: x are the rounds, each node observes a sum with
    noise of variance 1; generalised least squares gives the variance of the sum of all x.
    """
    rows = []
    span = 1
    while span <= n_rounds:
        for start in range(0, n_rounds, span):
            rows.append([1.0 if start <= i < start + span else 0.0 for i in range(n_rounds)])
        span *= 2
    design = np.array(rows)
    total = np.ones(n_rounds)
    return float(total @ np.linalg.inv(design.T @ design) @ total)


@pytest.mark.parametrize("n_rounds", [1, 2, 4, 8, 16, 32])
def test_a_full_tree_is_estimated_as_well_as_least_squares_can(n_rounds: int) -> None:
    assert prefix_variance(n_rounds) == pytest.approx(noise_by_least_squares(n_rounds))


def test_variances_are_the_printed_ones() -> None:
    def exact(height: int) -> Fraction:
        below = Fraction(1) if height == 0 else 2 * exact(height - 1)
        return Fraction(1) if height == 0 else below / (below + 1)

    for t in range(1, 70):
        heights = [h for h in range(t.bit_length()) if t >> h & 1]
        assert prefix_variance(t) == pytest.approx(float(sum(exact(h) for h in heights)))


def test_noise_drawn_has_the_stated_variance_at_every_round() -> None:
    rng = np.random.default_rng(5)
    noise = TreeNoise(lambda: rng.standard_normal(40_000), sigma=3.0)
    for t in range(1, 21):
        drawn = noise.next()
        assert drawn.var() == pytest.approx(9 * prefix_variance(t), rel=0.05)
        assert abs(drawn.mean()) < 0.1


def test_each_node_gets_its_noise_once() -> None:
    calls: list[int] = []

    def draw() -> np.ndarray:
        calls.append(1)
        return np.zeros(1)

    noise = TreeNoise(draw, sigma=1.0)
    for t in range(1, 17):
        noise.next()
        assert len(calls) == 2 * t - t.bit_count()  # nodes of all complete trees over t rounds


def test_sums_of_many_rounds_carry_far_less_noise_than_a_walk() -> None:
    assert prefix_variance(1023) < 10 * 1
    assert prefix_variance(1024) < 1
