"""Silent sites cost one timeout: they are not called again before they have said hello.

A site that was silent in a call is left out of `WatchingEngine.sites`. A thread says hello to it,
again and again, while rounds go on without it; once it answers, it is among the sites again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from cloister.core.closing import Closing
from cloister.federate.engines.engine import Engine
from cloister.federate.engines.site_call import (
    PROTOCOL_VERSION,
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
)

__all__ = ["HELLO", "WatchingEngine"]

HELLO: Final = SiteCall(SiteMethod.HELLO, 0, PROTOCOL_VERSION, b"")
_log: Final = logging.getLogger(__name__)


class WatchingEngine(Closing):
    """An engine that leaves silent sites alone; close it, or use it in a ``with``.

    Parameters
    ----------
    engine
        Carries the calls; two threads may call it at once.
    every_s
        How often silent sites are asked whether they are back.
    hello_s
        How long an answer to that may take.
    """

    def __init__(self, engine: Engine, *, every_s: float = 1.0, hello_s: float = 5.0) -> None:
        self._engine = engine
        self._every_s = every_s
        self._hello_s = hello_s
        self._lock = threading.Lock()
        self._silent: set[SiteId] = set()
        self._wake = threading.Event()
        self._closed = False
        self._watch = threading.Thread(target=self._look, name="watch-sites", daemon=True)
        self._watch.start()

    def sites(self) -> tuple[SiteId, ...]:
        """Return the sites that were not silent when they were called last."""
        with self._lock:
            return tuple(site for site in self._engine.sites() if site not in self._silent)

    def silent(self) -> tuple[SiteId, ...]:
        """Return the sites that are waited for."""
        with self._lock:
            return tuple(sorted(self._silent))

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call sites; those that are silent are left alone from now on."""
        replies = self._engine.call(calls, timeout_s)
        missing = calls.keys() - replies.keys()
        if missing:
            _log.warning("%d of %d sites were silent", len(missing), len(calls))
            with self._lock:
                self._silent |= missing
            self._wake.set()
        return replies

    def close(self) -> None:
        """Watch no longer."""
        self._closed = True
        self._wake.set()
        self._watch.join(self._hello_s + 1)

    def _look(self) -> None:
        pause = threading.Event()
        while not self._closed:  # closing wakes it
            self._wake.wait()
            self._wake.clear()
            waited_for = self.silent()
            if not waited_for:
                continue
            try:
                back = self._engine.call(dict.fromkeys(waited_for, HELLO), self._hello_s)
            except Exception:  # of whatever carries calls: looking goes on
                _log.exception("asking silent sites failed")
                back = {}
            with self._lock:
                self._silent -= back.keys()
                if self._silent:
                    self._wake.set()
            pause.wait(self._every_s)
