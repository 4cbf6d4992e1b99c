"""The soak: a federation of real processes under load and faults, for an hour.

A coordinator, a broker and three nodes run as processes with mutual TLS on loopback. Users search
and click, rounds with secure aggregation run every few seconds, trials every few rounds, and every
minute something is broken: a service is killed with ``kill -9``, a node is stopped for longer than
a round waits, a document is revoked and granted again. Afterwards each page must have counted once
or wait still, each click that was confirmed must be there, each ledger must be whole, and nothing
must have grown: else the benchmark fails and says what did not hold.

``CLOISTER_SOAK_MINUTES`` says for how long; 60 unless given.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

import numpy as np

from cloister.core.errors import CloisterError, DataError, SettingsError
from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.soak_audit import (
    Account,
    CoordinatorAccount,
    account_of,
    coordinator_account,
)
from cloister.lab.bench.soak_checks import (
    as_figures,
    growing,
    page_sums,
    unexplained,
    violations,
)
from cloister.lab.bench.soak_faults import Faults, try_fault
from cloister.lab.bench.soak_federation import (
    KEEP_S,
    NODES,
    SETTLE_S,
    TRAINING,
    made_federation,
)
from cloister.lab.bench.soak_users import ANSWER_S, Failed, SearchingUsers
from cloister.lab.bench.soak_watch import ServiceWatch
from cloister.services.federation_folder import FederationFolder
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics

__all__ = ["SoakSize", "measure", "run"]

MINUTES: Final = "CLOISTER_SOAK_MINUTES"
DRAINED_S: Final = 90.0


class SoakSize(NamedTuple):
    """How much is done for how long."""

    minutes: float = 60.0
    n_pods: int = 20  # of each node
    search_every_s: float = 1.0  # at each node
    fault_every_s: float = 40.0


def run(advance: Advance) -> Figures:
    """Run for as long as the environment says."""
    text = os.environ.get(MINUTES, "60")
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= 10_000:
        raise SettingsError(f"not a number of minutes: {text!r}", where=MINUTES)
    return measure(
        SoakSize(minutes=minutes, fault_every_s=min(40.0, max(8.0, minutes * 4))), advance
    )


def measure(size: SoakSize, advance: Advance) -> Figures:
    """Run a federation under load and faults; raise `DataError` where an invariant is violated."""
    folder = Path(mkdtemp(prefix="cloister-soak-"))
    made, clinics = made_federation(folder / "federation", n_pods=size.n_pods)
    soak = Soak(made, clinics, size)
    soak.run(advance)
    figures = soak.figures()
    rmtree(folder)  # it stays where something did not hold
    return figures


class Soak:
    """One soak; `run` it, then ask for its figures."""

    def __init__(self, folder: FederationFolder, clinics: SampleClinics, size: SoakSize) -> None:
        self._folder, self._size = folder, size
        self._processes = Processes(folder)
        self._faults = Faults(self._processes, clinics, spared=NODES[-1])
        self._watch = ServiceWatch(folder.services, self._pid)
        self._users = [
            SearchingUsers(folder, clinics, node, every_s=size.search_every_s, seed=number)
            for number, node in enumerate(NODES)
        ]
        self._wrong: list[str] = []
        self._load: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def run(self, advance: Advance) -> None:
        """Run the services under load and faults, let them come to rest, and end them."""
        with self._processes:
            self._processes.start()
            self._watch.start()
            self._publish()
            for users in self._users:
                users.start()
            try:
                self._break_things(advance)
            finally:
                for users in self._users:
                    users.stop()
            self._load = os.getloadavg()
            self._drain()
            self._watch.stop()

    def _break_things(self, advance: Advance) -> None:
        """Do one fault after the other until the time is over."""
        began, total_s = time.monotonic(), self._size.minutes * 60
        first, second = self._faults.first_half(), self._faults.second_half()
        due = self._size.fault_every_s / 2
        while (passed := time.monotonic() - began) < total_s:
            advance(int(passed), int(total_s))
            if passed < due:
                time.sleep(min(1.0, due - passed))
                continue
            due = passed + self._size.fault_every_s
            if due > total_s:
                continue
            fault = next(first if passed < total_s / 2 else second)
            if told := try_fault(fault):
                self._wrong.append(f"after a fault: {told}")
        advance(int(total_s), int(total_s))

    def figures(self) -> Figures:
        """Check all that must hold, and return what was measured."""
        folder = self._folder.folder
        nodes = {node: account_of(folder / node / "state.db", TRAINING) for node in NODES}
        coordinator = coordinator_account(
            folder / "coordinator" / "state.db", self._processes.log_path("coordinator")
        )
        sums = page_sums(nodes, coordinator, keep_s=KEEP_S)
        pages = [page for users in self._users for page in users.pages] + self._faults.pages
        failed = [one for users in self._users for one in users.failed]
        wrong = self._wrong + self._faults.leaks + violations(nodes, coordinator, pages, sums)
        wrong += growing({one: self._watch.longest_life(one) for one in self._folder.services})
        alone = unexplained(failed, self._faults.away, answer_s=ANSWER_S)
        wrong += [f"a search failed at {one.node}, which ran: {one.kind}" for one in alone]
        if wrong:
            raise DataError(
                f"{len(wrong)} things do not hold: {'; '.join(wrong[:10])}",
                where="soak",
                remedy=f"look at the services' logs below {folder}",
            )
        return {
            "minutes": self._size.minutes,
            "searches": self._search_figures(failed),
            "rounds": _round_figures(coordinator),
            "pages": as_figures(sums) | {"acknowledged": len(pages)},
            "clicks_confirmed": sum(len(page.clicked) for page in pages),
            "faults": dict(sorted(self._faults.n_faults.items())),
            "ledgers": _ledger_figures(nodes, coordinator),
            "services": {one: self._service_figures(one) for one in self._folder.services},
            "load_of_machine": self._load[0],
        }

    def _pid(self, service: str) -> int | None:
        try:
            return self._processes.pid(service)
        except CloisterError:
            return None

    def _publish(self) -> None:
        for node in NODES:
            with self._folder.client(node) as operator:
                operator.post_json("/v1/publications")

    def _drain(self) -> None:
        """Wait until no page waits for a round, then let no further round begin."""
        until = time.monotonic() + DRAINED_S
        time.sleep(SETTLE_S + 1)
        while any(self._n_waiting(node) for node in NODES):
            if time.monotonic() > until:
                self._wrong.append("pages still wait for a round long after the last search")
                break
            time.sleep(1.0)
        with self._folder.client("coordinator") as operator:
            operator.put_json("/v1/pause", {"paused": True})
        time.sleep(2.0)

    def _n_waiting(self, node: str) -> int:
        with self._folder.client(node) as operator:
            return int(operator.get_json("/v1/status")["n_pages_ready"])

    def _search_figures(self, failed: list[Failed]) -> dict[str, Any]:
        taken_s = np.concatenate([users.latencies_s for users in self._users])
        total_s = self._size.minutes * 60
        return {
            "answered": len(taken_s),
            "a_second": round(len(taken_s) / total_s, 2),
            "failed_while_own_node_was_away": len(failed),
            "late_clicks": sum(users.n_late_clicks for users in self._users),
            "kinds_of_failures": dict(Counter(one.kind for one in failed)),
            "answered_without_some_node": sum(users.n_incomplete for users in self._users),
            "empty": sum(users.n_empty for users in self._users),
            "checked_rights": self._faults.n_looks,
            "wall_p50_ms": round(1000 * float(np.percentile(taken_s, 50)), 1),
            "wall_p95_ms": round(1000 * float(np.percentile(taken_s, 95)), 1),
            "wall_p99_ms": round(1000 * float(np.percentile(taken_s, 99)), 1),
        }

    def _service_figures(self, service: str) -> dict[str, Any]:
        place = self._folder.folder / service
        sizes = {
            "database_mb": [path.stat().st_size for path in place.glob("state.db*")],
            "files_mb": [
                path.stat().st_size for path in place.glob("files/**/*") if path.is_file()
            ],
            "log_mb": [self._processes.log_path(service).stat().st_size],
        }
        return self._watch.figures(service) | {
            name: round(sum(size) / 2**20, 2) for name, size in sizes.items()
        }


def _round_figures(coordinator: CoordinatorAccount) -> dict[str, Any]:
    times = [datetime.fromisoformat(one) for one in coordinator.round_times]
    gaps = [(later - before).total_seconds() for before, later in pairwise(times)]
    return {
        "done": len(coordinator.sites),
        "failed": coordinator.n_failed,
        "with_all_nodes": sum(len(sites) == len(NODES) for sites in coordinator.sites.values()),
        "interactions_compared": len(coordinator.n_interactions),
        "longest_pause_s": round(max(gaps, default=0.0), 1),
        "trials_decided": coordinator.n_trials,
    }


def _ledger_figures(
    nodes: Mapping[str, Account], coordinator: CoordinatorAccount
) -> dict[str, Any]:
    checked = {node: account.checked for node, account in nodes.items()}
    checked["coordinator"] = coordinator.checked
    figures = {
        name: {"entries": one.n_entries, "waiting": one.n_pending} for name, one in checked.items()
    }
    for node, account in nodes.items():
        figures[node] |= {"masked_inputs": account.n_masked, "votes": account.n_votes}
    return figures
