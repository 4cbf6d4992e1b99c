"""Nonces that were used: each is accepted once, for as long as its request could be accepted."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict

from cloister.pods.overlay.tokens import refused

__all__ = ["SpentNonces"]


class SpentNonces:
    """Remembers nonces for a fixed time, in memory; threads may share it.

    A full memory refuses instead of forgetting, and each holder has a share of its own, so that
    one cannot fill it for all.

    Parameters
    ----------
    keep_s
        How long a nonce is remembered.
    max_nonces, max_per_holder
        How many at most.

    Examples
    --------
    >>> spent = SpentNonces(keep_s=60.0)
    >>> spent.spend("alice", "n1", 1_000.0)
    >>> spent.spend("alice", "n1", 1_001.0)
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: not allowed, or no such resource; ...
    """

    def __init__(
        self, *, keep_s: float, max_nonces: int = 200_000, max_per_holder: int = 20_000
    ) -> None:
        self._keep_s = keep_s
        self._max_nonces = max_nonces
        self._max_per_holder = max_per_holder
        self._lock = threading.Lock()
        self._until_s: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._held: Counter[str] = Counter()

    def spend(self, holder: str, nonce: str, now_s: float) -> None:
        """Use a nonce up; raise `AccessDenied` where it was used, or there is no room."""
        key = (holder, nonce)
        with self._lock:
            self._forget(now_s)
            if (
                key in self._until_s
                or len(self._until_s) >= self._max_nonces
                or self._held[holder] >= self._max_per_holder
            ):
                raise refused()
            self._until_s[key] = now_s + self._keep_s
            self._held[holder] += 1

    def __len__(self) -> int:
        return len(self._until_s)

    def _forget(self, now_s: float) -> None:
        while self._until_s:
            key, until_s = next(iter(self._until_s.items()))
            if until_s >= now_s:
                return
            del self._until_s[key]
            self._held[key[0]] -= 1
            if not self._held[key[0]]:
                del self._held[key[0]]
