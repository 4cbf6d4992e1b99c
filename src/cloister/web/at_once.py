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
        self._n_binary = 0

    @contextmanager
    def work(self, caller: Caller | None, *, binary: bool) -> Iterator[None]:
        """Count a request while it is worked on, or refuse it."""
        key = ("", "") if caller is None else (str(caller.role), caller.name)
        if caller is not None and self._of_caller[key] >= self._limits.max_requests_at_once:
            raise TooMany("too many requests at the same time")
        if binary and self._n_binary >= self._limits.max_binary_at_once:
            raise TooMany("the service is busy with other large requests", busy=True)
        self._of_caller[key] += 1
        self._n_binary += binary
        try:
            yield
        finally:
            self._n_binary -= binary
            self._of_caller[key] -= 1
            if not self._of_caller[key]:
                del self._of_caller[key]
