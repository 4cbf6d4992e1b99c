"""What to do when transactions stand in each other's way: wait a little and try again."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import SystemRandom
from typing import Final, TypeVar

from cloister.core.errors import StoreError

__all__ = ["Busy", "patiently"]

T = TypeVar("T")

N_ATTEMPTS: Final = 20  # of several transactions in conflict at least one passes each time
FIRST_WAIT_S: Final = 0.005
LONGEST_WAIT_S: Final = 0.5
_CHANCE: Final = SystemRandom()  # waits must differ between processes, so no seed is wanted


class Busy(StoreError):
    """Another transaction was in the way; nothing was changed, the same work may pass later."""


def patiently(work: Callable[[], T], *, n_attempts: int = N_ATTEMPTS) -> T:
    """Return what ``work`` returns, calling it again for as long as it raises `Busy`.

    Waits grow from 5 ms to half a second and are drawn at random, so that two writers who met
    once do not meet again. After ``n_attempts`` calls the last `Busy` is raised.

    Examples
    --------
    >>> answers = [Busy("locked"), Busy("locked"), 7]
    >>> def work():
    ...     answer = answers.pop(0)
    ...     if isinstance(answer, Busy):
    ...         raise answer
    ...     return answer
    >>> patiently(work)
    7
    """
    for attempt in range(n_attempts - 1):
        try:
            return work()
        except Busy:
            longest_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt)
            time.sleep(_CHANCE.uniform(0, longest_s))
    return work()
