"""The demo's clinics at work: people search and click, rounds are run, rankers are measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.app.demo.clinic_federation import NODES, ClinicFederation
from cloister.app.demo.clinic_users import ClinicNeeds, Day, SimulatedUsers
from cloister.app.demo.held_out import HeldOut
from cloister.app.office import Office
from cloister.app.user_sessions import UserSessions
from cloister.core.closing import Closing
from cloister.core.errors import Conflict, StoreError
from cloister.federate.online.ranker_files import ranker_from_bytes
from cloister.services.federation_folder import COORDINATOR

__all__ = ["ClinicLife", "Measured"]

TRIES: Final = 4  # at a round
WAIT_S: Final = 20.0  # for nodes to hear of something


class Measured(NamedTuple):
    """How good the ranker after so many rounds is, on queries that nobody clicked on."""

    n_rounds: int
    ndcg: float


class ClinicLife(Closing):
    """The clinics, their people, and what only the maker of the world can measure.

    Threads may share it, once `begin` is done. Close it, or use it in a ``with``.

    Parameters
    ----------
    folder
        Where the federation is kept; not there yet, or empty.
    seed
        Of the world, and of who searches for what.
    """

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.federation = ClinicFederation(folder, seed=seed)
        self.office = Office(self.federation.folder)
        self.sessions = UserSessions(self.federation.folder)
        self.needs = ClinicNeeds(self.federation.clinics.world)
        self.held_out: HeldOut | None = None
        self._people = SimulatedUsers(self.federation, self.needs, self.sessions, seed)
        self._one_at_a_time = threading.Lock()
        self._measuring = threading.Lock()
        self._measured: dict[int, float] = {}
        self._of_digest: dict[str, float] = {}

    def begin(self) -> None:
        """Start all services; meanwhile look up what held-out queries find."""
        processes = self.federation.processes
        for service in self.federation.folder.services:
            processes.launch(service)
        self.held_out = HeldOut(self.federation, self.needs)
        for service in self.federation.folder.services:
            processes.await_started(service)

    def publish(self) -> None:
        """Let every node publish noisy statistics of its terms, once."""
        for node in NODES:
            self.office.post(node, "/v1/publications")

    def day(self, n_each: int) -> Day:
        """Let the researchers search so often each, and click."""
        with self._one_at_a_time:
            return self._people.search(n_each, roles=("researcher",))

    def run_round(self) -> dict[str, Any]:
        """Run a secure round among the nodes that answer; a round that failed is tried again."""
        for _ in range(TRIES - 1):
            try:
                return dict(self.office.post(COORDINATOR, "/v1/rounds"))
            except Conflict:  # too few nodes were quick enough, or one is under way
                time.sleep(1.0)
        return dict(self.office.post(COORDINATOR, "/v1/rounds"))

    def try_newest(self, n_each: int) -> dict[str, Any]:
        """Let people vote on the newest ranker: searches on both, then a decision; return it."""
        opened = self.office.post(COORDINATOR, "/v1/trials", {"share": 1.0})["trial"]["trial_id"]
        _wait(lambda: all(self._node(node)["trial"] == opened for node in NODES))
        self.day(n_each)
        self.office.post(COORDINATOR, "/v1/decisions")
        _wait(lambda: self._decided(opened) is not None)
        served = self._coordinator()["serving"]["serving"]
        _wait(lambda: all(self._node(node)["serving"] == served for node in NODES))
        return dict(self._decided(opened) or {})

    def _decided(self, trial_id: str) -> dict[str, Any] | None:
        past = self._coordinator()["trials"]
        return next((one for one in past if one["trial_id"] == trial_id), None)

    def _coordinator(self) -> dict[str, Any]:
        return dict(self.office.get(COORDINATOR, "/v1/status"))

    def _node(self, node: str) -> dict[str, Any]:
        return dict(self.office.get(node, "/v1/status"))

    def n_rounds(self) -> int:
        """Return how many rounds are done."""
        return int(self._coordinator()["n_rounds"])

    def served(self) -> float:
        """Return how good the ranker is that nodes serve with."""
        digest = self._coordinator()["serving"]["serving"]
        with self._measuring:
            if digest not in self._of_digest and self.held_out is not None:
                content = self.office.get_bytes(COORDINATOR, f"/v1/rankers/{digest}")
                self._of_digest[digest] = self.held_out.ndcg(ranker_from_bytes(content))
            return self._of_digest[digest]

    def measured(self, n_rounds: int) -> Measured:
        """Return how good the ranker after so many rounds is; measured once."""
        with self._measuring:
            if n_rounds not in self._measured and self.held_out is not None:
                content = self.office.get_bytes(COORDINATOR, f"/v1/rounds/{n_rounds}/ranker")
                self._measured[n_rounds] = self.held_out.ndcg(ranker_from_bytes(content))
            return Measured(n_rounds, self._measured[n_rounds])

    def curve(self) -> list[Measured]:
        """Return how good the rankers of all rounds are, from the first one on."""
        return [self.measured(n) for n in range(self.n_rounds() + 1)]

    def kill(self, node: str) -> None:
        """Kill a node's process as `kill -9` does."""
        self.federation.processes.kill(node)

    def revive(self, node: str) -> None:
        """Start a node again."""
        self.federation.processes.start(node)

    def close(self) -> None:
        """End all services."""
        self.sessions.close()
        self.office.close()
        self.federation.close()


def _wait(there: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not there():
        if time.monotonic() > until:
            raise StoreError("the services did not get there in time", where="demo")
        time.sleep(0.1)
