"""``cloister federation up``: all services of a folder as processes; what dies is started again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Final

from cloister.app.output import print_json, say
from cloister.core.errors import CloisterError
from cloister.services.federation_folder import FederationFolder

__all__ = ["run_federation"]

FIRST_WAIT_S: Final = 0.5  # before a service that died is started again; doubled each time
LONGEST_WAIT_S: Final = 30.0
STEADY_S: Final = 60.0  # who lived so long is started again at once
ENDING_S: Final = 15.0


class _Kept:
    """One service, started again for as long as it dies."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log: IO[bytes] = file.with_name("log.jsonl").open("ab")
        self._wait_s = FIRST_WAIT_S
        self._start_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cloister.services.running", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C ends them in our order, not all at once
        )

    def look(self) -> bool:
        """Start the service again if it died and it is time; return whether it died just now."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self.start()
            return False
        if self._process.poll() is None:
            return False
        steady = now - self._began > STEADY_S
        self._wait_s = FIRST_WAIT_S if steady else min(2 * self._wait_s, LONGEST_WAIT_S)
        self._start_at = now + self._wait_s
        self._process = None
        return True

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        if self._process is not None:
            try:
                self._process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()


def run_federation(folder: Path, *, as_json: bool) -> None:
    """Run all services until SIGINT or SIGTERM; tell their addresses once all answer."""
    made, stop = FederationFolder(folder), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    kept = {service: _Kept(made.file(service)) for service in made.services}
    try:
        if _all_answer(made, stop):
            addresses = {service: made.url(service) for service in made.services}
            if as_json:
                print_json({"services": addresses})
            else:
                say(f"{len(addresses)} services of {folder} answer; end them with Ctrl-C")
        while not stop.wait(0.2):
            for service, one in kept.items():
                if one.look():
                    say(f"{service} died, and is started again; see {service}/log.jsonl")
    finally:
        for one in kept.values():
            one.end()
        for one in kept.values():
            one.wait()


def _all_answer(made: FederationFolder, stop: threading.Event) -> bool:
    """Wait until every service answers; False if told to end before that."""
    for service in made.services:
        with made.client(service, timeout_s=2.0) as client:
            while not stop.wait(0.1):
                try:
                    client.get_json("/ready")
                    break
                except CloisterError:
                    continue
    return not stop.is_set()
