"""The disk of a node, and of the coordinator, fills up: a small file system of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloister.services.federation_folder import COORDINATOR, FederationFolder
from cloister.web.refusals import PeerBusy
from services.faults.clinics import Clinics, made
from services.faults.training import NODES, Training, made_training, running_training
from services.processes import user_client, wait_until

FULL = "clinic-b"
MEGABYTES = 8

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system needs root")


@contextmanager
def small_disk(folder: FederationFolder, service: str) -> Iterator[Path]:
    """Put a service's database on a file system of a few megabytes; before it is started."""
    disk = folder.folder / service / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(disk)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=30)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode()[:200]}")
    file = folder.file(service)
    file.write_text(file.read_text().replace('"state.db"', '"disk/state.db"'))
    (folder.folder / service / "state.db").symlink_to(disk / "state.db")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, timeout=30)


def fill(disk: Path) -> None:
    """Write until there is no space left."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def make_room(disk: Path) -> None:
    (disk / "filler").unlink()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Training, Path, Path]]:
    folder = made_training(tmp_path_factory.mktemp("full-disk") / "f")
    with (
        small_disk(folder, FULL) as node,
        small_disk(folder, COORDINATOR) as coordinator,
        running_training(folder) as found,
    ):
        yield found, node, coordinator


def test_rounds_go_on_without_a_node_whose_disk_is_full(
    training: tuple[Training, Path, Path],
) -> None:
    found, disk, _ = training
    found.wait_all_nodes()
    before = found.n_rounds()
    fill(disk)
    wait_until(lambda: FULL not in found.rounds()[-1].sites)
    found.wait_rounds(3)
    assert found.status()["last_round"]["faults"] == {FULL: "StoreError"}
    assert found.processes.is_running(FULL)
    with found.folder.client(FULL) as operator, pytest.raises(PeerBusy):
        operator.get_json("/ready")
    make_room(disk)
    found.wait_all_nodes()
    found.check(before)


def test_a_coordinator_whose_disk_is_full_waits_and_goes_on(
    training: tuple[Training, Path, Path],
) -> None:
    found, _, disk = training
    found.wait_all_nodes()
    fill(disk)
    wait_until(lambda: found.status()["last_error"] == "store error")
    before = found.n_rounds()
    n_failed = found.status()["n_failed"]
    wait_until(lambda: found.status()["n_failed"] > n_failed)
    assert found.n_rounds() == before
    make_room(disk)
    found.wait_all_nodes()
    found.check(before - 1)


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Clinics, Path]]:
    found = made(tmp_path_factory.mktemp("full-node") / "f")
    with small_disk(found.folder, NODES[0]) as disk, found.processes as processes:
        processes.start(NODES[0])
        yield found, disk


def test_a_node_whose_disk_is_full_refuses_searches_and_says_so(
    clinics: tuple[Clinics, Path],
) -> None:
    found, disk = clinics
    with user_client(found.folder, "clinic-a:party-100") as user:
        query = found.world.world.queries[0].text
        shown = user.search(query)
        assert shown.page_id
        kept = user.kept()
        fill(disk)
        for _ in range(3):
            with pytest.raises(PeerBusy):  # 503
                user.search(query)
        assert user.kept() == kept  # what was kept can be read
        assert not found.answers(NODES[0], "/ready")
        make_room(disk)
        assert user.search(query).page_id
        assert user.kept() == kept + 1
        assert found.answers(NODES[0], "/ready")
    kinds = {entry.kind for entry in found.ledger(NODES[0])}  # and it is whole
    assert kinds == {"limit"}
