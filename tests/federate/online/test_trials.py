"""Trials: who serves, how candidates come to serve, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from cloister.core.errors import Conflict, DataError, NotFound, SettingsError
from cloister.core.ids import content_id
from cloister.federate.online.noisy_sign_test import SignTest, VoteCounts
from cloister.federate.online.page_drawing import ServedRanker, TriedRanker, page_for
from cloister.federate.online.ranker_files import RankerFiles, ranker_bytes, ranker_from_bytes
from cloister.federate.online.trials import Trials
from cloister.federate.online.votes import NodeVotes
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.rank.team_draft import FIRST
from cloister.store.database import Database
from federate.online.made_pages import ANN

FIRST_RANKER = Ranker.initial(RankerSettings(n_features=2))


def ranker(number: float) -> Ranker:
    return FIRST_RANKER.with_parameters(np.array([number, -number]))


def digest(number: float) -> str:
    return content_id(ranker_bytes(ranker(number)))


def made(database: Database, tmp_path: Path, **fields: Any) -> Trials:
    return Trials(database, RankerFiles(tmp_path / "rankers"), FIRST_RANKER, **fields)


def vote(trials: Trials, node: str, wins: int, losses: int, **fields: Any) -> None:
    trial = trials.trial()
    assert trial is not None
    usual = {"trial": trial.trial_id, "epsilon": 1.0, "wins": wins, "losses": losses}
    trials.record_votes(node, NodeVotes(**(usual | fields)))


def promote(trials: Trials, number: float) -> None:
    trials.open_trial(ranker(number), 0.5)
    vote(trials, "clinic-a", 90, 5)
    assert trials.decide().state == "promoted"


def test_a_candidate_serves_after_it_has_won_and_not_before(
    database: Database, tmp_path: Path
) -> None:
    trials = made(database, tmp_path)
    assert trials.serving().serving == content_id(ranker_bytes(FIRST_RANKER))
    trial = trials.open_trial(ranker(1), 0.25)
    assert (trial.candidate, trial.share, trial.state) == (digest(1), 0.25, "open")
    vote(trials, "clinic-a", 40, 10)
    assert trials.serving().serving != digest(1)
    assert trials.call_votes() == trials.call_votes()
    vote(trials, "clinic-b", 35, 12)
    decided = made(database, tmp_path).decide()  # by a coordinator that was started again
    assert decided.state == "promoted"
    assert (decided.decision["margin"], decided.decision["n_votes"]) == (53, 97)
    assert trials.serving().serving == digest(1)
    np.testing.assert_array_equal(trials.ranker().parameters, ranker(1).parameters)
    said = [event.what for event in trials.history()]
    assert said == ["began", "opened", "voted", "voting", "voted", "promoted"]


@pytest.mark.parametrize(("wins", "losses"), [(10, 40), (25, 25), (27, 23), (9, 2)])
def test_a_candidate_that_is_not_better_for_sure_does_not_serve(
    database: Database, tmp_path: Path, wins: int, losses: int
) -> None:
    trials = made(database, tmp_path)
    before = trials.serving()
    trials.open_trial(ranker(1), 0.25)
    vote(trials, "clinic-a", wins, losses)
    assert trials.decide().state == "kept"
    assert trials.serving() == before
    trials.open_trial(ranker(1), 0.25)  # it may be tried again


def test_a_node_votes_once(database: Database, tmp_path: Path) -> None:
    trials = made(database, tmp_path, test=SignTest(epsilon=0.5))
    trial = trials.open_trial(ranker(1), 0.25)
    vote(trials, "clinic-a", 4, 1, epsilon=0.5)
    vote(trials, "clinic-a", 4, 1, epsilon=0.5)
    with pytest.raises(Conflict, match="has voted"):
        vote(trials, "clinic-a", 400, 1, epsilon=0.5)
    with pytest.raises(DataError, match=r"epsilon 1\.0"):
        vote(trials, "clinic-b", 4, 1)
    with pytest.raises(NotFound, match="no such trial"):
        vote(trials, "clinic-b", 4, 1, epsilon=0.5, trial="unknown")
    assert trials.decide().votes == {"clinic-a": (4, 1)}
    late = NodeVotes(trial=trial.trial_id, epsilon=0.5, wins=4, losses=1)
    trials.record_votes("clinic-a", late)  # the reply was lost, and it asks again
    with pytest.raises(Conflict, match="the trial is over"):
        trials.record_votes("clinic-b", late)


def test_a_trial_is_judged_by_what_held_when_it_was_opened(
    database: Database, tmp_path: Path
) -> None:
    strict = SignTest(epsilon=0.05, alpha=0.01, min_votes=60)
    trial = made(database, tmp_path, test=strict).open_trial(ranker(1), 0.5)
    assert (trial.alpha, trial.min_votes, trial.test) == (0.01, 60, strict)
    later = made(database, tmp_path, test=SignTest(epsilon=1.0))
    vote(later, "clinic-a", 60, 20, epsilon=0.05)
    decided = later.decide()
    expected = strict.verdict([VoteCounts(60, 20)])
    assert decided.decision == expected._asdict() | {"alpha": 0.01}
    assert decided.state == "kept"
    assert SignTest(epsilon=1.0).verdict([VoteCounts(60, 20)]).better  # by the later settings


def test_a_trial_knows_since_when_it_is_in_its_state(database: Database, tmp_path: Path) -> None:
    now = [datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))]
    trials = made(database, tmp_path, clock=lambda: now[0])
    assert trials.open_trial(ranker(1), 0.5).voting_at == ""
    now[0] += timedelta(minutes=5)
    trials.call_votes()
    now[0] += timedelta(minutes=5)
    trial = trials.call_votes()
    assert trial.opened_at == "2026-03-01T10:00:00+00:00"
    assert trial.voting_at == "2026-03-01T10:05:00+00:00"
    assert made(database, tmp_path).trial() == trial
    assert [event.at for event in trials.history(last=2)] == [trial.opened_at, trial.voting_at]


def test_the_history_takes_one_query_however_long_it_is(database: Database, tmp_path: Path) -> None:
    trials = made(database, tmp_path)
    for _ in range(12):
        trials.open_trial(ranker(1), 0.5)
        trials.cancel_trial()
    with counted_queries(database) as queries:
        history = trials.history()
    assert len([query for query in queries if "SELECT" in query]) == 1
    assert [event.number for event in history] == list(range(1, 26))
    assert trials.history(last=3) == history[-3:]
    assert trials.history(last=0) == []
    with pytest.raises(SettingsError, match="negative"):
        trials.history(last=-1)
    with counted_queries(database) as queries:
        trials.open_trial(ranker(1), 0.5)
    reads = [query for query in queries if query.startswith("SELECT")]
    assert all("LIMIT" in one or "state.name = " in one for one in reads)  # no list of all keys


@contextmanager
def counted_queries(database: Database) -> Iterator[list[str]]:
    """Gather the text of all queries."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *others: object) -> None:
        found.append(statement)

    engines = list(database._engines.values())
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    yield found
    for engine in engines:
        sa.event.remove(engine, "before_cursor_execute", note)


