"""A training over NVFlare: three sites on loopback with mutual TLS, and kill -9 of each kind.

All processes are real, made from startup kits. Times are of the clock: of a round from the
coordinator's ledger, of a fault from the kill to the next round. Sites train a few simulated users,
so that a round is messages and cryptography; where others share the cores, times grow: the load is
among the figures.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import StoreError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.nvflare.kit_processes import kit_process, start_kit, stop_kit
from cloister.federate.engines.nvflare.kits import KitProject, Kits, link_files, make_kits
from cloister.federate.engines.nvflare.supervisor import Supervision, TrainingSupervisor
from cloister.federate.engines.roster import FederationRoster, Member
from cloister.lab.bench import Advance, Figures
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.ledger.ledger import Ledger
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database

__all__ = ["NvflareSize", "measure", "run"]

SITES: Final = ("clinic-a", "clinic-b", "clinic-c")
LAST: Final = SITES[-1]
MANY: Final = 1_000_000  # rounds, while processes are killed
PATIENCE_S: Final = 180.0
_WORLD: Final = "world:features?queries=50&documents=10&features={n_features}"


class NvflareSize(NamedTuple):
    """How much is measured."""

    n_rounds: int = 100
    n_features: int = 136  # of a linear ranker, as in MSLR
    n_users: int = 30  # of all sites
    timeout_s: float = 3.0


def run(advance: Advance) -> Figures:
    """Measure at the full size."""
    return measure(NvflareSize(), advance)


def measure(size: NvflareSize, advance: Advance) -> Figures:
    """Provision, start, train in the open and by secure aggregation, then kill one by one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cloister-bench-")))
        bench = _Bench(folder, size)
        stack.callback(bench.stop)
        figures: Figures = {**size._asdict(), **bench.start()}
        steps: list[Callable[[], Figures]] = [
            lambda: bench.rounds("plain"),
            lambda: bench.rounds("secure"),
            bench.begin_faults,
            bench.killed_worker,
            bench.killed_server,
            bench.killed_site,
        ]
        for number, step in enumerate(steps):
            figures |= step()
            advance(number + 1, len(steps))
    return figures | {"load_1_min": os.getloadavg()[0]}


