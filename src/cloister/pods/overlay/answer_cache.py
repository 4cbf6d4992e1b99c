"""Answers that a searcher has, to be used again when the node says that they still hold."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from cloister.core.ids import ServerId

__all__ = ["AnswerCache", "AnswerKey", "CachedAnswer"]


class AnswerKey(NamedTuple):
    """Who asked whom for what; a new token asks anew, for it may say other groups."""

    token_digest: str
    server_id: ServerId
    request: bytes


class CachedAnswer(NamedTuple):
    """An answer and the version of the index that it was made of."""

    version: int
    answer: Any
    n_bytes: int


class AnswerCache:
    """The answers used last, up to some memory; threads may share it.

    It holds what its user was allowed to read when they asked. It is never used without asking the
    node, and lives in memory only.

    Examples
    --------
    >>> cache = AnswerCache(max_bytes=100)
    >>> key = AnswerKey("token", ServerId("clinic-a"), b"cough")
    >>> cache.put(key, CachedAnswer(3, "an answer", 60))
    >>> cache.get(key).version
    3
    >>> cache.put(key._replace(request=b"fever"), CachedAnswer(3, "another", 60))
    >>> cache.get(key) is None
    True
    """

    def __init__(self, max_bytes: int = 32_000_000) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[AnswerKey, CachedAnswer] = OrderedDict()
        self._n_bytes = 0

    def get(self, key: AnswerKey) -> CachedAnswer | None:
        """Return what is held for a request."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: AnswerKey, answer: CachedAnswer) -> None:
        """Hold an answer; the one that was not used for longest goes where there is no room."""
        with self._lock:
            before = self._held.pop(key, None)
            self._n_bytes += answer.n_bytes - (before.n_bytes if before else 0)
            self._held[key] = answer
            while self._n_bytes > self._max_bytes:
                _, dropped = self._held.popitem(last=False)
                self._n_bytes -= dropped.n_bytes
