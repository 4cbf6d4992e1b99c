"""Discounted online performance, at once and round by round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.measure.online import GAMMA, DiscountedSum, discounted_sum

values = st.lists(st.floats(0, 1), max_size=50)
gammas = st.floats(0.01, 1.0)


@given(values=values, gamma=gammas)
def test_the_sum_is_that_of_thesis_equation_2_1(values: list[float], gamma: float) -> None:
    expected = sum(value * gamma ** (t - 1) for t, value in enumerate(values, 1))
    assert discounted_sum(values, gamma=gamma) == pytest.approx(expected, rel=1e-12)


def test_the_constant_of_thesis_table_4_3_comes_out() -> None:
    assert round(discounted_sum(np.full(10_000, 0.8)), 2) == 1589.23


@given(rounds=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), max_size=30))
def test_rounds_add_up_to_the_discounted_sum_of_their_means(rounds: list[list[float]]) -> None:
    performance = DiscountedSum()
    for interactions in rounds:
        performance = performance.add_round(interactions)
    means = [sum(interactions) / len(interactions) for interactions in rounds]
    assert performance.n_rounds == len(rounds)
    assert performance.total == pytest.approx(discounted_sum(means), rel=1e-12)


def test_adding_a_round_leaves_the_old_sum_as_it_was() -> None:
    before = DiscountedSum().add_round([0.5])
    before.add_round([1.0])
    assert before == DiscountedSum(total=0.5, n_rounds=1, gamma=GAMMA)


@pytest.mark.parametrize("gamma", [0.0, -0.5, 1.5, math.nan])
def test_a_discount_outside_its_range_is_refused(gamma: float) -> None:
    with pytest.raises(SettingsError, match="gamma"):
        discounted_sum([1.0], gamma=gamma)
    with pytest.raises(SettingsError, match="gamma"):
        DiscountedSum(gamma=gamma).add_round([1.0])


def test_skipped_queries_have_no_place_in_online_performance() -> None:
    with pytest.raises(DataError, match='nothing_relevant="zero"'):
        discounted_sum([0.5, math.nan])
    with pytest.raises(DataError, match="round 0"):
        DiscountedSum().add_round([])
