"""Lets searches go first: work in the background takes a small share of the processor meanwhile.

Python runs one thread at a time. A thread that reads thousands of answers would double the time of
every search beside it. While nobody searches it may run as fast as it can.
"""

from __future__ import annotations

import threading
import time
from typing import Final

__all__ = ["Courtesy"]

SHARE: Final = 0.15  # of one processor, for all threads together
SEARCHED_S: Final = 2.0  # for so long after a search others are expected
MOST_REST_S: Final = 2.0


class Courtesy:
    """Holds back threads that work in the background. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_search = -SEARCHED_S
        self._free_at = 0.0
        self._local = threading.local()

    def note_search(self) -> None:
        """Say that somebody searches."""
        self._last_search = time.monotonic()

    def begin(self) -> None:
        """Begin a piece of work in this thread."""
        self._local.began = time.thread_time()

    def rest(self) -> None:
        """Wait as long as the processor time since `begin` asks for, where somebody searches."""
        used_s = time.thread_time() - self._local.began
        now = time.monotonic()
        if now - self._last_search >= SEARCHED_S:
            return
        with self._lock:
            self._free_at = min(max(now, self._free_at) + used_s / SHARE, now + MOST_REST_S)
            rest_s = self._free_at - now
        time.sleep(rest_s)