def test_the_way_back_goes_ranker_by_ranker(database: Database, tmp_path: Path) -> None:
    trials = made(database, tmp_path)
    first = trials.serving().serving
    promote(trials, 1)
    promote(trials, 2)
    promote(trials, 3)
    trial = trials.open_trial(ranker(4), 0.5)
    assert trials.roll_back().serving == digest(2)
    ended = trials.trial(trial.trial_id)
    assert ended is not None
    assert ended.state == "cancelled"
    assert trials.trial() is None
    assert trials.roll_back().serving == digest(1)
    assert trials.roll_back().serving == first
    with pytest.raises(Conflict, match="no ranker served before"):
        trials.roll_back()
    for number in (1, 2, 3):
        with pytest.raises(Conflict, match="was rolled back"):
            trials.open_trial(ranker(number), 0.5)
    promote(trials, 4)  # it never served, so it was not rolled back
    assert trials.roll_back().serving == first


def test_what_is_out_of_order_is_a_conflict(database: Database, tmp_path: Path) -> None:
    trials = made(database, tmp_path)
    for act in (trials.decide, trials.cancel_trial, trials.call_votes):
        with pytest.raises(Conflict, match="no trial is under way"):
            act()
    with pytest.raises(Conflict, match="serves already"):
        trials.open_trial(FIRST_RANKER, 0.5)
    with pytest.raises(SettingsError, match="share"):
        trials.open_trial(ranker(1), 0.0)
    trials.open_trial(ranker(1), 0.5)
    with pytest.raises(Conflict, match="a trial is under way"):
        trials.open_trial(ranker(2), 0.5)
    assert trials.cancel_trial().state == "cancelled"


