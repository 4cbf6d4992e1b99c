"""What to do when transactions stand in each other's way: wait a little and try again."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from random import SystemRandom
from typing import IO, Any, Final, TypeVar

from cloister.core.errors import StoreError

__all__ = ["WAIT_S", "Busy", "lock_patiently", "patiently"]

T = TypeVar("T")

WAIT_S: Final = 30.0  # how long a writer waits for another; each holds its lock for a change alone
N_ATTEMPTS: Final = 20  # of several transactions in conflict at least one passes each time
FIRST_WAIT_S: Final = 0.005
LONGEST_WAIT_S: Final = 0.5
_CHANCE: Final = SystemRandom()  # waits must differ between processes, so no seed is wanted


class Busy(StoreError):
    """Another transaction was in the way; nothing was changed, the same work may pass later."""


def lock_patiently(
    file: IO[Any] | int, *, what: str, where: str, timeout_s: float = WAIT_S, shared: bool = False
) -> None:
    """Lock an open file, waiting for whoever has it; the system unlocks it when a process ends.

    Raises
    ------
    Busy
        Somebody else still had it after ``timeout_s``.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until, wait_s = time.monotonic() + timeout_s, FIRST_WAIT_S
    while True:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise Busy(
                    f"another process is changing {what}, and did not end within {timeout_s:g} s;"
                    " nothing was changed",
                    where=where,
                    remedy="try again when it has ended",
                ) from None
        time.sleep(_CHANCE.uniform(0, wait_s))
        wait_s = min(2 * wait_s, LONGEST_WAIT_S / 5)


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
