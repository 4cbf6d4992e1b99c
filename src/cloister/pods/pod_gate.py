"""The gate before one pod's server: so many exchanges at a time, and none while it misbehaves.

A server that fails several times is left alone for a while (a circuit breaker). Requests meanwhile
fail at once, without a byte being sent. Then one request is let through to try; the rest still
fail. Each time that the server misbehaves again it is left alone for twice as long. A failure is
made up for by many answers, not by one: a server that answers every other request is no use either.
All that fails in one search is one failure.

A server that answers quickly can still cost too much: each document that a search shows takes this
program a millisecond or more. So searches may ask each pod for so many documents a second, and one
that takes long counts as several. A pod that is asked for more is left alone, too.

After a rest the server is on probation: one search at a time may ask it and waits a moment at most,
one failure suffices to leave it alone again, and little may be spent on it. It has proven itself
when it gave many answers, for as long as the rest was.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

from cloister.core.deadline import time_left
from cloister.core.errors import StoreError

__all__ = [
    "READ_RATE",
    "SLOW_S",
    "GateState",
    "PodAway",
    "PodGate",
    "SearchTally",
    "is_search",
    "note_child_time",
]

N_AT_ONCE: Final = 6  # exchanges with one pod's server
N_FAILURES: Final = 3  # before the server is left alone
N_MAKE_UP: Final = 20  # answers that make up for a failure
REST_S: Final = 5.0
MOST_REST_S: Final = 300.0
N_PROVEN: Final = 100  # answers one after the other that end the probation
READ_RATE: Final = 10.0  # documents of one pod, a second, that searches may ask for
SAVED_S: Final = 30.0  # of that rate that a pod may save up, and on probation:
PROBATION_S: Final = 10.0
TRIAL_S: Final = 0.1  # that a search waits for a pod on probation, which goes on without it
MOST_DOUBLINGS: Final = 10
ASIDE_S: Final = 60.0  # for which a document that cannot be shown is not asked for again
MOST_ASIDE: Final = 20_000  # documents of a pod
SLOW_S: Final = 0.5  # a search that waits so long for one answer counts it as a failure
_log: Final = logging.getLogger(__name__)


class PodAway(StoreError):
    """A pod's server does not answer in time, or is left alone because it did not."""

    usual_remedy = "try again later, or see that the pod's server answers"


