"""One deadline for all that a piece of work does, however many steps it takes.

A limit on each step is no limit: a peer that sends a byte now and then never misses it. Whoever
waits inside `within` asks `time_left` how long that may still take.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["LONGEST_S", "time_left", "within"]

LONGEST_S: Final = 10 * 366 * 86400.0  # ten years: nobody means to wait for longer

_ends: Final[ContextVar[float]] = ContextVar("ends", default=math.inf)


@contextmanager
def within(timeout_s: float) -> Iterator[None]:
    """Let what is done inside take so long in all; a deadline around this one still holds.

    It holds in this thread. A thread that is started inside gets it with `contextvars`.

    Examples
    --------
    >>> with within(60.0), within(3600.0):
    ...     59.0 < time_left() <= 60.0
    True
    >>> time_left()
    inf
    """
    token = _ends.set(min(_ends.get(), time.monotonic() + timeout_s))
    try:
        yield
    finally:
        _ends.reset(token)


def time_left() -> float:
    """Return the seconds that are left, never less than 0; infinite where there is no deadline."""
    return max(0.0, _ends.get() - time.monotonic())
