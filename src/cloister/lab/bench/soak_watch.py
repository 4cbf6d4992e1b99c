"""What services take while they run: memory, open files and CPU time, every few seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["Sample", "ServiceWatch", "Taken"]

EVERY_S: Final = 2.0
WARM_SHARE: Final = 0.25  # of a life: until then it has in memory what it needs,
WARM_S: Final = 300.0  # and no later than this


class Sample(NamedTuple):
    """A look at one process."""

    at: float
    rss_mb: float
    n_files: int
    cpu_s: float


class Taken(NamedTuple):
    """What one life of a service took, when it was warm and at its end."""

    minutes: float
    first: Sample
    last: Sample

    @property
    def growth_mb(self) -> float:
        """How much more memory it had at the end."""
        return self.last.rss_mb - self.first.rss_mb


class ServiceWatch:
    """Looks at services in a thread of its own, until it is stopped.

    Parameters
    ----------
    services
        Their names.
    pid_of
        Gives the process of a service now; None where it does not run.
    """

    def __init__(self, services: Sequence[str], pid_of: Callable[[str], int | None]) -> None:
        self._services, self._pid_of = tuple(services), pid_of
        self._lives: dict[str, dict[int, list[Sample]]] = {one: {} for one in services}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-services", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def n_lives(self, service: str) -> int:
        """Return how often a service was started."""
        return len(self._lives[service])

    def longest_life(self, service: str) -> Taken:
        """Return what the longest life of a service took."""
        lives = [_taken(samples) for samples in self._lives[service].values()]
        return max(lives, key=lambda one: one.minutes)

    def figures(self, service: str) -> dict[str, Any]:
        """Return the figures of one service."""
        lives = list(self._lives[service].values())
        first, last, longest = _taken(lives[0]).first, lives[-1][-1], self.longest_life(service)
        return {
            "lives": len(lives),
            "rss_first_mb": round(first.rss_mb, 1),
            "rss_last_mb": round(last.rss_mb, 1),
            "rss_most_mb": round(max(one.rss_mb for life in lives for one in life), 1),
            "files_first": first.n_files,
            "files_last": last.n_files,
            "longest_life_min": round(longest.minutes, 1),
            "rss_growth_in_it_mb": round(longest.growth_mb, 1),
            "files_growth_in_it": longest.last.n_files - longest.first.n_files,
            "cpu_s": round(sum(life[-1].cpu_s for life in lives), 1),
        }

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            for service in self._services:
                pid = self._pid_of(service)
                sample = None if pid is None else _look(pid)
                if pid is not None and sample is not None:
                    self._lives[service].setdefault(pid, []).append(sample)


def _taken(samples: list[Sample]) -> Taken:
    began, ended = samples[0].at, samples[-1].at
    warm_s = min(WARM_S, WARM_SHARE * (ended - began))
    first = next(one for one in samples if one.at >= began + warm_s)
    return Taken((ended - began) / 60, first, samples[-1])


def _look(pid: int) -> Sample | None:
    """Look at a process; None where it has ended meanwhile."""
    folder = Path(f"/proc/{pid}")
    try:
        status = (folder / "status").read_text()
        rss_mb = next(int(x.split()[1]) / 1024 for x in status.splitlines() if "VmRSS" in x)
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Sample(time.monotonic(), rss_mb, len(list((folder / "fd").iterdir())), cpu_s)
    except (OSError, StopIteration):
        return None
