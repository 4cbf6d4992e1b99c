"""Token buckets in memory: how many requests a minute somebody may make."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

__all__ = ["TokenBuckets"]

MAX_BUCKETS: Final = 20_000  # a few megabytes


class TokenBuckets:
    """One bucket for each key; each holds a minute's requests and fills up steadily.

    The buckets are lost when the process ends, and not shared between processes. Where there are
    more keys than buckets, the one that was used least recently is forgotten, and full when its key
    comes again.

    Parameters
    ----------
    a_minute
        Requests that flow into a bucket in a minute, and fit into it.
    max_buckets
        Kept at a time.

    Examples
    --------
    >>> buckets = TokenBuckets(2)
    >>> [buckets.take("ann", now=0.0) for _ in range(3)]
    [0.0, 0.0, 30.0]
    >>> buckets.take("ann", now=30.0), buckets.take("bob", now=30.0)
    (0.0, 0.0)
    """

    def __init__(self, a_minute: int, *, max_buckets: int = MAX_BUCKETS) -> None:
        self._capacity, self._max_buckets = float(a_minute), max_buckets
        self._each_s = 60.0 / a_minute
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # tokens, when
        self._lock = threading.Lock()

    def take(self, key: Hashable, *, now: float | None = None) -> float:
        """Take one token; return 0, or the seconds until there is one."""
        return self._wait_s(key, 1.0, time.monotonic() if now is None else now)

    def wait_s(self, key: Hashable, *, now: float | None = None) -> float:
        """Return 0 if there is a token, or the seconds until there is one; take none."""
        return self._wait_s(key, 0.0, time.monotonic() if now is None else now)

    def __len__(self) -> int:
        return len(self._buckets)

    def _wait_s(self, key: Hashable, taken: float, now: float) -> float:
        with self._lock:
            tokens, since = self._buckets.pop(key, (self._capacity, now))
            tokens = min(self._capacity, tokens + max(0.0, now - since) / self._each_s)
            missing = 1.0 - tokens
            left = tokens if missing > 0 else tokens - taken
            self._buckets[key] = (left, now)
            if len(self._buckets) > self._max_buckets:
                self._buckets.popitem(last=False)
        return max(0.0, missing) * self._each_s
