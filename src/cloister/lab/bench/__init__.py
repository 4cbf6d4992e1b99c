"""Benchmarks: one module each, with a function ``run(advance) -> figures``.

Units are in the names of the figures. Times are CPU seconds of this process (all threads) unless
the name says ``wall``; a peer is measured in the same run, on the same input.
"""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import cloister
from cloister.core.errors import MissingDependency, SettingsError

__all__ = ["Timing", "machine", "peak_memory_mb", "run_benchmark", "select", "timed"]

Advance = Callable[[int, int], None]
Figures = dict[str, Any]

NAMES: Final = (
    "startup",
    "letor",
    "measures",
    "clicks",
    "random",
    "worlds",
    "clinic",
    "pdgd",
    "mechanisms",
    "ledger",
    "secure-aggregation",
    "sealed",
    "rules",
    "poisoning",
    "malicious-site",
    "sketch",
    "search",
    "search-rights",
    "overlay",
    "pods",
    "neural",
    "services",
    "hostile-pods",
    "engines-nvflare",
    "engines-flower",
    "console",
)
APART: Final = ("soak",)  # takes an hour: not among all


def select(name: str) -> tuple[str, ...]:
    """Return the benchmarks that a name stands for.

    Examples
    --------
    >>> select("letor")
    ('letor',)
    """
    if name == "all":
        return NAMES
    if name not in NAMES + APART:
        known = ", ".join(NAMES + APART)
        raise SettingsError(
            f"no benchmark {name!r}", where="bench", remedy=f"there are: {known}, all"
        )
    return (name,)


def run_benchmark(name: str, advance: Advance, *, quick: bool = False) -> Figures:
    """Run one benchmark; ``advance(done, total)`` is told of its steps.

    Parameters
    ----------
    quick
        At its smallest size, where it has one: to see that it runs, not for its figures.
    """
    try:
        module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        if quick and not hasattr(module, "run_quick"):
            raise SettingsError("has no quick size", where=f"bench {name}", remedy="omit --quick")
        figures: Figures = (module.run_quick if quick else module.run)(advance)
        return figures
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"a package that this needs, or a peer to compare with, is not installed: {error.name}",
            where=f"bench {name}",
            remedy="run `make bench`, or pip install 'cloister[dev]'",
        ) from None


class Timing:
    """Seconds that a block took: of the clock, and of all this process's threads."""

    wall_s = 0.0
    cpu_s = 0.0


@contextmanager
def timed() -> Iterator[Timing]:
    """Measure a block."""
    timing = Timing()
    wall, cpu = time.perf_counter(), time.process_time()
    yield timing
    timing.wall_s = time.perf_counter() - wall
    timing.cpu_s = time.process_time() - cpu


def peak_memory_mb() -> float:
    """Return the most memory that this process has had, in megabytes.

    The system's own count, since that of ``getrusage`` begins with the parent's.
    """
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def machine() -> dict[str, Any]:
    """Say on what the figures were measured."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "processor": _processor(),
        "cloister": cloister.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:  # noqa: PTH123
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()
