"""A federation of real processes on loopback addresses of its own."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cloister.federate.engines.agreement import FederationAgreement
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.sample_clinics import SampleClinics, SampleUser
from cloister.services.user_client import UserClient

NODES = ("clinic-a", "clinic-b", "clinic-c")
FAULTY = Path(__file__).with_name("faulty_service.py")
STARTED_S = 60.0


def own_host() -> str:
    """Return a loopback address that no other test uses."""
    return (
        f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    )


def clicked_agreement(**fields: Any) -> FederationAgreement:
    usual: dict[str, Any] = {
        "name": "pilot",
        "ranker": RankerSettings(n_features=len(PAGE_FEATURES)),
        "secure_aggregation": True,
        "min_sites": 2,
    }
    return FederationAgreement(**(usual | fields))


class Processes:
    """The services of a federation folder, each a process that can be killed and started again."""

    def __init__(self, folder: FederationFolder, *, faulty: bool = False) -> None:
        self.folder = folder
        self._faulty = faulty
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, *services: str, environment: Mapping[str, str] | None = None) -> None:
        """Start services, all unless named, and wait until they answer."""
        for service in services or self.folder.services:
            self._launch(service, environment or {})
        for service in services or self.folder.services:
            self._await(service)

    def kill(self, service: str) -> None:
        """Kill -9."""
        process = self._running[service]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        self._closed(service)

    def wait_dead(self, service: str, timeout_s: float = 30.0) -> int:
        """Wait until a service has died by itself; return its exit code."""
        code = self._running[service].wait(timeout_s)
        self._closed(service)
        return code

    def is_running(self, service: str) -> bool:
        process = self._running.get(service)
        return process is not None and process.poll() is None

    def pid(self, service: str) -> int:
        return self._running[service].pid

    def log(self, service: str) -> str:
        """Return what a service has written to its log, over all its lives."""
        return self._log_path(service).read_text(encoding="utf-8")

    def close(self) -> None:
        """End all that still run."""
        for process in self._running.values():
            process.terminate()
        for service, process in list(self._running.items()):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            self._closed(service)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _command(self, service: str) -> Sequence[str]:
        module = [str(FAULTY)] if self._faulty else ["-m", "cloister.services.running"]
        return [sys.executable, *module, str(self.folder.file(service))]

    def _launch(self, service: str, environment: Mapping[str, str]) -> None:
        with self._log_path(service).open("a", encoding="utf-8") as log:
            self._running[service] = subprocess.Popen(
                self._command(service),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "NUMBA_NUM_THREADS": "1", **environment},
            )

    def _await(self, service: str) -> None:
        process = self._running[service]
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{service} did not start:\n{self.log(service)[-3000:]}"
        assert json.loads(line)["address"] == self.folder.url(service)

    def _closed(self, service: str) -> None:
        process = self._running.pop(service)
        if process.stdout is not None:
            process.stdout.close()

    def _log_path(self, service: str) -> Path:
        return self.folder.folder / service / "log.jsonl"


def made_clinics(
    folder: Path,
    *,
    pods: int = 8,
    agreement: FederationAgreement | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[FederationFolder, SampleClinics]:
    """Make a federation of three clinics with a world in it."""
    plan = FederationPlan(nodes=NODES, agreement=agreement or clicked_agreement(), host=own_host())
    made = FederationFolder.make(folder, plan, settings=settings)
    clinics = SampleClinics(list(NODES), pods=pods)
    clinics.fill({node: made.home(node) for node in NODES})
    return made, clinics


def user_client(folder: FederationFolder, user: SampleUser | str) -> UserClient:
    """Return a user's way to the home node."""
    agent, groups = (user, frozenset()) if isinstance(user, str) else (user.agent_id, user.groups)
    node = agent.partition(":")[0]
    authority = folder.folder / "authority" / "authority.pem"
    return UserClient(folder.url(node), folder.token(agent, groups=groups), authority)


def wait_until(
    holds: Callable[[], bool], timeout_s: float = 30.0, *, what: str = "it did not happen"
) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)
