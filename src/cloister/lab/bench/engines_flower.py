"""Rounds of three sites on Flower, on loopback: TLS, SuperNodes with keys, real processes.

The same rounds in one process are the peer, and must give the same ranker. Rounds on Flower are
mostly waiting: a SuperNode looks for messages every three seconds, and a secure round has five
stages. All times are of the clock.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import StoreError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.flower import deployment
from cloister.federate.engines.flower.coordinator_run import Trained, train
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.processes import find_program
from cloister.federate.engines.flower.provisioning import provision_coordinator, provision_site
from cloister.federate.engines.flower.supernode import SUPERNODE
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.roster import FederationRoster, Member
from cloister.federate.engines.site_file import opened_site
from cloister.lab.bench import Advance, Figures
from cloister.privacy.identity import SigningIdentity
from cloister.rank.ranker import RankerSettings

__all__ = ["FlowerSize", "measure", "run"]

NAMES: Final = ("clinic-a", "clinic-b", "clinic-c")
WORLD: Final = "world:features?queries=200&documents=20&features=46"
N_FEATURES: Final = 46
STAGE_S: Final = 15.0  # how long a stage waits
KILLED_AFTER_S: Final = 6.0  # within a secure round, whose stages take four seconds
BACK_S: Final = 120.0
WHERE: Final = "bench engines-flower"


class FlowerSize(NamedTuple):
    """How much is measured."""

    n_users: int = 300  # of all sites
    n_secure_rounds: int = 2
    n_plain_rounds: int = 3


def run(advance: Advance) -> Figures:
    """Measure at the full size."""
    return measure(FlowerSize(), advance)


def measure(size: FlowerSize, advance: Advance) -> Figures:
    """Train in the open and securely, on Flower and in this process; take a SuperNode away."""
    figures: Figures = {"n_sites": len(NAMES), **size._asdict(), "stage_timeout_s": STAGE_S}
    with TemporaryDirectory(prefix="cloister-bench-") as place:
        with _Federation(Path(place, "plain"), size.n_users, secure=False) as plain:
            figures |= plain.started
            figures |= plain.rounds("plain", size.n_plain_rounds)
            advance(1, 4)
        with _Federation(Path(place, "secure"), size.n_users, secure=True) as secure:
            figures |= secure.rounds("secure", size.n_secure_rounds)
            figures |= secure.memory()
            advance(2, 4)
            figures |= secure.killed(size.n_secure_rounds + 1)
            advance(3, 4)
            figures |= secure.back()
    advance(4, 4)
    return figures


class _Federation:
    """Three sites and a coordinator on Flower; use it in a ``with``."""

    def __init__(self, folder: Path, n_users: int, *, secure: bool) -> None:
        self._folder = folder
        agreed = FederationAgreement(
            name="bench",
            ranker=RankerSettings(n_features=N_FEATURES),
            simulated=True,
            secure_aggregation=secure,
            min_sites=2,
        )
        for copy in (folder, folder / "in-process"):
            _write_files(copy, agreed, n_users)
        self.coordinator = FlowerFolder(folder / "flower-coordinator")
        provision_coordinator(self.coordinator, folder / "coordinator.toml", _free_address())
        self.sites = [FlowerFolder(folder / f"flower-{name}") for name in NAMES]
        for name, site in zip(NAMES, self.sites, strict=True):
            public = provision_site(site, folder / f"{name}.toml", self.coordinator.invitation)
            shutil.copy(public, self.coordinator.supernodes)
        self.started: Figures = {}
        self._killed_s = 0.0

    def __enter__(self) -> _Federation:
        began = time.perf_counter()
        try:
            deployment.start(self.coordinator)
            superlink_s = time.perf_counter() - began
            for site in self.sites:
                deployment.start(site)
        except BaseException:
            self.__exit__()
            raise
        all_s = time.perf_counter() - began
        self.started = {"start_superlink_wall_s": superlink_s, "start_all_wall_s": all_s}
        return self

    def __exit__(self, *exception: object) -> None:
        for party in (*self.sites, self.coordinator):
            deployment.stop(party)

    def rounds(self, name: str, n_rounds: int) -> Figures:
        """Train; compare with the same rounds in this process."""
        done = self._trained(n_rounds)
        model = self._model(self._folder)
        here = self._in_process(n_rounds)
        return {
            f"{name}_round_wall_s": statistics.median(done.rounds_s),
            f"{name}_counted_sites": min(len(one.sites) for one in done.rounds),
            f"in_process_{name}_round_wall_s": statistics.median(here),
            f"{name}_largest_difference": float(
                np.abs(model - self._model(self._folder / "in-process")).max()
            ),
        }

    def killed(self, n_rounds: int) -> Figures:
        """Kill a SuperNode in the middle of a round; its site's process lives on."""
        timer = threading.Timer(KILLED_AFTER_S, self._kill)
        done = self._trained(n_rounds, timer)
        (counted,) = (one.sites for one in done.rounds)
        return {"killed_in_round_wall_s": done.rounds_s[0], "killed_counted_sites": len(counted)}

    def back(self) -> Figures:
        """Say how long it takes until the SuperLink has the killed SuperNode again."""
        began = time.perf_counter()
        killed = find_program(self.sites[-1].running, "site")
        while deployment.status(self.coordinator)["supernodes"][NAMES[-1]] != "offline":
            _check_time(began)
        while deployment.status(self.coordinator)["supernodes"][NAMES[-1]] != "online":
            _check_time(began)
        same = killed == find_program(self.sites[-1].running, "site")
        return {
            "killed_back_wall_s": self._since_killed_s(),
            "killed_site_process_lived_on": same,
        }

    def memory(self) -> Figures:
        """Return the memory of one of each program."""
        site = self.sites[0].running
        where = {"superlink": self.coordinator.running, SUPERNODE: site, "site": site}
        return {f"{name}_memory_mb": _memory_mb(folder, name) for name, folder in where.items()}

    def _trained(self, n_rounds: int, timer: threading.Timer | None = None) -> Trained:
        """Train up to so many rounds; the timer begins with the first."""
        _set_rounds(self._folder / "coordinator.toml", n_rounds)

        def advance(done: int, total: int) -> None:
            if timer is not None and done < total:
                timer.start()

        return train(self.coordinator, advance=advance)

    def _kill(self) -> None:
        program = find_program(self.sites[-1].running, SUPERNODE)
        if program is not None:
            self._killed_s = time.perf_counter()
            os.kill(program.pid, signal.SIGKILL)

    def _since_killed_s(self) -> float:
        return time.perf_counter() - self._killed_s

    def _in_process(self, n_rounds: int) -> list[float]:
        folder = self._folder / "in-process"
        with ExitStack() as stack:
            sites = [stack.enter_context(opened_site(folder / f"{name}.toml")) for name in NAMES]
            engine = InProcessEngine({site.site_id: site for site in sites})
            federation = stack.enter_context(opened_federation(folder / "coordinator.toml", engine))
            times_s = []
            for _ in range(n_rounds):
                began = time.perf_counter()
                federation.step()
                times_s.append(time.perf_counter() - began)
        return times_s

    def _model(self, folder: Path) -> NDArray[np.float64]:
        with opened_federation(folder / "coordinator.toml", InProcessEngine({})) as federation:
            return federation.model


