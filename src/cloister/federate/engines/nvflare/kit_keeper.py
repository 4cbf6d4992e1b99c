"""Keep the process of one startup kit alive: ``python -m ...kit_keeper FOLDER``.

NVFlare's own ``start.sh`` looks every five seconds, gives up after five starts in five minutes, and
takes whatever ``python3`` is on the path. The keeper waits for its child, starts it again at once,
waits longer after each quick end, and never gives up. SIGTERM ends both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from cloister.core.errors import CloisterError, SettingsError
from cloister.federate.engines.nvflare.kits import Kit, read_kit

__all__ = ["CHILD_FILE", "KEEPER_FILE", "OUTPUT_FILE", "kept_command", "main"]

KEEPER_FILE: Final = "keeper.pid"
CHILD_FILE: Final = "process.pid"
OUTPUT_FILE: Final = "output.log"  # what a process says before its log is set up
_HEARTBEAT_S: Final = 2  # of sites: how soon they notice that the server was started again
_QUICK_S: Final = 10.0  # an end before that counts as quick
_LONGEST_WAIT_S: Final = 30.0
_GRACE_S: Final = 5.0  # between SIGTERM and SIGKILL


def kept_command(folder: Path, kit: Kit) -> list[str]:
    """Return the command of a kit's process: the one of its own ``sub_start.sh``."""
    if kit.role == "operator":
        raise SettingsError("an operator's kit has no process", where=str(folder))
    kind = "server" if kit.role == "server" else "client"
    names = (
        [] if kit.role == "server" else [f"uid={kit.name}", f"heart_beat_interval={_HEARTBEAT_S}"]
    )
    module = f"nvflare.private.fed.app.{kind}.{kind}_train"
    set_ = ["secure_train=true", f"org={kit.org}", "config_folder=config", *names]
    return [
        sys.executable,
        "-u",
        "-m",
        module,
        "-m",
        str(folder),
        "-s",
        f"fed_{kind}.json",
        "--set",
        *set_,
    ]


def kept_environment() -> dict[str, str]:
    """Return what a kit's process sees: no details of errors in messages, few waits."""
    quiet = {
        "NVFLARE_SECURE_LOGGING": "true",  # a site's errors travel to the server without details
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "5",  # of a site that was killed; 900 unless set
        "MALLOC_ARENA_MAX": "4",
        "OMP_NUM_THREADS": "1",
    }
    return {**os.environ, **quiet}


class _Keeper:
    """One child at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = kept_command(folder, read_kit(folder))
        self._stop = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start the child, again and again, until told to end."""
        signal.signal(signal.SIGTERM, self._told)
        signal.signal(signal.SIGINT, self._told)
        _write_pid(self._folder / KEEPER_FILE, os.getpid())
        wait_s = 0.0
        try:
            while not self._stop.wait(wait_s):
                begin = time.monotonic()
                self._run_once()
                quick = time.monotonic() - begin < _QUICK_S
                wait_s = min(max(0.5, 2 * wait_s), _LONGEST_WAIT_S) if quick else 0.0
        finally:
            (self._folder / KEEPER_FILE).unlink(missing_ok=True)
            (self._folder / CHILD_FILE).unlink(missing_ok=True)

    def _run_once(self) -> None:
        with (self._folder / OUTPUT_FILE).open("ab") as output:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=kept_environment(),
            )
        self._child = child
        _write_pid(self._folder / CHILD_FILE, child.pid)
        while child.poll() is None:
            if self._stop.wait(0.1):
                _end(child)

    def _told(self, number: int, frame: object) -> None:
        self._stop.set()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _write_pid(path: Path, pid: int) -> None:
    new = path.with_suffix(".new")
    new.write_text(f"{pid}\n", encoding="utf-8")
    new.replace(path)


def main() -> int:
    """Keep the kit that the command line names."""
    try:
        _Keeper(Path(sys.argv[1]).absolute()).run()
    except CloisterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
