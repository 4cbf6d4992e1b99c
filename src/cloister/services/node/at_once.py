"""Searches in threads of their own: while they wait, rounds and other nodes' questions go on.

A search waits for other nodes, whose searches may wait for this one. Questions of other nodes wait
for nobody; so as long as these have threads that no search can take, nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from cloister.web.refusals import TooMany

__all__ = ["AtOnce"]

T = TypeVar("T")


class AtOnce:
    """Runs so much at a time, lets some wait, and refuses the rest.

    Parameters
    ----------
    n_running
        Threads.
    n_waiting
        How many may wait for one; more are told to come later.
    """

    def __init__(self, n_running: int, n_waiting: int) -> None:
        self._n_running, self._most = n_running, n_running + n_waiting
        self._n = 0  # that run or wait; one event loop counts them
        self._limiter: anyio.CapacityLimiter | None = None  # made in the loop that uses it

    async def run(self, work: Callable[[], T]) -> T:
        """Return what the work returns, from a thread."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self._n_running)
        if self._n >= self._most:
            raise TooMany("too many searches at a time", busy=True)
        self._n += 1
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._n -= 1
