"""A training over provisioned NVFlare processes: the same ranker, and kill -9 of all kinds."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest

from cloister.core.errors import Conflict
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.nvflare.job_folder import write_job
from cloister.federate.engines.nvflare.kit_processes import kit_process, start_kit
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site_file import SiteFile, opened_site
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.store.database import Database
from federate.engines.made_files import NAMES
from federate.engines.nvflare.made_nvflare import TIMEOUT_S, NvflareScene

N_FIRST = 5  # rounds that are trained again in this process
MANY = 1_000_000  # rounds, more than anybody waits for
C = NAMES[2]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NvflareScene]:
    """Give a federation whose training has begun, and goes on while tests kill its processes."""
    scene = NvflareScene(tmp_path_factory.mktemp("nvflare"), n_rounds=MANY)
    shutil.copytree(scene.files, scene.files.parent / "peer")
    try:
        scene.start()
        scene.train_beside()
        scene.wait_for(lambda: scene.last().n_rounds >= N_FIRST, 60)
        yield scene
    finally:
        scene.stop()


def test_a_training_over_mutual_tls_gives_the_ranker_of_one_process(scene: NvflareScene) -> None:
    last = scene.rounds()[N_FIRST]
    assert (last.n_rounds, last.sites) == (N_FIRST, NAMES)
    expected = _trained_here(scene.files.parent / "peer")
    np.testing.assert_allclose(last.model, expected, rtol=0, atol=1e-7)


def test_all_listeners_hang_up_on_a_client_without_a_certificate(scene: NvflareScene) -> None:
    startup = scene.kits.sites[C] / "startup"
    with_none = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    with_one = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    with_one.load_cert_chain(startup / "client.crt", startup / "client.key")
    assert _stays_connected(with_one, _port_of(scene))
    ports = [port for kit in scene.all_kits for port in _listeners(kit)]
    assert _port_of(scene) in ports
    assert len(ports) == 5  # one for all, and one of each kit for its own worker
    for port in ports:
        with_none.check_hostname = False  # sites have no certificate of a host
        assert not _stays_connected(with_none, port)


def test_a_killed_worker_costs_no_round_that_was_done(scene: NvflareScene) -> None:
    before = scene.last()
    scene.kill_worker(scene.kits.sites[C])
    scene.wait_for(lambda: scene.n_events("job ended") == 1, 60)
    scene.wait_for_round_of(3, 60)
    np.testing.assert_array_equal(scene.rounds()[before.n_rounds].model, before.model)


def test_a_killed_server_is_started_again_and_goes_on(scene: NvflareScene) -> None:
    process = kit_process(scene.kits.server).process
    scene.kill_process(scene.kits.server)
    scene.wait_for(lambda: scene.n_events("job ended") == 2, 60)
    scene.wait_for_round_of(3, 60)
    assert kit_process(scene.kits.server).process not in (None, process)


def test_a_killed_site_costs_one_timeout_and_comes_back_upgraded(scene: NvflareScene) -> None:
    kit = scene.kits.sites[C]
    n_before = scene.last().n_rounds
    scene.kill_everything(kit)
    scene.wait_for_round_of(2, 5 * TIMEOUT_S)
    n_lost = scene.last().n_rounds
    scene.wait_for(lambda: scene.last().n_rounds > n_lost + 20, 20)
    n_without = scene.last().n_rounds
    _upgrade(kit)
    start_kit(kit)
    with pytest.raises(Conflict):
        start_kit(kit)
    scene.wait_for(lambda: scene.n_events("pause") == 1, 30)
    _set_rounds(scene, scene.last().n_rounds + 40)
    scene.wait_for_round_of(3, 60)
    gaps = _gaps_s(scene)[n_before - 1 : n_without - 1]
    assert len([gap for gap in gaps if gap > TIMEOUT_S - 0.5]) == 1


def test_the_training_ends_and_every_round_counts_each_of_its_sites_once(
    scene: NvflareScene,
) -> None:
    scene.wait_for(lambda: scene.n_events("done") == 1, 60)
    told = [one["event"] for one in scene.news if one["event"] in ("job", "job ended", "done")]
    n_jobs = told.count("job")
    assert n_jobs >= 4  # tests ended three; a busy machine may end another
    assert told == ["job", "job ended"] * (n_jobs - 1) + ["job", "done"]
    agreed = FederationRoster.from_json(scene.files / "roster.json").agreement
    files = {name: SiteFile.from_toml(scene.files / f"{name}.toml") for name in NAMES}
    users = {name: file.simulated.trainer(agreed) for name, file in files.items()}
    rounds = scene.rounds()
    assert [one.n_rounds for one in rounds] == list(range(len(rounds)))
    for before, after in pairwise(rounds):
        lessons = [users[site].train(before.model, round=before.n_rounds) for site in after.sites]
        n = sum(lesson.n_interactions for lesson in lessons)
        expected = before.model + sum(lesson.weighted for lesson in lessons) / n
        np.testing.assert_allclose(after.model, expected, rtol=0, atol=1e-8)
    for name in ("coordinator", *NAMES):
        with Database.open(scene.files / f"{name}.db") as database:
            check_ledger(Ledger(database))


def test_no_program_that_a_job_brings_is_run(scene: NvflareScene, tmp_path: Path) -> None:
    job = write_job(tmp_path, "smuggler", min_sites=1)
    (job / "app" / "custom").mkdir()
    (job / "app" / "custom" / "smuggled.py").write_text("raise SystemExit\n")
    assert _submitted(scene, job) == ["FINISHED:FAILED_TO_RUN"]


def test_kits_are_stopped_with_all_their_processes(scene: NvflareScene) -> None:
    shown = scene.command("stop", scene.kits.server.parent)["kits"]
    assert [(one["role"], one["keeper"], one["process"]) for one in shown] == [
        ("server", None, None),
        *[("site", None, None)] * 3,
    ]
    scene.wait_for(lambda: not scene.left_over(), 10)


def _trained_here(files: Path) -> np.ndarray:
    with ExitStack() as stack:
        sites = [stack.enter_context(opened_site(files / f"{name}.toml")) for name in NAMES]
        engine = InProcessEngine({site.site_id: site for site in sites})
        federation = stack.enter_context(opened_federation(files / "coordinator.toml", engine))
        for _ in range(N_FIRST):
            federation.step()
        return federation.model


def _upgrade(kit: Path) -> None:
    """Change what a site's administrator may change: here the limits of its own log."""
    path = kit / "local" / "log_config.json"
    path.write_text(path.read_text().replace('"INFO"', '"WARNING"'))


