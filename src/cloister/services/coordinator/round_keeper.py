"""Rounds, one at a time: by a schedule, or when an operator asks.

A round that fails (too few nodes, a database that is away) changes nothing and is tried again: soon
at first, then less often. A coordinator that is killed begins its round again when it is started.
A schedule that was paused and goes on begins a whole interval later: a round may cost privacy, so
none comes at once that nobody asked for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from cloister.core.errors import BudgetExceeded, CloisterError, Conflict, kind_in_words
from cloister.federate.engines.federation import SiteFederation, SiteRound
from cloister.federate.engines.round_failed import RoundSpoilt, TrainingStopped
from cloister.federate.engines.site_call import SiteId
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.services.coordinator.schedule_state import ScheduleState
from cloister.web.logs import log_event

__all__ = ["RoundKeeper"]

FIRST_WAIT_S: Final = 1.0  # after a round that failed; doubled each time, up to the schedule's
LONGEST_WAIT_S: Final = 60.0


class RoundKeeper:
    """Runs rounds of one training in a thread of its own; close it at the end.

    Parameters
    ----------
    federation
        The training.
    every_s
        Seconds from one round to the next; None for rounds on request alone.
    state
        Remembers whether the schedule is paused.
    after
        Called after each round, from the thread that ran it.
    most_failures
        After so many rounds that failed one after the other the schedule is paused; never unless
        given. Where sites release something in each attempt, going on would spend it for nothing.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        federation: SiteFederation,
        state: ScheduleState,
        *,
        every_s: float | None,
        after: Callable[[SiteRound], None] = lambda done: None,
        most_failures: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation = federation
        self._state = state
        self._every_s = every_s
        self._after = after
        self._most_failures = most_failures
        self._n_in_a_row = 0
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._paused = state.paused
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self.last: SiteRound | None = None
        self.last_error = ""
        self.n_failed = 0

    @property
    def paused(self) -> bool:
        """Whether the schedule stands still."""
        return self._paused

    def start(self) -> None:
        """Begin to keep the schedule."""
        self._thread.start()

    def pause(self, paused: bool) -> None:
        """Stop the schedule, or let it go on; a round under way is finished.

        Letting it go on also resumes a training that stopped over spoilt sums. The next round then
        begins a whole interval later.
        """
        changed = paused != self._paused
        if not paused:
            self._federation.resume()
        self._state.put(paused=paused)
        self._paused = paused
        self._n_in_a_row = 0
        if changed:
            self._wake.set()

    def run_round(self) -> SiteRound:
        """Run a round now; raise `Conflict` where one is under way."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise Conflict("a round is under way", remedy="wait until it is over")
        try:
            done = self._federation.step()
        except CloisterError as error:
            self._failed(error)
            if isinstance(error, AggregationFailed):
                raise Conflict(error.what, where=error.where, remedy=error.remedy) from None
            raise
        finally:
            self._one_at_a_time.release()
        self.last, self.last_error, self._n_in_a_row = done, "", 0
        log_event(
            "round",
            round=done.round_number + 1,
            nodes=len(done.sites),
            silent=len(done.silent),
            faults=len(done.faults),
            n_interactions=done.n_interactions,
        )
        try:
            self._after(done)
        except Exception as error:  # the round is done, whatever comes after it
            log_event("after_round_failed", level=logging.ERROR, error=type(error).__name__)
        return done

    def _failed(self, error: CloisterError) -> None:
        self.n_failed += 1
        self._n_in_a_row += 1
        faults: dict[SiteId, str] = getattr(error, "faults", {})
        told = "; ".join(
            f"{site}: {kind_in_words(fault)}" for site, fault in sorted(faults.items())
        )
        kind = kind_in_words(error)
        self.last_error = f"{kind} ({told})" if told else kind
        stopped = isinstance(error, TrainingStopped)
        if isinstance(error, RoundSpoilt):
            suspicion = error.suspicion
            stopped = bool(suspicion.stopped)
            log_event(
                "sum_spoilt",
                level=logging.ERROR,
                suspects=len(suspicion.suspects),
                named=len(suspicion.named),
                stopped=stopped,
            )
        too_many = self._most_failures is not None and self._n_in_a_row >= self._most_failures
        if stopped or too_many:
            log_event("paused_after_failures", level=logging.ERROR, n=self._n_in_a_row)
            self._state.put(paused=True)
            self._paused = True

    def close(self) -> None:
        """Begin no further round, and wait for the one under way."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        wait_s, failed_wait_s = self._every_s, FIRST_WAIT_S
        while not self._stop.is_set():
            woken = self._wake.wait(wait_s)  # to stop, to pause or to go on: never for a round
            self._wake.clear()
            if woken or self._stop.is_set() or self._paused or self._every_s is None:
                wait_s = self._every_s
                continue
            began = self._clock()
            try:
                self.run_round()
                failed_wait_s = FIRST_WAIT_S
                wait_s = max(0.0, self._every_s - (self._clock() - began))
            except BudgetExceeded as error:
                log_event("no_further_round", level=logging.WARNING, error=type(error).__name__)
                self._paused = True  # and again after a restart, by the same error
            except Exception as error:  # whatever it is, the next round may pass
                log_event("round_failed", level=logging.WARNING, error=type(error).__name__)
                wait_s = min(failed_wait_s, LONGEST_WAIT_S)
                failed_wait_s = min(2 * failed_wait_s, LONGEST_WAIT_S)
