"""Rounds, one at a time: by a schedule, or when an operator asks.

A round that fails (too few nodes, a database that is away) changes nothing and is tried again: soon
at first, then less often. A coordinator that is killed begins its round again when it is started.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from cloister.core.errors import BudgetExceeded, CloisterError, Conflict
from cloister.federate.engines.federation import SiteFederation, SiteRound
from cloister.privacy.secure_aggregation.errors import AggregationFailed
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
    after
        Called after each round, from the thread that ran it.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        federation: SiteFederation,
        *,
        every_s: float | None,
        after: Callable[[SiteRound], None] = lambda done: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation = federation
        self._every_s = every_s
        self._after = after
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._paused = False
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
        """Stop the schedule, or let it go on; a round under way is finished."""
        self._paused = paused
        self._wake.set()

    def run_round(self) -> SiteRound:
        """Run a round now; raise `Conflict` where one is under way."""
        if not self._one_at_a_time.acquire(blocking=False):
            raise Conflict("a round is under way", remedy="wait until it is over")
        try:
            done = self._federation.step()
        except CloisterError as error:
            self.n_failed += 1
            self.last_error = type(error).__name__
            if isinstance(error, AggregationFailed):
                raise Conflict(error.what, where=error.where, remedy=error.remedy) from None
            raise
        finally:
            self._one_at_a_time.release()
        self.last, self.last_error = done, ""
        log_event(
            "round",
            round=done.round_number,
            nodes=len(done.sites),
            silent=len(done.silent),
            faults=len(done.faults),
            n_interactions=done.n_interactions,
        )
        self._after(done)
        return done

    def close(self) -> None:
        """Begin no further round, and wait for the one under way."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        wait_s, failed_wait_s = self._every_s, FIRST_WAIT_S
        while not self._stop.is_set():
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._stop.is_set() or self._paused or self._every_s is None:
                wait_s = self._every_s
                continue
            began = self._clock()
            try:
                self.run_round()
                failed_wait_s = FIRST_WAIT_S
                wait_s = max(0.0, self._every_s - (self._clock() - began))
            except BudgetExceeded as error:
                log_event("no_further_round", level=logging.WARNING, error=type(error).__name__)
                self._paused = True
            except Exception as error:  # whatever it is, the next round may pass
                log_event("round_failed", level=logging.WARNING, error=type(error).__name__)
                wait_s = min(failed_wait_s, LONGEST_WAIT_S)
                failed_wait_s = min(2 * failed_wait_s, LONGEST_WAIT_S)
