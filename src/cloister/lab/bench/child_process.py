"""Programs that a benchmark starts beside itself, and the CPU time that they have had."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["child_process", "cpu_s_of"]


@contextmanager
def child_process(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; it is ended by its id whatever happens."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def cpu_s_of(children: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return the CPU seconds that processes have had, in steps of the system's clock."""
    n_ticks = 0
    for child in children:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        n_ticks += int(fields[11]) + int(fields[12])  # utime and stime
    return n_ticks / os.sysconf("SC_CLK_TCK")