def _write_files(folder: Path, agreed: FederationAgreement, n_users: int) -> None:
    """Write the roster, and the files of the sites and the coordinator."""
    folder.mkdir(parents=True)
    keys = {name: SigningIdentity.generate() for name in NAMES}
    members = tuple(Member(name=name, signing_key=key.public.hex()) for name, key in keys.items())
    roster = FederationRoster(name="bench", agreement=agreed, members=members)
    (folder / "roster.json").write_bytes(roster.to_json())
    _set_rounds(folder / "coordinator.toml", 1)
    n = n_users // len(NAMES)
    for number, (name, key) in enumerate(keys.items()):
        key.save(folder / f"{name}.key")
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nroster = "roster.json"\nstate = "{name}.db"\n'
            f'signing_key = "{name}.key"\n[simulated]\ndata = "{WORLD}"\n'
            f"n_clients = {n * len(NAMES)}\nfirst = {n * number}\nn = {n}\n"
            f'[[consents]]\nname = "nobody: users are simulated"\nrecipient = "coordinator"\n'
            f'purpose = "{agreed.name}"\n'
        )


def _set_rounds(file: Path, n_rounds: int) -> None:
    file.write_text(
        f'roster = "roster.json"\nstate = "coordinator.db"\nn_rounds = {n_rounds}\n'
        f"timeout_s = {STAGE_S}\n"
    )


def _memory_mb(folder: Path, name: str) -> float:
    program = find_program(folder, name)
    if program is None:
        raise StoreError(f"{name} does not run", where=WHERE)
    lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(size) / 1024


def _check_time(began_s: float) -> None:
    time.sleep(0.5)
    if time.perf_counter() - began_s > BACK_S:
        raise StoreError("a killed SuperNode did not come back", where=WHERE)


def _free_address() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listening.getsockname()[1]}"
