"""Services as processes of a program that may be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.sole_process import process_of
from services.processes import NODES, Processes, clicked_agreement, own_host, wait_until

PARENT = """
import sys
import time
from cloister.services.federation_folder import FederationFolder
from cloister.services.processes import Processes
processes = Processes(FederationFolder(sys.argv[1]), tied=True)
processes.start("broker", "coordinator")
print("started", flush=True)
time.sleep(600)
"""
SERVICES = ("broker", "coordinator")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    plan = FederationPlan(
        nodes=NODES, agreement=clicked_agreement(), host=own_host(), consent="test"
    )
    return FederationFolder.make(tmp_path_factory.mktemp("tied") / "f", plan)


@pytest.fixture
def parent(folder: FederationFolder) -> Iterator[subprocess.Popen[str]]:
    """Give a program that has started services, and waits."""
    command = [sys.executable, "-c", PARENT, str(folder.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "started\n"
            yield program
        finally:
            program.kill()


def is_healthy(folder: FederationFolder, service: str) -> bool:
    with folder.client(service) as operator:
        return bool(operator.get_json("/health"))


def test_tied_services_are_gone_seconds_after_their_starter_was_killed(
    folder: FederationFolder, parent: subprocess.Popen[str]
) -> None:
    files = [folder.file(service) for service in SERVICES]
    assert all(process_of(file) for file in files)
    assert all(is_healthy(folder, service) for service in SERVICES)
    parent.send_signal(signal.SIGKILL)
    assert parent.wait(10) == -signal.SIGKILL
    wait_until(lambda: not any(map(process_of, files)), 10.0, what="a service lives on")


def test_tied_services_can_be_killed_started_again_and_closed(folder: FederationFolder) -> None:
    with Processes(folder, tied=True) as processes:
        processes.start("broker")
        processes.kill("broker")
        processes.start("broker")
        assert is_healthy(folder, "broker")
    assert process_of(folder.file("broker")) is None
    assert "Traceback" not in processes.log("broker")


def test_a_service_that_is_not_tied_does_not_read_its_input(
    folder: FederationFolder,
) -> None:
    with Processes(folder) as processes:
        processes.start("broker")  # its input ended before it began
        assert is_healthy(folder, "broker")


def test_a_service_that_cannot_start_says_why(folder: FederationFolder) -> None:
    service = NODES[0]
    file = folder.file(service)
    content = file.read_text()
    try:
        file.write_text("frob = [")
        with Processes(folder) as processes:
            processes.launch(service)
            processes.wait_dead(service)
            assert processes.last_error(service).startswith(f"{file}: not a TOML file")
            with processes.log_path(service).open("a") as log:
                log.write('{"event": "ended"}\n')
            assert processes.last_error(service) == ""
    finally:
        file.write_text(content)
