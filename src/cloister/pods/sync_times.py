"""When each pod was last brought into the index, and how long that took.

The index knows who may read a document as of the last sync. Where a pod is not synced any more, a
reader whose right was taken away at the pod would count there without end. So a pod that was not
synced for too long is hidden.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.file_errors import writing
from cloister.core.ids import PodId
from cloister.store.incoming import lock_held, replace_file

__all__ = [
    "FILE",
    "LOCK",
    "N_INTERVALS",
    "N_TIMES",
    "Stopwatch",
    "SyncTime",
    "SyncTimes",
    "is_stale",
]

N_INTERVALS: Final = 3  # without a sync, after which a pod is hidden
N_TIMES: Final = 3  # the pod's own time for a sync, where that is longer
AHEAD_S: Final = 60.0  # a time in the future is no time
WRITE_S: Final = 1.0
LOCK: Final = ".syncs.lock"
FILE: Final = "syncs.json"


class SyncTime(NamedTuple):
    """The last sync of a pod that succeeded: when it began, by the clock, and how long it took."""

    began: float
    took_s: float


def is_stale(last: SyncTime | None, interval_s: float, now: float) -> bool:
    """Say whether a pod is to be hidden.

    It is after three intervals without a sync, or after three times as long as its last sync took
    where that is more.

    Examples
    --------
    >>> is_stale(SyncTime(began=1000.0, took_s=5.0), 60.0, now=1170.0)
    False
    >>> is_stale(SyncTime(began=1000.0, took_s=5.0), 60.0, now=1190.0)
    True
    >>> is_stale(SyncTime(began=1000.0, took_s=100.0), 60.0, now=1190.0)
    False
    """
    if last is None or last.began > now + AHEAD_S:
        return True
    return now - last.began > max(N_INTERVALS * interval_s, N_TIMES * last.took_s)


class SyncTimes:
    """The times of a home's pods, in a file that processes share. Threads may share it, too."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int, int], dict[PodId, SyncTime]] | None = None
        self._pending: dict[PodId, SyncTime] = {}
        self._written = -WRITE_S

    def all(self) -> dict[PodId, SyncTime]:
        """Return the last sync of each pod that has had one."""
        with self._lock:
            return self._stored() | self._pending if self._pending else self._stored()

    def note(self, pod_id: PodId, done: SyncTime) -> None:
        """Keep when a pod was synced; on the disk after a second at the latest, or by `flush`."""
        with self._lock:
            self._pending[pod_id] = done
            due = time.monotonic() - self._written >= WRITE_S
        if due:
            self.flush()

    def flush(self, *, forget: Iterable[PodId] = ()) -> None:
        """Write what was noted, and forget pods; where there is neither, nothing is touched."""
        gone = set(forget)
        if not gone and not self._pending:
            return
        lock = self._home / LOCK
        with writing(self._home):
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.touch(mode=0o600)
        with lock_held(lock, exclusive=True), self._lock:
            kept = {
                name: one
                for name, one in (self._stored() | self._pending).items()
                if name not in gone
            }
            content = json.dumps({name: list(one) for name, one in kept.items()})
            with writing(self._home):
                replace_file(self._home / FILE, content.encode())
            self._pending, self._written = {}, time.monotonic()

    def _stored(self) -> dict[PodId, SyncTime]:
        file = self._home / FILE
        try:
            found = file.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._known is None or self._known[0] != state:
                self._known = state, _parsed(file.read_bytes())
            return self._known[1]
        except OSError:
            return {}


class Stopwatch:
    """Takes the time of a sync."""

    def __init__(self) -> None:
        self._began, self._start = time.time(), time.monotonic()

    def stop(self) -> SyncTime:
        """Return when it began, and how long it took until now."""
        return SyncTime(self._began, time.monotonic() - self._start)


def _parsed(content: bytes) -> dict[PodId, SyncTime]:
    """Read times; where the file is damaged there are none, and pods are synced again."""
    try:
        return {
            PodId(name): SyncTime(float(began), float(took_s))
            for name, (began, took_s) in json.loads(content).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
