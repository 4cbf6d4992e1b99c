"""``cloister federation up``: all services of a folder as processes; what dies is started again."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Final

from cloister.app.output import print_json, say
from cloister.core.errors import CloisterError, Conflict, NotFound, StoreError
from cloister.services.federation_folder import UNFINISHED, FederationFolder
from cloister.services.processes import Processes
from cloister.services.service_file import read_service_file
from cloister.services.sole_process import process_of, sole_process

__all__ = ["run_federation"]

FIRST_WAIT_S: Final = 0.5  # before a service that died is started again; doubled each time
LONGEST_WAIT_S: Final = 30.0
STEADY_S: Final = 60.0  # who lived so long is started again at once


class _Kept:
    """One service, started again for as long as it dies."""

    def __init__(self, processes: Processes, service: str) -> None:
        self._processes, self._service = processes, service
        self._wait_s = FIRST_WAIT_S
        self._start_at: float | None = None
        self._launch()

    def look(self) -> bool:
        """Start the service again if it died and it is time; return whether it died just now."""
        if self._processes.is_running(self._service):
            return False
        now = time.monotonic()
        if self._start_at is None:
            steady = now - self._began > STEADY_S
            self._wait_s = FIRST_WAIT_S if steady else min(2 * self._wait_s, LONGEST_WAIT_S)
            self._start_at = now + self._wait_s
            return True
        if now >= self._start_at:
            self._processes.wait_dead(self._service)
            self._launch()
        return False

    def _launch(self) -> None:
        self._began, self._start_at = time.monotonic(), None
        self._processes.launch(self._service)


def run_federation(folder: Path, *, as_json: bool) -> None:
    """Run the folder's services until SIGINT or SIGTERM; tell their addresses once all answer.

    Members of the roster whose files are not in the folder run elsewhere, and are named.
    """
    if (folder / UNFINISHED).exists():
        raise StoreError(
            "`cloister federation init` did not finish here",
            where=str(folder),
            remedy="run it again: it begins anew",
        )
    made, stop = FederationFolder(folder), threading.Event()
    if not made.here:
        raise NotFound(
            "this folder has no file of any service",
            where=str(folder),
            remedy="make a federation: cloister federation init FOLDER",
        )
    running = [service for service in made.here if process_of(made.file(service))]
    if running:
        raise Conflict(
            f"these services run already: {', '.join(running)}",
            where=str(folder),
            remedy=f"end them with: cloister federation down {folder}",
        )
    for service in made.here:
        read_service_file(made.file(service))  # what is wrong with one is known before any runs
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with sole_process(made.keeper_file), Processes(made) as processes:
        kept = {service: _Kept(processes, service) for service in made.here}
        looking = threading.Thread(target=_tell_when_all_answer, args=(made, stop, as_json))
        looking.start()
        while not stop.wait(0.2):
            for service, one in kept.items():
                if one.look():
                    why = processes.last_error(service) or f"see {service}/log.jsonl"
                    say(f"{service} died, and is started again: {why}")
        looking.join()


def _tell_when_all_answer(made: FederationFolder, stop: threading.Event, as_json: bool) -> None:
    """Wait until every service answers, and say so; say nothing if told to end before that."""
    for service in made.here:
        with made.client(service, timeout_s=2.0) as client:
            while not stop.wait(0.1):
                try:
                    client.get_json("/ready")
                    break
                except CloisterError:
                    continue
    if stop.is_set():
        return
    elsewhere = [service for service in made.services if service not in made.here]
    if as_json:
        print_json(
            {
                "services": {service: made.url(service) for service in made.here},
                "elsewhere": {service: made.url(service) for service in elsewhere},
            }
        )
        return
    for service in elsewhere:
        say(f"{service} runs elsewhere: its files are not in this folder")
    say(f"{len(made.here)} services of {made.folder} answer; end them with Ctrl-C")
