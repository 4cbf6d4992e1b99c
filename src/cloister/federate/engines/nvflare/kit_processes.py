"""Start and stop the keepers of kits on this machine, and see which of them run."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.errors import Conflict, StoreError
from cloister.federate.engines.nvflare.kit_keeper import CHILD_FILE, KEEPER_FILE, OUTPUT_FILE
from cloister.federate.engines.nvflare.kits import read_kit

__all__ = ["KitProcess", "kit_process", "start_kit", "stop_kit"]

_STOP_S: Final = 20.0
_START_S: Final = 20.0


class KitProcess(NamedTuple):
    """What runs of a kit.

    Parameters
    ----------
    keeper, process
        Their process numbers; None where they do not run.
    """

    keeper: int | None
    process: int | None


def kit_process(folder: Path) -> KitProcess:
    """Return what runs of a kit on this machine."""
    keeper = _running(folder / KEEPER_FILE, "kit_keeper", folder)
    return KitProcess(keeper, _running(folder / CHILD_FILE, "_train", folder))


def start_kit(folder: Path) -> int:
    """Start a kit's keeper as a process of its own; return its number."""
    folder = folder.absolute()
    kit = read_kit(folder)
    if kit_process(folder).keeper is not None:
        raise Conflict("its process runs already", where=kit.name, remedy="stop it first")
    stop_kit(folder)  # a process whose keeper was killed
    keeper = _spawned(folder)
    end_s = time.monotonic() + _START_S
    while kit_process(folder).process is None:
        if _reaped(keeper) or time.monotonic() > end_s:
            raise StoreError("its process did not start", where=f"{folder}/{OUTPUT_FILE}")
        time.sleep(0.05)
    return keeper


def stop_kit(folder: Path) -> bool:
    """Stop a kit's keeper and its process; say whether one of them ran."""
    folder = folder.absolute()
    running = kit_process(folder)
    first = running.keeper or running.process  # the keeper ends its process
    if first is None:
        return False
    os.kill(first, signal.SIGTERM)
    end_s = time.monotonic() + _STOP_S
    while kit_process(folder) != (None, None):
        if time.monotonic() > end_s:
            raise StoreError("its process did not end", where=str(folder))
        _reaped(first)
        time.sleep(0.05)
    return True


def _running(file: Path, word: str, folder: Path) -> int | None:
    """Return the process of a file, if it is alive and is what it was: numbers are used again."""
    try:
        pid = int(file.read_text(encoding="utf-8"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError):
        return None
    return pid if word in command and str(folder) in command else None


def _spawned(folder: Path) -> int:
    """Start a keeper that outlives this process; return its number."""
    module = "cloister.federate.engines.nvflare.kit_keeper"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    output = str(folder / OUTPUT_FILE)
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", module, str(folder)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _reaped(pid: int) -> bool:
    """Take note of a child's end, where it is ours; say whether it has ended."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False
