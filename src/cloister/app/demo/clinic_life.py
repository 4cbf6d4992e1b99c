"""The demo's clinics at work: people search and click, rounds are run, rankers are measured."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

from cloister.app.demo.clinic_federation import NODES, ClinicFederation
from cloister.app.demo.clinic_users import ClinicNeeds, Day, SimulatedUsers
from cloister.app.demo.held_out import HeldOut
from cloister.app.office import Office
from cloister.app.user_sessions import UserSessions
from cloister.core.closing import Closing
from cloister.federate.online.ranker_files import ranker_from_bytes
from cloister.services.federation_folder import COORDINATOR

__all__ = ["ClinicLife", "Measured"]


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
        """Run a secure round among the nodes that answer."""
        return dict(self.office.post(COORDINATOR, "/v1/rounds"))

    def n_rounds(self) -> int:
        """Return how many rounds are done."""
        return int(self.office.get(COORDINATOR, "/v1/status")["n_rounds"])

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
