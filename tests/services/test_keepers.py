"""Rounds and trials on a schedule, with clocks of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import BudgetExceeded, Conflict, StoreError
from cloister.federate.engines.federation import SiteRound
from cloister.federate.engines.round_failed import RoundSpoilt, TrainingStopped
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.suspicion import Suspicion
from cloister.federate.online.noisy_sign_test import SignTest
from cloister.federate.online.ranker_files import RankerFiles
from cloister.federate.online.trials import Trials
from cloister.federate.online.votes import NodeVotes
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.services.coordinator import round_keeper
from cloister.services.coordinator.round_keeper import RoundKeeper
from cloister.services.coordinator.schedule_state import ScheduleState
from cloister.services.coordinator.trial_keeper import TrialKeeper
from cloister.services.service_file import ScheduleSettings
from cloister.store.database import Database

FIRST = Ranker.initial(RankerSettings(n_features=2))


class Training:
    """Stands where the federation does; a real one is in the tests of processes."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = list(outcomes)
        self.n_steps = self.n_resumed = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def step(self) -> SiteRound:
        self.go_on.wait(10)
        self.n_steps += 1
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return SiteRound(self.n_steps - 1, (SiteId("a"),), (), {}, 1)

    def resume(self) -> None:
        self.n_resumed += 1


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_keeper, "FIRST_WAIT_S", 0.01)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[ScheduleState]:
    with Database.open(tmp_path / "schedule.db") as database:
        yield ScheduleState(database, "pilot")


Keep = Callable[..., RoundKeeper]


@pytest.fixture
def keep(state: ScheduleState) -> Iterator[Keep]:
    """Keep the schedule of a training; all end with the test."""
    started: list[RoundKeeper] = []

    def start(training: Training, **fields: Any) -> RoundKeeper:
        wanted: dict[str, Any] = {"every_s": 0.01} | fields
        keeper = RoundKeeper(training, state, **wanted)  # type: ignore[arg-type]
        keeper.start()
        started.append(keeper)
        return keeper

    yield start
    for keeper in started:
        keeper.close()


def test_rounds_run_by_the_schedule_and_go_on_after_failures(keep: Keep) -> None:
    failures = [AggregationFailed("too few"), StoreError("away"), ZeroDivisionError()]
    training, done = Training(*failures), list[SiteRound]()
    keeper = keep(training, after=done.append)
    wait_for(lambda: len(done) >= 3)
    keeper.close()
    assert [one.round_number for one in done[:3]] == [3, 4, 5]
    assert keeper.n_failed == 2
    assert keeper.last_error == ""


def test_one_round_runs_at_a_time(keep: Keep) -> None:
    training = Training()
    training.go_on.clear()
    keeper = keep(training)
    wait_for(lambda: keeper._one_at_a_time.locked())
    with pytest.raises(Conflict, match="under way"):
        keeper.run_round()
    training.go_on.set()
    keeper.close()


def test_no_round_runs_while_paused_and_none_by_itself_without_a_schedule(keep: Keep) -> None:
    for fields in ({"every_s": None}, {}):
        training = Training()
        keeper = keep(training, **fields)
        keeper.pause(True)
        time.sleep(0.05)
        n_before = training.n_steps
        time.sleep(0.05)
        assert training.n_steps == n_before
        keeper.run_round()  # on request it does
        assert training.n_steps == n_before + 1
        keeper.close()


def test_the_schedule_ends_when_the_privacy_that_was_agreed_on_is_spent(keep: Keep) -> None:
    training = Training(BudgetExceeded("the noise was chosen for 1 round"))
    keeper = keep(training)
    wait_for(lambda: keeper.paused)
    keeper.close()
    assert training.n_steps == 1


def test_too_few_nodes_are_a_conflict_to_who_asks_for_a_round(keep: Keep) -> None:
    keeper = keep(Training(AggregationFailed("too few")), every_s=None)
    with pytest.raises(Conflict, match="too few"):
        keeper.run_round()


def test_a_pause_outlives_a_restart(keep: Keep) -> None:
    keep(Training()).pause(True)
    again = Training()
    assert keep(again).paused
    time.sleep(0.05)
    assert again.n_steps == 0


