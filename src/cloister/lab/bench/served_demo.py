"""``cloister demo`` as a person starts it: one process tree, from the first step to the console."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from cloister.core.errors import StoreError

__all__ = ["ServedDemo", "served_demo"]

ADDRESS: Final = re.compile(r"The console: (http://127\.0\.0\.1:\d+)")
START_S: Final = 300.0
END_S: Final = 60.0
_PROGRAM: Final = "from cloister.app.command_line import main; main()"


class ServedDemo:
    """A demo whose console answers.

    Parameters
    ----------
    address
        Of the console.
    process
        The demo's own; its services are below it.
    start_s
        From the command to the console's address, all steps of the story between.
    """

    def __init__(self, address: str, process: subprocess.Popen[str], start_s: float) -> None:
        self.address, self.process, self.start_s = address, process, start_s
        self._told: dict[str, Any] | None = None

    def end(self) -> dict[str, Any]:
        """End the demo as Ctrl-C does; return the object that it prints."""
        if self._told is None:
            self.process.send_signal(signal.SIGINT)
            out, _ = self.process.communicate(timeout=END_S)
            self._told = json.loads(out) if out.strip() else {}
        return self._told


@contextmanager
def served_demo(*, seed: int = 1) -> Iterator[ServedDemo]:
    """Run the demo until its console answers; it has ended when this has."""
    with TemporaryDirectory(prefix="cloister-") as folder:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "demo", "--serve", "--json", "--port", "0",
             "--seed", str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": folder, "COLUMNS": "200", "NO_COLOR": "1"},
        )  # fmt: skip
        watchdog = threading.Timer(START_S, process.kill)
        watchdog.start()
        try:
            address = _address(process)
            demo = ServedDemo(address, process, time.perf_counter() - began)
            watchdog.cancel()
            yield demo
        finally:
            watchdog.cancel()
            _ended(process)
        left = [path.name for path in Path(folder).iterdir() if path.name.startswith("cloister-")]
        if left:
            raise StoreError(f"the demo left behind: {', '.join(left)}", where="demo")


def _address(process: subprocess.Popen[str]) -> str:
    told = []
    for line in process.stderr or ():
        told.append(line)
        if found := ADDRESS.search(line):
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            return found[1]
    raise StoreError(f"the demo ended before its console: {''.join(told)[-3000:]}", where="demo")


def _drain(stream: IO[str] | None) -> None:
    """Read on, so that the demo never waits for a reader."""
    try:
        for _ in stream or ():
            pass
    except ValueError:  # closed
        return


def _ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