class _Bench:
    """Kits whose files are those of one training at a time."""

    def __init__(self, folder: Path, size: NvflareSize) -> None:
        self._folder = folder
        self._size = size
        self._keys = {name: SigningIdentity.generate() for name in SITES}
        begin = time.perf_counter()
        self._kits: Kits = make_kits(folder / "kits", KitProject(sites=SITES, port=_free_port()))
        self._provision_s = time.perf_counter() - begin
        self._files = folder
        self._thread: threading.Thread | None = None
        self._events: list[str] = []

    def start(self) -> Figures:
        """Start all processes."""
        begin = time.perf_counter()
        for kit in (self._kits.server, *self._kits.sites.values()):
            start_kit(kit)
        started_s = time.perf_counter() - begin
        return {"provision_wall_s": self._provision_s, "start_wall_s": started_s}

    def stop(self) -> None:
        """Stop all processes."""
        for kit in (*self._kits.sites.values(), self._kits.server):
            stop_kit(kit)

    def rounds(self, kind: str) -> Figures:
        """Train to the end; say what a round takes, and what the job around it."""
        self._use(kind, self._size.n_rounds)
        begin = time.perf_counter()
        self._supervisor(kind).run()
        whole_s = time.perf_counter() - begin
        gaps = np.diff(self._times_s())
        median, slow = np.quantile(gaps, (0.5, 0.95))
        return {
            f"{kind}_round_p50_wall_s": float(median),
            f"{kind}_round_p95_wall_s": float(slow),
            f"{kind}_job_overhead_wall_s": whole_s - float(gaps.sum()),
        }

    def begin_faults(self) -> Figures:
        """Begin a long training beside."""
        self._use("faults", MANY)
        self._thread = threading.Thread(target=self._supervisor("faults").run, daemon=True)
        begin = time.perf_counter()
        self._thread.start()
        self._wait(lambda: len(self._times_s()) > 20)
        return {"begin_wall_s": time.perf_counter() - begin}

    def killed_worker(self) -> Figures:
        """Kill the process at a site in which the job runs."""
        process = kit_process(self._kits.sites[LAST])
        workers = [pid for pid in _pids_of(self._kits.sites[LAST]) if pid not in process]
        return {"killed_worker_resumed_wall_s": self._resumed_s(workers, "job ended")}

    def killed_server(self) -> Figures:
        """Kill the server's process; its keeper starts it again."""
        process = kit_process(self._kits.server).process
        killed = [] if process is None else [process]
        return {"killed_server_resumed_wall_s": self._resumed_s(killed, "job ended")}

    def killed_site(self) -> Figures:
        """Kill all processes of a site, look at the rounds without it, and start it again."""
        kit = self._kits.sites[LAST]
        n_before = len(self._times_s())
        for pid in _pids_of(kit):
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: len(self._times_s()) > n_before + 30)
        gaps = np.diff(self._times_s()[n_before - 1 : n_before + 30])
        start_kit(kit)
        self._wait(lambda: "pause" in self._events)
        paused_at, n_paused = time.time(), len(self._times_s())
        self._write_coordinator(n_paused + 10)
        self._wait(lambda: len(self._times_s()) > n_paused + 2)
        begun_s = next(at for at in self._times_s()[n_paused:] if at > paused_at)
        self._join()
        return {
            "timeout_s": self._size.timeout_s,
            "killed_site_timeouts": int((gaps > self._size.timeout_s - 0.5).sum()),
            "killed_site_longest_round_wall_s": float(gaps.max()),
            "killed_site_next_round_p50_wall_s": float(np.median(gaps)),
            "site_taken_back_in_wall_s": begun_s - paused_at,
        }

    def _resumed_s(self, pids: list[int], event: str) -> float:
        """Kill processes; return the seconds to the first round of the next job."""
        n_events = self._events.count(event)
        at = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: self._events.count(event) > n_events)
        n_rounds = len(self._times_s())
        self._wait(lambda: len(self._times_s()) > n_rounds)
        return self._times_s()[n_rounds] - at

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def _supervisor(self, training: str) -> TrainingSupervisor:
        return TrainingSupervisor(
            self._kits.operator,
            training,
            SITES,
            min_sites=2,
            supervision=Supervision(back_s=3.0, rejoin_s=5.0),
            tell=lambda news: self._events.append(str(news["event"])),
        )

    def _use(self, kind: str, n_rounds: int) -> None:
        """Write a training's files, and let the kits use them from the next job on."""
        self._files = self._folder / kind
        self._files.mkdir()
        agreed = FederationAgreement(
            name=kind,
            ranker=RankerSettings(n_features=self._size.n_features),
            min_sites=2,
            secure_aggregation=kind != "plain",
            simulated=True,
        )
        keys = self._keys
        members = tuple(Member(name=n, signing_key=keys[n].public.hex()) for n in SITES)
        roster = FederationRoster(name="bench", agreement=agreed, members=members)
        (self._files / "roster.json").write_bytes(roster.to_json())
        self._write_coordinator(n_rounds)
        for number, name in enumerate(SITES):
            self._write_site(number, name)
        for kit in (self._kits.server, *self._kits.sites.values()):
            for link in (kit / "local").glob("*.toml"):
                link.unlink()
        link_files(self._kits, self._files)

    def _write_coordinator(self, n_rounds: int) -> None:
        (self._files / "coordinator.toml").write_text(
            f'roster = "roster.json"\nstate = "coordinator.db"\nn_rounds = {n_rounds}\n'
            f"timeout_s = {self._size.timeout_s}\n"
        )

    def _write_site(self, number: int, name: str) -> None:
        self._keys[name].save(self._files / f"{name}.key")
        n = self._size.n_users // len(SITES)
        world = _WORLD.format(n_features=self._size.n_features)
        (self._files / f"{name}.toml").write_text(
            f'name = "{name}"\nroster = "roster.json"\nstate = "{name}.db"\n'
            f'signing_key = "{name}.key"\n[simulated]\ndata = "{world}"\n'
            f"n_clients = {n * len(SITES)}\nfirst = {n * number}\nn = {n}\nseed = 1\n"
        )

    def _times_s(self) -> list[float]:
        """Return when each round was written down."""
        path = self._files / "coordinator.db"
        if not path.exists():
            return []
        with Database.open(path) as database:
            entries = Ledger(database).entries()
        return [datetime.fromisoformat(entry.recorded_at).timestamp() for entry in entries]

    def _wait(self, until: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not until():
            if time.monotonic() > end_s:
                raise StoreError("nothing happened for too long", where="bench engines-nvflare")
            time.sleep(0.1)


def _pids_of(kit: Path) -> list[int]:
    """Return the processes whose command names a kit's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(kit) in words:
            found.append(int(path.parent.name))
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