def test_a_kill_between_any_two_records_leaves_the_state_as_it_was(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = made(database, tmp_path)
    promote(trials, 1)
    trials.open_trial(ranker(2), 0.5)
    vote(trials, "clinic-a", 90, 5)

    def killed(*arguments: object, **fields: object) -> None:
        raise KeyboardInterrupt

    before = trials.serving(), trials.trial(), trials.history()
    for record in ("put_trial", "put_serving", "add_event"):
        for act in (trials.decide, trials.roll_back, trials.cancel_trial):
            with monkeypatch.context() as patch:
                patch.setattr(f"cloister.federate.online.trials.{record}", killed)
                with pytest.raises(KeyboardInterrupt):
                    act()
            assert (trials.serving(), trials.trial(), trials.history()) == before


def test_of_two_who_decide_at_once_one_is_told_that_it_is_done(
    database: Database, tmp_path: Path
) -> None:
    trials = made(database, tmp_path)
    trials.open_trial(ranker(1), 0.5)
    vote(trials, "clinic-a", 90, 5)

    def decide(_: int) -> str:
        try:
            return trials.decide().state
        except Conflict:
            return "conflict"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, range(2))) == ["conflict", "promoted"]
    assert [event.what for event in trials.history()].count("promoted") == 1
    assert len(trials.serving().before) == 1


def test_ranker_bytes_are_rankers_or_refused(tmp_path: Path) -> None:
    files = RankerFiles(tmp_path / "rankers")
    name = files.put(ranker(3))
    assert name == content_id(files.read_bytes(name)) == files.put_bytes(files.read_bytes(name))
    assert name in files
    np.testing.assert_array_equal(files.read(name).parameters, ranker(3).parameters)
    for content in (b"", b"no ranker", ranker_bytes(ranker(1))[:-1]):
        with pytest.raises(DataError, match="ranker: "):
            ranker_from_bytes(content)
        with pytest.raises(DataError):
            files.put_bytes(content)


def test_a_share_of_searches_gets_a_page_of_both_rankers() -> None:
    rng = np.random.default_rng(5)
    features = rng.random((15, 2))
    tried = TriedRanker("t1", ranker(-9), 0.3)
    served = ServedRanker("ab" * 32, ranker(9), tried)
    pages = [page_for(served, ANN, features, rng) for _ in range(600)]
    on_trial = [page for page in pages if page.trial]
    assert 120 < len(on_trial) < 240  # 180 expected
    orders = [np.argsort(-served.ranker.score(features)), np.argsort(-tried.ranker.score(features))]
    for page in on_trial:
        teams = np.asarray(page.teams)
        assert page.places[0] == orders[0 if teams[0] == FIRST else 1][0]
    assert all(len(page.places) == 10 for page in pages)
    assert all(len(page.teams) == 0 for page in pages if not page.trial)
    same = ServedRanker("ab" * 32, ranker(9))
    assert not any(page_for(same, ANN, features, rng).trial for _ in range(50))
