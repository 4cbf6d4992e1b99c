"""Real SuperLinks and SuperNodes, with TLS and keys: the same ranker, and nodes that are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cloister.app.flower_commands import app
from cloister.core.errors import StoreError
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.flower import deployment
from cloister.federate.engines.flower.coordinator_run import train
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.processes import find_program
from cloister.federate.engines.flower.provisioning import provision_site
from cloister.federate.engines.flower.runtime_tasks import RuntimeTasks
from cloister.federate.engines.flower.superlink_control import SuperLinkControl
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.site_call import SiteId
from cloister.federate.engines.site_file import opened_site
from cloister.privacy.private_file import write_private_file
from federate.engines.flower.made_flower import provisioned, running
from federate.engines.made_files import NAMES, agreement, write_federation

A, B, C = map(SiteId, NAMES)
RUNNER = CliRunner()


def in_process(folder: Path, n_rounds: int) -> np.ndarray:
    """Train the same federation in this process, with keys and databases of its own."""
    with ExitStack() as stack:
        opened = [stack.enter_context(opened_site(folder / f"{name}.toml")) for name in NAMES]
        engine = InProcessEngine({site.site_id: site for site in opened})
        federation = stack.enter_context(opened_federation(folder / "coordinator.toml", engine))
        for _ in range(n_rounds):
            federation.step()
        return federation.model


def model_of(folder: Path) -> np.ndarray:
    with opened_federation(folder / "coordinator.toml", InProcessEngine({})) as federation:
        return federation.model


def entries(folder: Path) -> list[list[tuple[str, str]]]:
    """Return what is on each ledger, the coordinator's first: who got it, and what for."""
    with ExitStack() as stack:
        none = InProcessEngine({})
        parties = [stack.enter_context(opened_federation(folder / "coordinator.toml", none))]
        parties += [stack.enter_context(opened_site(folder / f"{name}.toml")) for name in NAMES]
        return [[(e.recipient, e.purpose) for e in one.ledger.entries()] for one in parties]


def kill(folder: FlowerFolder, name: str) -> None:
    program = find_program(folder.running, name)
    assert program is not None
    os.kill(program.pid, signal.SIGKILL)
    while find_program(folder.running, name):
        time.sleep(0.01)


def test_a_secure_round_on_flower_gives_the_ranker_and_the_ledgers_of_one_in_process(
    tmp_path: Path,
) -> None:
    write_federation(tmp_path / "here", n_rounds=1)
    expected = in_process(tmp_path / "here", 1)
    there = tmp_path / "there"
    parties = provisioned(there)
    with running(parties) as coordinator:
        done = train(coordinator)
        shown = deployment.status(coordinator)
        again = train(coordinator)
    assert done.met == (A, B, C)
    assert [(one.sites, one.silent, one.faults) for one in done.rounds] == [((A, B, C), (), {})]
    assert (again.rounds, again.n_rounds) == ([], 1)
    assert shown["supernodes"] == dict.fromkeys(NAMES, "online")
    assert shown["n_rounds"] == 1
    precision = 3 * 2.0 ** -agreement().fixed_point.scale_bits
    np.testing.assert_allclose(model_of(there), expected, rtol=0, atol=precision)
    assert not np.array_equal(expected, np.zeros_like(expected))
    assert entries(there) == entries(tmp_path / "here")
    assert [len(one) for one in entries(there)] == [1, 1, 1, 1]
    for party in parties.values():
        assert set(deployment.status(party)["programs"].values()) == {None}