class SearchTally:
    """What one search costs at one pod, which it asks for several documents in several threads.

    Parameters
    ----------
    n_failed
        Exchanges.
    used_s
        Time of processors, child processes included.
    """

    def __init__(self) -> None:
        self.n_failed, self.used_s = 0, 0.0
        self._lock = threading.Lock()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what fails inside, in this thread, as one failure together with all the rest."""
        began, token = time.thread_time(), _search.set(self)
        try:
            yield
        finally:
            _search.reset(token)
            self.add_time(time.thread_time() - began)

    def add_time(self, used_s: float) -> None:
        """Count time of a processor."""
        with self._lock:
            self.used_s += used_s


_search: Final[ContextVar[SearchTally | None]] = ContextVar("search", default=None)


def is_search() -> bool:
    """Say whether this thread works for a search."""
    return _search.get() is not None


def note_child_time(used_s: float) -> None:
    """Note that a child process computed for the search of this thread, if there is one."""
    search = _search.get()
    if search is not None:
        search.add_time(used_s)


class GateState(NamedTuple):
    """How a gate stands.

    Parameters
    ----------
    state
        ``closed`` lets requests through, ``open`` none, ``half-open`` one at a time. The words are
        those of electric circuits.
    n_opened
        How often in a row the server was left alone.
    rest_s
        For how much longer it is left alone.
    """

    state: Literal["closed", "open", "half-open"]
    n_opened: int
    rest_s: float


class PodGate:
    """Lets requests to one pod's server through, or not. Threads share it.

    Parameters
    ----------
    name
        Of the pod, for the log.
    n_at_once
        Exchanges at a time; others wait, within their deadline.
    n_failures
        After so many failures the server is left alone; twenty answers make up for one.
    rest_s, most_rest_s
        For how long at first, and at most; the time doubles from one time to the next.
    read_rate
        Documents a second that searches may ask for; infinite for no limit.
    slow_s
        How long one answer may take during a search.
    clock
        Seconds that never go back.

    Examples
    --------
    >>> gate = PodGate("ann", n_failures=1)
    >>> gate.enter()
    >>> gate.leave(failed=True)
    >>> gate.state().state
    'open'
    """

    def __init__(
        self,
        name: str = "",
        *,
        n_at_once: int = N_AT_ONCE,
        n_failures: int = N_FAILURES,
        rest_s: float = REST_S,
        most_rest_s: float = MOST_REST_S,
        read_rate: float = math.inf,
        slow_s: float = SLOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.slow_s = name, slow_s
        self._slots = threading.BoundedSemaphore(n_at_once)
        self._n_failures, self._rest_s, self._most_rest_s = n_failures, rest_s, most_rest_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failed = 0.0
        self._answered = 0
        self._n_opened = 0
        self._until: float | None = None  # None where requests go through
        self._proven_at = 0.0  # not before then
        self._trying = False
        self._n_rests = 0
        self._inside = threading.local()  # what this thread's exchange is
        self._n_searches = 0
        self._read_rate = read_rate
        self._saved_s, self._saved_at = SAVED_S, clock()
        self._closed_for_good = False
        self._aside: dict[str, float] = {}  # documents, and until when

    def begin_search(self) -> bool:
        """Say whether a search may read documents of the pod; `end_search` follows where it may."""
        with self._lock:
            if not self._lets_search_in():
                return False
            self._n_searches += 1
            return True

    def end_search(self, n_documents: float) -> None:
        """End what `begin_search` began; leave the pod alone where searches ask it for too much.

        Parameters
        ----------
        n_documents
            Asked for; one that took long counts as several.
        """
        with self._lock:
            self._n_searches -= 1
            now = self._clock()
            most_s = PROBATION_S if self._n_opened else SAVED_S
            saved_s = min(self._saved_s + now - self._saved_at, most_s)
            self._saved_s, self._saved_at = saved_s - n_documents / self._read_rate, now
            if self._saved_s < 0 and self._until is None:
                self._rest("searches ask for too much of it", at_least_s=-self._saved_s)

    def enter(self) -> None:
        """Begin an exchange, or raise `PodAway`; each is followed by `leave`, in this thread."""
        self._require_open_way(trying=False)
        left_s = time_left()
        if not self._slots.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
            raise PodAway("too many requests to this pod at a time", where=self.name)
        try:
            self._require_open_way(trying=True)
        except PodAway:
            self._slots.release()
            raise

    def leave(self, *, failed: bool | None) -> None:
        """End an exchange.

        Parameters
        ----------
        failed
            None where nobody knows: it was cut off before the server had its time.
        """
        is_trial, n_rests = self._inside.exchange
        with self._lock:
            if is_trial:
                self._trying = False
            is_of_now = n_rests == self._n_rests  # one that began before a rest proves nothing
            if failed and is_of_now:
                self._note_failure()
            elif failed is False and is_of_now:
                self._note_answer()
        self._slots.release()

    def complain(self) -> None:
        """Count a failure that is none of an exchange."""
        with self._lock:
            self._note_failure()

    def put_aside(self, doc_id: str) -> None:
        """Note that a document cannot be shown: it is too long, compressed or cannot be read."""
        with self._lock:
            if len(self._aside) >= MOST_ASIDE:
                self._aside.clear()
            self._aside[doc_id] = self._clock() + ASIDE_S

    def is_aside(self, doc_id: str) -> bool:
        """Say whether a document is not asked for: it could not be shown a moment ago."""
        with self._lock:
            return self._aside.get(doc_id, -math.inf) > self._clock()

    def n_aside(self) -> int:
        """Return how many documents are not asked for."""
        with self._lock:
            now = self._clock()
            self._aside = {name: until for name, until in self._aside.items() if until > now}
            return len(self._aside)

    def close(self) -> None:
        """Let nothing through any more."""
        self._closed_for_good = True

    def state(self) -> GateState:
        """Return how the gate stands."""
        with self._lock:
            if self._until is None:
                return GateState("closed", self._n_opened, 0.0)
            rest_s = self._until - self._clock()
            kind: Literal["open", "half-open"] = "open" if rest_s > 0 else "half-open"
            return GateState(kind, self._n_opened, max(0.0, rest_s))

    @property
    def patience_s(self) -> float:
        """How long a search waits for the pod's documents, within its own time."""
        return TRIAL_S if self._n_opened else math.inf

    @property
    def is_away(self) -> bool:
        """Whether the next search may not ask the pod."""
        with self._lock:
            return not self._lets_search_in()

    def _lets_search_in(self) -> bool:
        resting = self._until is not None and self._clock() < self._until
        busy = self._trying or (self._n_opened > 0 and self._n_searches > 0)
        return not (resting or busy or self._closed_for_good)

    def _require_open_way(self, *, trying: bool) -> None:
        with self._lock:
            if self._closed_for_good:
                raise PodAway("the connections are closed", where=self.name)
            if self._until is not None:
                if self._clock() < self._until or self._trying:
                    raise PodAway("the pod's server misbehaves and is left alone", where=self.name)
                self._trying = trying
            self._inside.exchange = self._until is not None, self._n_rests

    def _note_failure(self) -> None:
        search = _search.get()
        if search is not None:
            search.n_failed += 1
            if search.n_failed > 1:
                return
        self._failed += 1
        self._answered = 0
        if self._until is None and not self._n_opened and self._failed <= self._n_failures - 1:
            return
        if self._until is not None and self._clock() < self._until:
            return  # of those that were under way when it opened
        self._rest("it misbehaves")

    def _rest(self, why: str, at_least_s: float = 0.0) -> None:
        doublings = min(self._n_opened, MOST_DOUBLINGS)
        rest_s = min(max(self._rest_s * 2.0**doublings, at_least_s), self._most_rest_s)
        self._n_opened += 1
        self._n_rests += 1
        self._answered = 0
        self._until = self._clock() + rest_s
        self._proven_at = self._until + rest_s
        self._warn("is left alone", rest_s=round(rest_s), why=why)

    def _warn(self, what: str, **fields: object) -> None:
        told = {"pod": self.name, **fields}
        _log.warning(f"a pod's server {what}: {told}", extra={"fields": told})

    def _note_answer(self) -> None:
        now = self._clock()
        if self._until is not None:
            self._warn("answers again")
            self._until, self._failed = None, 0.0
            self._saved_s = min(self._saved_s + now - self._saved_at, PROBATION_S)
            self._saved_at = now
        self._failed = max(0.0, self._failed - 1 / N_MAKE_UP)
        self._answered += 1
        if self._answered >= N_PROVEN and now >= self._proven_at:
            self._n_opened = 0
