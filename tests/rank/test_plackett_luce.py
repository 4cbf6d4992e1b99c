"""Pages are drawn as thesis eq. 3.8 says, and the mass of what is not shown is right."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare, kstest

from cloister.core.counter_random import new_stream
from cloister.core.errors import DataError, SettingsError
from cloister.rank.plackett_luce import add_gumbel, draw_page, mass_of_rest, top_places
from rank import literal_pdgd as literal


def _log_mass(scores: np.ndarray, n: int, page: np.ndarray, room: np.ndarray) -> float:
    highest, total = mass_of_rest(scores, n, page, room)
    return highest + math.log(total) if total > 0 else -math.inf


def drawn_pages(scores: np.ndarray, k: int, n_draws: int, seed: int) -> Counter[tuple[int, ...]]:
    stream = new_stream(seed)
    return Counter(tuple(draw_page(scores, k, stream=stream).tolist()) for _ in range(n_draws))


@pytest.mark.parametrize(
    ("scores", "k"),
    [
        ([0.3, -0.5, 1.0, 0.0], 1),
        ([0.3, -0.5, 1.0, 0.0], 3),
        ([0.3, -0.5, 1.0, 0.0], 4),
        ([1.0, 0.5, 0.0, 0.2, -0.4], 2),
        ([1000.3, 999.5, 1001.0, 1000.0], 3),
        ([0.0, 0.0, 0.0, 0.0], 3),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1),
    ],
)
def test_pages_are_as_frequent_as_the_equation_says(scores: list[float], k: int) -> None:
    n_draws = 20_000
    as_read = np.array(scores, np.float32)
    found = drawn_pages(as_read, k, n_draws, seed=11)
    outcomes = list(permutations(range(len(scores)), k))
    expected = [
        n_draws * float(literal.page_probability(page, range(len(scores)), as_read.tolist()))
        for page in outcomes
    ]
    assert min(expected) > 5  # else the test's own law is not near
    assert chisquare([found[page] for page in outcomes], expected).pvalue > 1e-3


def test_the_test_of_frequencies_notices_other_scores() -> None:
    found = drawn_pages(np.array([0.1, 0.0, 0.0], np.float32), 1, 20_000, seed=12)
    assert chisquare([found[d,] for d in range(3)]).pvalue < 1e-3


def test_the_noise_is_gumbels() -> None:
    scores = np.full(50_000, 2.5, np.float32)
    keys = np.empty_like(scores)
    add_gumbel(scores, len(scores), new_stream(13), keys)
    assert kstest(keys - 2.5, "gumbel_r").pvalue > 1e-3


@settings(max_examples=150)
@given(
    scores=st.lists(st.floats(-1000, 1000, width=32), max_size=40),
    k=st.integers(1, 15),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_page_shows_different_candidates(scores: list[float], k: int, seed: int) -> None:
    page = draw_page(np.array(scores), k, stream=new_stream(seed))
    assert len(page) == min(k, len(scores))
    assert len(set(page.tolist())) == len(page)
    assert set(page.tolist()) <= set(range(len(scores)))


def test_the_same_stream_draws_the_same_page_and_another_another() -> None:
    scores = np.zeros(30)
    first, again, other = (draw_page(scores, 10, stream=new_stream(seed)) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_scores_far_apart_decide_the_order() -> None:
    scores = np.array([-5000.0, 3000.0, 0.0, 3.0e38, 200.0, -3.0e38])
    for seed in range(50):
        page = draw_page(scores, 6, stream=new_stream(seed))
        assert page.tolist() == [3, 1, 4, 2, 0, 5]


key = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]), st.floats(width=32)
)


@settings(max_examples=300)
@given(keys=st.lists(key, max_size=30), k=st.integers(1, 12))
def test_the_top_is_that_of_a_stable_sort_without_what_is_no_number(
    keys: list[float], k: int
) -> None:
    page, order = np.full(k, -7, np.int64), np.empty(len(keys), np.int64)
    shown = top_places(np.array(keys, np.float32), len(keys), page, order)
    numbers = [i for i, value in enumerate(keys) if not math.isnan(value)]
    expected = sorted(numbers, key=lambda i: -keys[i])[:k]
    assert page[:shown].tolist() == expected
    assert (page[shown:] == -7).all()


def test_only_the_first_n_keys_are_looked_at() -> None:
    page = np.empty(2, np.int64)
    keys = np.array([1.0, 2.0, 9.0], np.float32)
    assert top_places(keys, 2, page, np.empty(2, np.int64)) == 2
    assert page.tolist() == [1, 0]


@st.composite
def shown(draw: st.DrawFn, spread: float) -> tuple[list[float], list[int]]:
    limit = float(np.float32(spread))
    scores = draw(st.lists(st.floats(-limit, limit, width=32), min_size=1, max_size=60))
    return scores, draw(st.permutations(range(len(scores))))[: draw(st.integers(0, 10))]


@settings(max_examples=300)
@given(drawn=st.one_of(shown(5), shown(80), shown(3000), shown(1e38)))
def test_the_mass_of_the_rest_is_that_of_scipy(drawn: tuple[list[float], list[int]]) -> None:
    scores, page = drawn
    array = np.array(scores, np.float32)
    before = array.copy()
    found = _log_mass(array, len(array), np.array(page, np.int64), np.empty_like(array))
    rest = np.delete(array.astype(float), page)
    expected = logsumexp(rest) if len(rest) else -math.inf
    assert found == pytest.approx(expected, abs=1e-6, rel=1e-12)
    np.testing.assert_array_equal(array, before)


def test_the_mass_of_many_equal_scores_keeps_its_precision() -> None:
    scores = np.full(100_000, 700.0, np.float32)
    found = _log_mass(scores, len(scores), np.arange(10), np.empty_like(scores))
    assert found == pytest.approx(700 + math.log(99_990), abs=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(DataError, match="finite"):
        draw_page(np.array([0.0, value]), 1, stream=new_stream(1))


def test_a_table_of_scores_is_refused() -> None:
    with pytest.raises(DataError, match="one finite score"):
        draw_page(np.zeros((2, 2)), 1, stream=new_stream(1))


@pytest.mark.parametrize("k", [0, -3])
def test_a_page_of_nothing_is_refused(k: int) -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        draw_page(np.zeros(3), k, stream=new_stream(1))