def test_a_schedule_that_goes_on_begins_no_round_before_its_time(keep: Keep) -> None:
    training = Training()
    keeper = keep(training, every_s=1.0)
    keeper.pause(True)
    time.sleep(0.05)
    keeper.pause(False)
    began = time.monotonic()
    time.sleep(0.3)
    assert (training.n_steps, keeper.paused) == (0, False)
    wait_for(lambda: training.n_steps == 1)
    assert time.monotonic() - began > 0.9


def test_the_schedule_stops_after_failures_in_a_row_where_attempts_cost_privacy(
    keep: Keep,
) -> None:
    failures = [AggregationFailed("too few") for _ in range(9)]
    training = Training(*failures)
    keeper = keep(training, most_failures=3)
    wait_for(lambda: keeper.paused)
    time.sleep(0.05)
    assert training.n_steps == 3
    keeper.pause(False)
    wait_for(lambda: training.n_steps == 6)


@pytest.mark.parametrize(
    "error",
    [
        RoundSpoilt("too long", suspicion=Suspicion(stopped="no site can be left out")),
        TrainingStopped("3 sums were spoilt"),
    ],
)
def test_the_schedule_stops_with_the_training_and_resumes_it(
    keep: Keep, state: ScheduleState, error: Exception
) -> None:
    training = Training(error)
    keeper = keep(training)
    wait_for(lambda: keeper.paused)
    time.sleep(0.05)
    assert (training.n_steps, state.paused, training.n_resumed) == (1, True, 0)
    keeper.pause(False)
    wait_for(lambda: training.n_steps > 2)
    assert (training.n_resumed, state.paused) == (1, False)


def test_an_error_after_a_round_does_not_undo_it(keep: Keep) -> None:
    def after(done: SiteRound) -> None:
        raise ZeroDivisionError

    keeper = keep(Training(), every_s=None, after=after)
    assert keeper.run_round().round_number == 0
    assert keeper.n_failed == 0


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trials(tmp_path: Path, clock: Clock) -> Iterator[Trials]:
    test = SignTest(alpha=0.5, min_votes=1, epsilon=100.0)
    with Database.open(tmp_path / "state.db") as database:
        yield Trials(database, RankerFiles(tmp_path / "files"), FIRST, test=test, clock=clock)


@pytest.fixture
def keeper(trials: Trials, clock: Clock, state: ScheduleState) -> TrialKeeper:
    schedule = ScheduleSettings(trial_every=2, trial_s=100.0, votes_s=50.0)
    return TrialKeeper(trials, schedule, state, n_nodes=2, clock=clock)


def newest() -> Ranker:
    return FIRST.with_parameters(np.ones(2))


def test_the_newest_ranker_is_tried_after_so_many_rounds(
    keeper: TrialKeeper, trials: Trials, clock: Clock
) -> None:
    assert keeper.after_round(1, newest) is None
    trial = keeper.after_round(3, newest)  # also where the one that was due got lost
    assert trial is not None
    assert keeper.after_round(4, newest) is None  # one at a time
    clock.pass_s(99)
    assert keeper.look() is None
    assert trials.trial().state == "open"
    clock.pass_s(1)
    keeper.look()
    assert trials.trial().state == "voting"
    for node in ("a", "b"):
        assert keeper.look() is None
        trials.record_votes(node, NodeVotes(trial=trial.trial_id, epsilon=100.0, wins=5, losses=0))
    assert keeper.look().state == "promoted"
    assert trials.serving().serving == trial.candidate
    assert keeper.after_round(6, newest) is None  # it serves already


def test_a_node_that_does_not_vote_is_waited_for_and_then_not(
    keeper: TrialKeeper, trials: Trials, clock: Clock
) -> None:
    keeper.after_round(2, newest)
    keeper.decide_now()
    clock.pass_s(49)
    assert keeper.look() is None
    clock.pass_s(1)
    assert keeper.look().state == "kept"
    with pytest.raises(Conflict):
        keeper.decide_now()


def test_what_was_taken_back_is_not_tried_again(keeper: TrialKeeper, trials: Trials) -> None:
    trial = keeper.after_round(2, newest)
    trials.record_votes("a", NodeVotes(trial=trial.trial_id, epsilon=100.0, wins=9, losses=0))
    keeper.decide_now()
    keeper.decide_now()
    trials.roll_back()
    assert keeper.after_round(4, newest) is None
    assert trials.ranker().parameters.tolist() == [0.0, 0.0]
