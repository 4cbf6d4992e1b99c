"""PostgreSQL goes away in mid-round and comes back: under the coordinator and under a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cloister.services.federation_folder import COORDINATOR, FederationFolder
from cloister.web.refusals import PeerBusy
from services.faults.training import Training, made_training
from services.processes import NODES, Processes
from store import conftest as databases

ON_SERVER = (COORDINATOR, "clinic-b")


class OwnServer(databases.Server):
    """A server that can be started again where it was stopped."""

    def start(self) -> None:
        super().start()
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\n")

    def start_again(self) -> None:
        self._run("pg_ctl", "-w", "-t", "60", "-l", str(self.folder / "log"), "start")


class ServedTraining(Training):
    """A training of which two databases are on a server."""

    def __init__(self, folder: FederationFolder, processes: Processes, server: OwnServer) -> None:
        super().__init__(folder, processes)
        self.server = server

    def state(self, service: str) -> str:
        if service in ON_SERVER:
            return self.server.address(schema(service))
        return super().state(service)

    def status_of_answer(self, service: str, path: str) -> int:
        """Return 200, or 503 where the service says that it cannot now."""
        with self.folder.client(service, timeout_s=20) as operator:
            try:
                operator.get_json(path)
            except PeerBusy:
                return 503
        return 200


def schema(service: str) -> str:
    return "lost_" + service.replace("-", "_")


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = databases._find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb in /usr/lib/postgresql or on PATH")
    with TemporaryDirectory(prefix="cloister-pg-", dir="/tmp", ignore_cleanup_errors=True) as place:
        server = OwnServer(programs, Path(place))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def training(
    tmp_path_factory: pytest.TempPathFactory, server: OwnServer
) -> Iterator[ServedTraining]:
    folder = made_training(tmp_path_factory.mktemp("lost-database") / "f")
    for service in ON_SERVER:
        server.execute(f"CREATE SCHEMA {schema(service)}")
        file = folder.file(service)
        address = f'state = "{server.address(schema(service))}"'
        file.write_text(file.read_text().replace('state = "state.db"', address))
    with Processes(folder, faulty=True) as processes:
        processes.start(COORDINATOR, *NODES)
        yield ServedTraining(folder, processes, server)
        for service in (COORDINATOR, *NODES):
            processes.kill(service)


@pytest.mark.parametrize("point", ["before mask_input", "after mask_input"])
def test_a_database_that_is_lost_in_mid_round_costs_rounds_and_nothing_else(
    training: ServedTraining, point: str
) -> None:
    training.wait_all_nodes()
    before = training.n_rounds()
    with training.held_at("clinic-a", point):
        training.server.stop()
    try:
        for service in ON_SERVER:
            assert training.status_of_answer(service, "/v1/ledger") == 503
            assert training.status_of_answer(service, "/ready") == 503
            assert training.processes.is_running(service)
        assert training.status_of_answer("clinic-c", "/ready") == 200
    finally:
        training.server.start_again()
    training.wait_all_nodes()
    assert training.status_of_answer(COORDINATOR, "/ready") == 200
    rounds = training.check(before - 1)
    assert len(rounds) > before + 1


def test_a_service_that_starts_without_its_database_says_so_and_ends(
    training: ServedTraining,
) -> None:
    training.processes.kill("clinic-b")
    training.server.stop()
    try:
        training.processes.launch("clinic-b")
        assert training.processes.wait_dead("clinic-b") == 1
    finally:
        training.server.start_again()
    assert "Traceback" not in training.processes.log("clinic-b")[-2000:]
    training.processes.start("clinic-b")
    training.wait_all_nodes()
    training.check(training.n_rounds() - 2)
