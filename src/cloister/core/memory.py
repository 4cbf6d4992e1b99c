"""Refuses what cannot fit in memory before any of it is allocated."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cloister.core.errors import SettingsError

__all__ = ["available_bytes", "require_memory"]


def available_bytes() -> int:
    """Return how much memory this process can still get, as the system and its group allow."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvail"))
    with suppress(OSError, ValueError):  # of a container
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        free = min(free, most - int((group / "memory.current").read_text()))
    return max(free, 0)


def require_memory(n_bytes: int, *, where: str, remedy: str) -> None:
    """Raise where something needs more memory than there is.

    Parameters
    ----------
    n_bytes
        The least that it needs: what might fit is not refused.

    Examples
    --------
    >>> require_memory(10**18, where="world:features", remedy="ask for fewer queries")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: world:features: this needs at least 1,000,000 TB of memory,
    and ... free; ask for fewer queries
    """
    free = available_bytes()
    if n_bytes > free:
        raise SettingsError(
            f"this needs at least {_in_words(n_bytes)} of memory, and {_in_words(free)} are free",
            where=where,
            remedy=remedy,
        )


def _in_words(n_bytes: int) -> str:
    for size, unit in ((10**12, "TB"), (10**9, "GB")):
        if n_bytes >= size:
            return f"{n_bytes // size:,} {unit}"
    return f"{n_bytes // 10**6:,} MB"
