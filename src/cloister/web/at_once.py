"""How many requests are worked on at the same time: of one caller, and with large bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from cloister.web.callers import Caller
from cloister.web.limits import ServiceLimits
from cloister.web.refusals import TooMany

__all__ = ["AtOnce"]


class AtOnce:
    """Counts requests that are worked on; for one event loop.

    Parameters
    ----------
    limits
        How many there may be.

    Examples
    --------
    >>> from cloister.web.callers import Role
    >>> at_once = AtOnce(ServiceLimits(max_requests_at_once=1))
    >>> ann = Caller(Role.USER, "ann")
    >>> with at_once.work(ann, binary=False), at_once.work(ann, binary=False):
    ...     pass
    Traceback (most recent call last):
    ...
    cloister.web.refusals.TooMany: too many requests at the same time; wait and ask again
    >>> with at_once.work(ann, binary=False):
    ...     pass
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._of_caller: Counter[tuple[str, str]] = Counter()
        self._binary_of: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def work(self, caller: Caller | None, *, binary: bool) -> Iterator[None]:
        """Count a request while it is worked on, or refuse it."""
        key = ("", "") if caller is None else (str(caller.role), caller.name)
        if caller is not None and self._of_caller[key] >= self._limits.max_requests_at_once:
            raise TooMany("too many requests at the same time")
        if binary:
            self._require_room(key)
        counts = (self._of_caller, self._binary_of) if binary else (self._of_caller,)
        for count in counts:
            count[key] += 1
        try:
            yield
        finally:
            for count in counts:
                count[key] -= 1
                if not count[key]:
                    del count[key]

    def _require_room(self, key: tuple[str, str]) -> None:
        """Refuse a large body where there is no room, or its caller has half of the room."""
        room = self._limits.max_binary_at_once
        if self._binary_of.total() >= room:
            raise TooMany("the service is busy with other large requests", busy=True)
        if self._binary_of[key] >= max(1, room // 2):
            raise TooMany("too many large requests at the same time")
