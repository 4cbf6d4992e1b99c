"""Lets searches go first: syncs take a small share of the processor meanwhile.

Python runs one thread at a time. A thread that reads thousands of answers would double the time of
every search beside it. While nobody searches it may run as fast as it can. While somebody does, the
pods that are synced have equal parts of a share. The beginning of each sync counts against a larger
share: a small pod is synced in time, however many large or hostile ones are synced beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from cloister.core.deadline import time_left
from cloister.core.ids import PodId

__all__ = ["Courtesy", "considerate"]

T = TypeVar("T")
R = TypeVar("R")
SHARE: Final = 0.02  # of one processor, for all syncs together
SMALL_SHARE: Final = 0.1  # the same, for the beginnings of syncs
SMALL_S: Final = 0.03  # of a processor that are a sync's beginning: some 20 documents that changed
SEARCHED_S: Final = 2.0  # for so long after a search others are expected
LOOK_S: Final = 0.5  # between two looks whether anybody still searches


class Courtesy:
    """Holds back the syncs of a home. Threads share it.

    Examples
    --------
    >>> courtesy = Courtesy()
    >>> with courtesy.of(PodId("ann")):  # nobody searches: it is done without a rest
    ...     considerate(len)("cough")
    5
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_search = -SEARCHED_S
        # By share: when each pod has waited for what it used.
        self._free_at: dict[float, dict[PodId, float]] = {SHARE: {}, SMALL_SHARE: {}}
        self._ended = threading.Event()

    def note_search(self) -> None:
        """Say that somebody searches."""
        self._last_search = time.monotonic()

    @contextmanager
    def of(self, pod_id: PodId) -> Iterator[None]:
        """Charge one sync, which is done inside and is `considerate`, to a pod."""
        spent_s = 0.0

        def rest(used_s: float) -> None:  # threads of one sync may differ by a little
            nonlocal spent_s
            spent_s += used_s
            self._rest(pod_id, used_s, SHARE if spent_s > SMALL_S else SMALL_SHARE)

        token = _resting.set(rest)
        try:
            yield
        finally:
            _resting.reset(token)

    def end(self) -> None:
        """Let nobody rest any more: the program ends."""
        self._ended.set()

    def _rest(self, pod_id: PodId, used_s: float, share: float) -> None:
        """Wait as long as the processor time that was used asks for, where somebody searches."""
        now = time.monotonic()
        with self._lock:
            free_at = self._free_at[share]
            waiting = {one: until for one, until in free_at.items() if until > now}
            n_pods = len(waiting.keys() | {pod_id})
            waiting[pod_id] = waiting.get(pod_id, now) + used_s * n_pods / share
            self._free_at[share] = waiting if self._is_searched(now) else {}
            until = min(waiting[pod_id], now + time_left())
        while self._is_searched(now) and now < until:
            if self._ended.wait(min(LOOK_S, until - now)):
                return
            now = time.monotonic()

    def _is_searched(self, now: float) -> bool:
        return now - self._last_search < SEARCHED_S


_resting: Final[ContextVar[Callable[[float], None]]] = ContextVar("resting")


def considerate(work: Callable[[T], R]) -> Callable[[T], R]:
    """Return work that is followed by a rest where it is part of a sync and somebody searches.

    It goes by the sync around the call, in this thread or, with `contextvars`, in another.
    """

    def done(given: T) -> R:
        began = time.thread_time()
        try:
            return work(given)
        finally:
            rest = _resting.get(None)
            if rest is not None:
                rest(time.thread_time() - began)

    return done