def test_rounds_go_on_without_a_killed_supernode_and_after_site_and_superlink_began_again(
    tmp_path: Path,
) -> None:
    parties = provisioned(tmp_path, agreement(secure_aggregation=False), n_rounds=1)
    file = tmp_path / "coordinator.toml"
    with running(parties) as coordinator:
        refused_to_strangers(coordinator, tmp_path)
        kill(parties[C], "supernode")
        without = flower("train", coordinator.path, "--sites", "2")
        file.write_text(file.read_text().replace("n_rounds = 1", "n_rounds = 2"))
        flower("provision", coordinator.path, "--renew")
        stopped = flower("stop", parties[B].path, coordinator.path)
        flower("start", coordinator.path, parties[B].path)  # an upgrade: A finds it again
        again = flower("train", coordinator.path, "--sites", "2")
        shown = flower("status", coordinator.path, parties[C].path)
    assert [one["programs"] for one in stopped["stopped"]] == [["site"], ["superlink"]]
    assert without["met"] == again["met"] == [A, B]
    for number, rounds in enumerate((without["rounds"], again["rounds"]), start=1):
        expected = [(number, [A, B], [C])]
        assert [(one["round"], one["sites"], one["silent"]) for one in rounds] == expected
    assert [len(one) for one in entries(tmp_path)] == [2, 2, 2, 0]
    assert shown["parties"][0]["n_rounds"] == 2
    assert shown["parties"][0]["supernodes"][A] == "online"
    assert shown["parties"][1]["programs"]["site"] is not None


def test_each_party_makes_its_own_folder_and_only_public_things_travel(tmp_path: Path) -> None:
    write_federation(tmp_path)
    folder, site = tmp_path / "flower", tmp_path / "flower-a"
    file = tmp_path / "coordinator.toml"
    told = flower("provision", folder, "--coordinator", file, "--address", "127.0.0.1:9")
    assert told["role"] == "coordinator"
    invitation = folder / "invitation.json"
    assert "PRIVATE" not in invitation.read_text()
    made = flower(
        "provision", site, "--site", tmp_path / "clinic-a.toml", "--invitation", invitation
    )
    assert made["next"] == f"give {site / 'clinic-a.pub'} to the coordinator"
    secret = {
        p.name for p in (*folder.iterdir(), *site.iterdir()) if p.suffix in (".key", ".secret")
    }
    assert len(secret) == 5
    for path in (*folder.glob("*.key"), *site.glob("*.key"), *tmp_path.glob("*/*.secret")):
        assert path.stat().st_mode & 0o077 == 0
    assert "no such key file" in flower("provision", site, "--renew", code=2)["error"]
    status = flower("status", site)["parties"][0]
    assert status["programs"] == {"site": None, "supernode": None}
    for wrong in (
        ("provision", folder, "--coordinator", file),
        ("provision", folder, "--renew", "--site", file),
    ):
        assert RUNNER.invoke(app, list(map(str, wrong))).exit_code == 2
    again = ("--coordinator", file, "--address", "127.0.0.1:9")
    assert (
        "there is a Flower folder already" in flower("provision", folder, *again, code=1)["error"]
    )
    nowhere = flower("start", tmp_path / "nowhere", code=2)
    assert "no Flower folder" in nowhere["error"]


def flower(command: str, *options: object, code: int = 0) -> dict[str, Any]:
    """Run a command of `cloister flower`; return what it says."""
    run = RUNNER.invoke(app, [command, *map(str, options), "--json"])
    assert run.exit_code == code, run.output
    return json.loads(run.stdout)


def refused_to_strangers(coordinator: FlowerFolder, folder: Path) -> None:
    """See that a SuperNode whose key is not known, and a server without the secret, get nothing."""
    stranger = FlowerFolder(folder / "stranger")
    provision_site(stranger, folder / "clinic-a.toml", coordinator.invitation)
    try:
        deployment.start(stranger)
        deadline = time.monotonic() + 20
        while find_program(stranger.running, "supernode") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert find_program(stranger.running, "supernode") is None
    finally:
        deployment.stop(stranger)
    address = coordinator.settings.address
    with SuperLinkControl(address, coordinator.ca) as control:
        assert {node.name for node in control.nodes()} == set(NAMES)
        control.start_run()  # whoever reaches the port can: it is refused, and ours goes on
    other = folder / "other.secret"
    write_private_file(other, b"guessed")
    with (
        RuntimeTasks(address, other, ca_file=coordinator.ca) as tasks,
        pytest.raises(StoreError, match="gives us no tasks"),
    ):
        tasks._acquired("flwr-serverapp")
