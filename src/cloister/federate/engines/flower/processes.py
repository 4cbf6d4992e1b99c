"""Programs that run beside a folder: started apart from the terminal, known by pid, and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.errors import StoreError
from cloister.store.incoming import replace_file

__all__ = ["Program", "end_program", "find_program", "start_program"]

END_S: Final = 20.0  # Flower stops its servers at its own pace
_POLL_S: Final = 0.05


class Program(NamedTuple):
    """A running program.

    Parameters
    ----------
    name
        Its role.
    pid
        Its process.
    """

    name: str
    pid: int


def start_program(
    folder: Path, name: str, command: Sequence[str], environment: Mapping[str, str]
) -> Program:
    """Start a program, unless it runs already; its words go to ``NAME.log``."""
    running = find_program(folder, name)
    if running is not None:
        return running
    with (folder / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child.returncode = 0  # it lives on: whoever looks for it again does so by its file
    known = {"pid": child.pid, "began": _began(child.pid)}
    replace_file(_file(folder, name), json.dumps(known).encode())
    return Program(name, child.pid)


def find_program(folder: Path, name: str) -> Program | None:
    """Return a program that runs; a pid that was given to another process does not count."""
    try:
        known = json.loads(_file(folder, name).read_bytes())
        pid, began = int(known["pid"]), known["began"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return Program(name, pid) if began is not None and _began(pid) == began else None


def end_program(folder: Path, name: str) -> bool:
    """End a program by its pid, kindly, then by force; say whether it ran."""
    program = find_program(folder, name)
    if program is not None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(program.pid, how)
            deadline = time.monotonic() + END_S
            while find_program(folder, name) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            if find_program(folder, name) is None:
                break
        else:
            raise StoreError("the process does not end", where=f"{name}, pid {program.pid}")
    _file(folder, name).unlink(missing_ok=True)
    return program is not None


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _began(pid: int) -> int | None:
    """Return when a process began, in the system's ticks; None for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # where it was ours
        return None
    return int(fields[19])