def _set_rounds(scene: NvflareScene, n_rounds: int) -> None:
    """Let the coordinator's next job end after so many rounds."""
    path = scene.files / "coordinator.toml"
    path.write_text(path.read_text().replace(f"n_rounds = {MANY}", f"n_rounds = {n_rounds}"))


def _gaps_s(scene: NvflareScene) -> list[float]:
    """Return the seconds from each round to the next, by the coordinator's ledger."""
    with Database.open(scene.files / "coordinator.db") as database:
        entries = Ledger(database).entries()
    times = [datetime.fromisoformat(entry.recorded_at).timestamp() for entry in entries]
    return [after - before for before, after in pairwise(times)]


_SUBMIT = """
import sys, time
from pathlib import Path
from cloister.federate.engines.nvflare.operator_session import has_ended, opened_session
with opened_session(Path(sys.argv[1])) as session:
    ids = [session.submit(Path(job)) for job in sys.argv[2:]]
    end = time.monotonic() + 60
    while not all(has_ended(session.state(i)) for i in ids) and time.monotonic() < end:
        time.sleep(0.2)
    print(*(session.state(i) for i in ids))
"""


def _submitted(scene: NvflareScene, *jobs: Path) -> list[str]:
    """Submit jobs, wait for their ends; return their states."""
    words = [sys.executable, "-c", _SUBMIT, scene.kits.operator, *jobs]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=True)
    return done.stdout.split()


def _port_of(scene: NvflareScene) -> int:
    config = json.loads((scene.kits.operator / "startup" / "fed_admin.json").read_text())
    return int(config["admin"]["port"])


def _listeners(kit: Path) -> list[int]:
    """Return the ports on which a kit's process listens, all of them on this machine alone."""
    process = psutil.Process(kit_process(kit).process)
    found = [one.laddr for one in process.net_connections("tcp") if one.status == "LISTEN"]
    assert {address.ip for address in found} == {"127.0.0.1"}
    return [address.port for address in found]


def _stays_connected(context: ssl.SSLContext, port: int) -> bool:
    """Say whether a server lets a TLS client stay: TLS 1.3 refuses certificates after its hello."""
    with socket.create_connection(("127.0.0.1", port), timeout=1.0) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                return tls.recv(1) != b""
        except TimeoutError:
            return True
        except (ssl.SSLError, ConnectionError):
            return False
