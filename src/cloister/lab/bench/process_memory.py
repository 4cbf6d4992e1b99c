"""The memory of this process and of those it started, all at one time."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["PeakOfChildren", "family_memory_mb"]

EVERY_S: Final = 0.2


class PeakOfChildren:
    """Looks several times a second at what this process and its descendants have together.

    Pages that processes share count once for each of them, so that the figure is rather too high;
    a peak shorter than the pause is missed.
    """

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, family_memory_mb(os.getpid()))
            if self._stopped.wait(EVERY_S):
                return


def family_memory_mb(root: int) -> float:
    """Return what a process and its descendants have in memory now, in megabytes."""
    parents, resident = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                lines = (folder / "status").read_text().splitlines()
            except OSError:  # it has ended meanwhile
                continue
            fields = dict(line.split(":", 1) for line in lines if ":" in line)
            parents[int(folder.name)] = int(fields["PPid"])
            resident[int(folder.name)] = int(fields.get("VmRSS", "0").split()[0]) / 1024
    return sum(mb for number, mb in resident.items() if _descends(number, root, parents))


def _descends(number: int, root: int, parents: dict[int, int]) -> bool:
    while number and number != root:
        number = parents.get(number, 0)
    return number == root
