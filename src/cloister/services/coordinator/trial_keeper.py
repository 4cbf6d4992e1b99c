"""Trials on a schedule: opened after so many rounds, voted on after some time, then decided.

When a trial was opened, and when votes were called, is in its record, in the database;
so a coordinator that is started again keeps to the same times.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from cloister.core.errors import Conflict
from cloister.federate.online.trial_records import Trial
from cloister.federate.online.trials import Trials
from cloister.rank.ranker import Ranker
from cloister.services.coordinator.schedule_state import ScheduleState
from cloister.services.service_file import ScheduleSettings
from cloister.web.logs import log_event

__all__ = ["TrialKeeper"]


class TrialKeeper:
    """Opens, closes and decides trials when they are due.

    Parameters
    ----------
    trials
        The trials.
    schedule
        When.
    state
        Remembers after how many rounds a ranker was tried last.
    n_nodes
        Nodes of the federation: when all have voted, a trial is decided at once.
    clock
        The time.
    """

    def __init__(
        self,
        trials: Trials,
        schedule: ScheduleSettings,
        state: ScheduleState,
        *,
        n_nodes: int,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.trials = trials
        self._schedule = schedule
        self._state = state
        self._n_nodes = n_nodes
        self._clock = clock

    def after_round(self, n_rounds: int, newest: Callable[[], Ranker]) -> Trial | None:
        """Try the newest ranker if that is due and nothing is on trial; return the new trial."""
        every = self._schedule.trial_every
        if every is None or self.trials.trial() is not None:
            return None
        if n_rounds - self._state.last_tried < every:
            return None
        self._state.put(last_tried=n_rounds)
        try:
            return self.open(newest())
        except Conflict as error:  # it serves already, or was rolled back
            log_event("nothing_tried", error=type(error).__name__)
            return None

    def open(self, candidate: Ranker, share: float | None = None) -> Trial:
        """Try a ranker on a share of searches."""
        trial = self.trials.open_trial(candidate, share or self._schedule.trial_share)
        log_event("trial_opened")
        return trial

    def look(self) -> Trial | None:
        """Call votes, or decide, if that is due; return the trial that was decided."""
        trial = self.trials.trial()
        if trial is None:
            return None
        age_s = self._age_s(trial)
        if trial.state == "open":
            if age_s >= self._schedule.trial_s:
                self.trials.call_votes()
            return None
        if len(trial.votes) < self._n_nodes and age_s < self._schedule.votes_s:
            return None
        decided = self.trials.decide()
        log_event("trial_decided", outcome=decided.state)
        return decided

    def decide_now(self) -> None:
        """Call votes of the trial under way; if they were called already, decide by those given.

        Raises `Conflict` where no trial is under way.
        """
        trial = self.trials.trial()
        if trial is not None and trial.state == "voting":
            self.trials.decide()
        else:
            self.trials.call_votes()

    def _age_s(self, trial: Trial) -> float:
        """Return for how long the trial has been in its state."""
        began = trial.opened_at if trial.state == "open" else trial.voting_at
        return (self._clock() - datetime.fromisoformat(began)).total_seconds()
