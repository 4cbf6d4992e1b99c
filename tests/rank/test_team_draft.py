"""Team-draft interleaving: its rules as properties, and its fairness by counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.rank.team_draft import FIRST, SECOND, credit, interleave

seeds = st.integers(0, 2**32 - 1)


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    documents = range(draw(st.integers(1, 15)))
    first, second = draw(st.permutations(documents)), draw(st.permutations(documents))
    return first[: draw(st.integers(0, 15))], second[: draw(st.integers(0, 15))]


@given(both=rankings(), n=st.integers(1, 12), seed=seeds)
def test_each_prefix_has_teams_within_one_and_no_document_twice(
    both: tuple[list[int], list[int]], n: int, seed: int
) -> None:
    page, teams = interleave(*both, n, np.random.default_rng(seed))
    assert len(page) == len(teams) <= n
    assert len(set(page.tolist())) == len(page)
    for end in range(1, len(teams) + 1):
        assert abs(int((teams[:end] == FIRST).sum()) - int((teams[:end] == SECOND).sum())) <= 1


@given(both=rankings(), n=st.integers(1, 12), seed=seeds)
def test_each_team_picks_its_best_document_that_is_not_there_yet(
    both: tuple[list[int], list[int]], n: int, seed: int
) -> None:
    page, teams = interleave(*both, n, np.random.default_rng(seed))
    for rank, (document, team) in enumerate(zip(page.tolist(), teams.tolist(), strict=True)):
        left = [d for d in both[team] if d not in page[:rank].tolist()]
        assert document == left[0]
    if len(page) < n:  # one of them had nothing left
        assert any(set(ranking) <= set(page.tolist()) for ranking in both)


@given(order=st.permutations(range(12)), n=st.integers(1, 12), seed=seeds)
def test_equal_rankings_give_the_ranking_itself(order: list[int], n: int, seed: int) -> None:
    page, _ = interleave(order, order, n, np.random.default_rng(seed))
    assert page.tolist() == order[:n]


def test_equal_rankings_get_equal_credit_at_each_rank() -> None:
    rng = np.random.default_rng(1)
    teams = np.array([interleave(range(5), range(5), 5, rng).teams for _ in range(4000)])
    shares = (teams == SECOND).mean(axis=0)
    assert np.abs(shares - 0.5).max() < 5 * np.sqrt(0.25 / 4000)


def test_clicks_at_random_favour_neither_of_two_different_rankings() -> None:
    rng = np.random.default_rng(2)
    credits = []
    for _ in range(4000):
        _, teams = interleave([0, 1, 2, 3, 4], [4, 0, 3, 1, 2], 4, rng)
        credits.append(credit(teams, rng.random(4) < 0.4))
    assert abs(np.mean(credits)) < 5 * np.std(credits) / np.sqrt(4000)


def test_clicks_on_the_relevant_document_favour_who_ranks_it_higher() -> None:
    rng = np.random.default_rng(3)
    credits = []
    for _ in range(2000):
        page, teams = interleave([0, 1, 2, 3], [3, 0, 1, 2], 3, rng)
        credits.append(credit(teams, page == 3))
    assert np.mean(credits) > 0.5


def test_wrong_rankings_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="first: a document is in the ranking twice"):
        interleave([1, 1], [1], 2, rng)
    with pytest.raises(DataError, match="second: a ranking is a row of whole numbers"):
        interleave([1], [0.5], 2, rng)
    with pytest.raises(SettingsError, match="at least 1 document"):
        interleave([1], [1], 0, rng)
