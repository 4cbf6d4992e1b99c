"""Who takes part: by a fixed number, by a coin each, or in turn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cloister.core.errors import SettingsError
from cloister.federate.participation import draw_participants, draw_poisson, take_turns


def test_a_coin_each_gives_every_set_its_chance() -> None:
    counts: dict[tuple[int, ...], int] = {}
    n = 4000
    for round in range(n):
        who = tuple(draw_poisson(3, 0.3, seed=2, round=round).tolist())
        counts[who] = counts.get(who, 0) + 1
    sets = [tuple(c for c in range(3) if bits >> c & 1) for bits in range(8)]
    observed = [counts.get(s, 0) for s in sets]
    expected = [n * 0.3 ** len(s) * 0.7 ** (3 - len(s)) for s in sets]
    assert sum(observed) == n
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_everybody_comes_at_rate_one() -> None:
    assert draw_poisson(5, 1.0, seed=1, round=3).tolist() == [0, 1, 2, 3, 4]


def test_coins_of_two_rounds_have_nothing_to_do_with_each_other() -> None:
    came = np.zeros((400, 50))
    for round in range(400):
        came[round, draw_poisson(50, 0.5, seed=1, round=round)] = 1
    agree = (came[:-1] == came[1:]).mean()
    assert agree == pytest.approx(0.5, abs=0.02)


@given(st.integers(1, 60), st.data())
def test_turns_are_far_apart_and_never_twice(n_clients: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, n_clients))
    apart = n_clients // n
    last: dict[int, int] = {}
    n_turns = np.zeros(n_clients, int)
    n_rounds = 3 * apart + 3
    for round in range(n_rounds):
        who = take_turns(n_clients, n, seed=4, round=round)
        assert len(set(who.tolist())) == n
        for client in who.tolist():
            assert round - last.get(client, -apart) >= apart
            last[client] = round
        n_turns[who] += 1
    assert len(last) == n_clients
    assert n_turns.max() <= -(-n_rounds // apart)  # what a tree's release counts on
    assert n_turns.max() - n_turns.min() <= 1


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(SettingsError, match="sampling rate"):
        draw_poisson(5, rate, seed=1, round=0)


@pytest.mark.parametrize("n", [0, 6])
def test_impossible_numbers_of_participants_are_refused(n: int) -> None:
    for draw in (draw_participants, take_turns):
        with pytest.raises(SettingsError, match="participants"):
            draw(5, n, seed=1, round=0)
