"""The closed loop: users click, sites learn, rankers are tried, and the better one serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.federate.engines.agreement import SitePrivacy
from federate.online.made_loop import PAGES_OF_ROUND, SITES, USERS_OF_SITE, Loop

N_TURNS = 3
ROUNDS_OF_TURN = 2


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    made = Loop(tmp_path, seed=4)
    yield made
    made.close()


def test_what_serves_gets_better_by_trials_alone_and_can_be_taken_back(loop: Loop) -> None:
    first = loop.trials.serving().serving
    began_with = loop.quality(loop.trials.ranker())
    n_counted, served = 0, [first]
    for _ in range(N_TURNS):
        for _ in range(ROUNDS_OF_TURN):
            loop.search(PAGES_OF_ROUND)
            n_counted += loop.federation.step().n_interactions or 0
            assert loop.trials.serving().serving == served[-1]  # training alone changes nothing
        ended = loop.try_candidate(loop.federation.ranker, 3)
        now = loop.trials.serving().serving
        assert (now != served[-1]) == (ended == "promoted")
        served += [now] if ended == "promoted" else []

    # Each page counted in exactly one round; those of trials in none.
    assert n_counted == N_TURNS * ROUNDS_OF_TURN * PAGES_OF_ROUND * USERS_OF_SITE * len(SITES)
    # Against an untrained ranker each of three trials wins nearly for sure.
    assert len(served) > 1
    assert loop.quality(loop.trials.ranker()) > began_with + 0.15

    best = loop.trials.serving().serving
    worse = loop.federation.ranker.with_parameters(-loop.federation.ranker.parameters)
    assert loop.try_candidate(worse, 3) == "kept"
    assert loop.trials.serving().serving == best
    for expected in reversed(served[:-1]):
        assert loop.trials.roll_back().serving == expected
    assert loop.trials.serving().serving == first

    for site, node in loop.nodes.items():
        entries = node.site.ledger.entries(party_id=site)
        votes = [entry for entry in entries if entry.purpose.startswith("votes")]
        assert len(votes) == N_TURNS + 1
        rounds = [one for one in entries if one.kind == "release" and one not in votes]
        assert len(rounds) == N_TURNS * ROUNDS_OF_TURN
        assert node.log.state().n_in_trials == 0


def test_no_number_of_users_makes_a_site_refuse(tmp_path: Path) -> None:
    privacy = SitePrivacy(epsilon=8.0, delta=1e-3, n_rounds=2, n_users=30)  # 60 come
    loop = Loop(tmp_path, seed=4, privacy=privacy, min_sites=3)
    try:
        loop.search(1)
        done = loop.federation.step()
        assert (done.sites, done.faults) == (SITES, {})
        assert [len(node.site.ledger.pending()) for node in loop.nodes.values()] == [1, 1, 1]
    finally:
        loop.close()


def test_private_rounds_of_real_users_cost_what_was_agreed_on(tmp_path: Path) -> None:
    n_users = USERS_OF_SITE * len(SITES)
    privacy = SitePrivacy(epsilon=8.0, delta=1e-3, n_rounds=2, n_users=n_users)
    loop = Loop(tmp_path, seed=4, privacy=privacy)
    try:
        for _ in range(2):
            loop.search(1)
            assert loop.federation.step().sites == SITES
        for site, node in loop.nodes.items():
            cost = node.site.ledger.cost(site, delta=1e-3).epsilon
            assert 6.5 < cost <= 8.0  # real releases: nothing is marked as simulated
        assert loop.quality(loop.federation.ranker) > loop.quality(loop.trials.ranker())
    finally:
        loop.close()
