"""The services of a federation folder as processes of this machine; they can be killed and stopped.

For trying it out, for tests and for measurements. In real use each party runs its own service,
under whatever starts programs there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cloister.core.closing import Closing
from cloister.core.errors import Conflict, NotFound, StoreError
from cloister.services.federation_folder import FederationFolder

__all__ = ["Processes"]

PROGRAM: Final = ("-m", "cloister.services.running")
TIED: Final = "--tied"
_ENDED_S: Final = 15.0
_SHOWN: Final = 3_000  # characters of a log


class Processes(Closing):
    """The services of a federation folder, each a process; close it, or use it in a ``with``.

    Parameters
    ----------
    folder
        The federation.
    program
        What Python runs, before the name of a service's file.
    prefix
        For some services: what comes before Python, such as the way into a network namespace.
    tied
        Whether services end by themselves when this process does, however it ends.
    """

    def __init__(
        self,
        folder: FederationFolder,
        *,
        program: Sequence[str] = PROGRAM,
        prefix: Mapping[str, Sequence[str]] | None = None,
        tied: bool = False,
    ) -> None:
        self.folder = folder
        self._program = tuple(program)
        self._prefix = dict(prefix or {})
        self._tied = tied
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._launching = threading.Lock()

    def start(self, *services: str, environment: Mapping[str, str] | None = None) -> None:
        """Start services, all of the folder unless named; wait until they take connections."""
        for service in services or self.folder.here:
            self.launch(service, environment)
        for service in services or self.folder.here:
            self.await_started(service)

    def launch(self, service: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a service without waiting; what it logs goes to the end of its log.

        Raises `Conflict` where it runs already.
        """
        with self._launching:
            if self.is_running(service):
                raise Conflict("this service runs already", where=service)
            self._launch(service, environment)

    def _launch(self, service: str, environment: Mapping[str, str] | None) -> None:
        command = [
            *self._prefix.get(service, ()),
            sys.executable,
            *self._program,
            str(self.folder.file(service)),
            *((TIED,) if self._tied else ()),
        ]
        with self.log_path(service).open("a", encoding="utf-8") as log:
            self._running[service] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if self._tied else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "NUMBA_NUM_THREADS": "1", **(environment or {})},
            )

    def await_started(self, service: str) -> None:
        """Wait until a service takes connections; raise where it ended instead."""
        output = self._process(service).stdout
        line = "" if output is None else output.readline()
        try:
            address = json.loads(line)["address"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"the service did not start: {self.log(service)[-_SHOWN:]}", where=service
            ) from None
        if address != self.folder.url(service):
            raise StoreError(f"the service listens at {address}", where=service)

    def kill(self, service: str) -> None:
        """Kill -9."""
        process = self._process(service)
        process.send_signal(signal.SIGKILL)
        process.wait(_ENDED_S)
        self._closed(service)

    def halt(self, service: str) -> None:
        """Stop a service where it is, as a machine does that is out of breath."""
        self._process(service).send_signal(signal.SIGSTOP)

    def go_on(self, service: str) -> None:
        """Let a stopped service go on."""
        self._process(service).send_signal(signal.SIGCONT)

    def wait_dead(self, service: str, timeout_s: float = 30.0) -> int:
        """Wait until a service has died by itself; return its exit code."""
        code = self._process(service).wait(timeout_s)
        self._closed(service)
        return code

    def is_running(self, service: str) -> bool:
        """Say whether a service runs."""
        process = self._running.get(service)
        return process is not None and process.poll() is None

    def pid(self, service: str) -> int:
        """Return the number of a service's process."""
        return self._process(service).pid

    def log(self, service: str) -> str:
        """Return what a service has logged, over all its lives."""
        return self.log_path(service).read_text(encoding="utf-8")

    def last_error(self, service: str) -> str:
        """Return what a service said at its end, where the last line of its log is no event."""
        with self.log_path(service).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _SHOWN))
            lines = log.read().decode(errors="replace").splitlines()
        return lines[-1] if lines and not lines[-1].startswith("{") else ""

    def log_path(self, service: str) -> Path:
        """Return where a service's log lies."""
        return self.folder.folder / service / "log.jsonl"

    def close(self) -> None:
        """End all that still run."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for service, process in list(self._running.items()):
            try:
                process.wait(_ENDED_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_ENDED_S)
            self._closed(service)

    def _process(self, service: str) -> subprocess.Popen[str]:
        if service not in self._running:
            raise NotFound("this service does not run", where=service)
        return self._running[service]

    def _closed(self, service: str) -> None:
        process = self._running.pop(service)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
