"""A training of simulated users in processes: what each round's model must be is known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import CloisterError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.round_messages import read_model
from cloister.federate.engines.site_file import SimulatedUsers
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.rank.ranker import RankerSettings
from cloister.services.federation_folder import COORDINATOR, FederationFolder, FederationPlan
from cloister.store.database import Database
from services.faulty_service import ARMED, HOLDING
from services.processes import NODES, Processes, own_host, wait_until

DATA = "world:features?queries=20&documents=9&features=4"
USERS = {
    node: SimulatedUsers(data=DATA, n_clients=9, first=3 * i, n=3, seed=5)
    for i, node in enumerate(NODES)
}
EVERY_S = 0.3
TIMEOUT_S = 10.0  # a machine with much to do is slow, not silent; who is dead is known at once


class LoggedRound(NamedTuple):
    """A line of the coordinator's database: the model after so many rounds, and whose it is."""

    n_rounds: int
    model: NDArray[np.float64]
    sites: tuple[str, ...]


class Training:
    """A coordinator and three nodes with simulated users, as processes that can be armed."""

    def __init__(self, folder: FederationFolder, processes: Processes) -> None:
        self.folder = folder
        self.processes = processes

    @cached_property
    def trainers(self) -> dict[str, Any]:
        return {node: users.trainer(self.folder.roster.agreement) for node, users in USERS.items()}

    def state(self, service: str) -> str:
        """Return the address of a service's database."""
        return str(self.folder.folder / service / "state.db")

    def status(self) -> dict[str, Any]:
        with self.folder.client(COORDINATOR, timeout_s=5) as operator:
            return dict(operator.get_json("/v1/status"))

    def n_rounds(self) -> int:
        """Return the rounds done; -1 while the coordinator is away."""
        try:
            return int(self.status()["n_rounds"])
        except CloisterError:
            return -1

    def wait_rounds(self, n_more: int = 2, *, timeout_s: float = 40.0) -> int:
        """Wait until so many further rounds are done."""
        before = self.n_rounds()
        return self.wait_round(before + n_more, timeout_s=timeout_s)

    def wait_round(self, n_rounds: int, *, timeout_s: float = 40.0) -> int:
        wait_until(lambda: self.n_rounds() >= n_rounds, timeout_s, what="the training stands still")
        return self.n_rounds()

    def wait_all_nodes(self, *, timeout_s: float = 40.0) -> None:
        """Wait for a round that counts every node, begun from now on."""
        since = self.n_rounds()

        def all_in_one() -> bool:
            try:
                last = self.status()["last_round"]
            except CloisterError:
                return False
            return bool(
                last and last["round_number"] > since + 1 and len(last["nodes"]) == len(NODES)
            )

        wait_until(all_in_one, timeout_s, what="not all nodes are back")

    def arm(self, service: str, point: str) -> None:
        """Let a service die when it comes to a point."""
        armed = self.folder.folder / service / ARMED
        armed.with_suffix(".new").write_text(point, encoding="utf-8")
        armed.with_suffix(".new").rename(armed)

    def die_at(self, service: str, point: str) -> None:
        """Arm a service, and wait until it is dead."""
        self.arm(service, point)
        assert self.processes.wait_dead(service) == -9

    @contextmanager
    def held_at(self, service: str, point: str) -> Iterator[None]:
        """Let a service wait at a point, for the length of a ``with``."""
        folder = self.folder.folder / service
        self.arm(service, f"hold {point}")
        wait_until((folder / HOLDING).exists, what=f"{service} never came to {point}")
        try:
            yield
        finally:
            (folder / HOLDING).unlink()

    def died_in(self, service: str, point: str) -> int:
        """Return the round in which a service died there last."""
        path = self.folder.folder / service / f"died {point}"
        return int(path.read_text(encoding="utf-8"))

    def rounds(self) -> list[LoggedRound]:
        """Return all rounds, as the coordinator's database has them."""
        query = "SELECT n_rounds, model, sites FROM cloister_federation_round ORDER BY n_rounds"
        with Database.open(self.state(COORDINATOR)) as database, database.reading() as connection:
            rows = connection.exec_driver_sql(query).all()
        return [LoggedRound(n, read_model(bytes(m)), tuple(json.loads(s))) for n, m, s in rows]

    def n_answers(self, node: str) -> int:
        """Return how many calls of the round under way a node has answered."""
        query = "SELECT count(*) FROM cloister_site_answer"
        with Database.open(self.state(node)) as database, database.reading() as connection:
            return int(connection.exec_driver_sql(query).scalar() or 0)

    def check(self, since: int = 0) -> list[LoggedRound]:
        """See that every model is the one before, moved by the mean of what its sites teach.

        The literal formula, to the precision of the fixed point; and that ledgers are right.
        """
        rounds = self.rounds()
        assert [one.n_rounds for one in rounds] == list(range(len(rounds)))
        for before, after in zip(rounds[since:], rounds[since + 1 :], strict=False):
            lessons = [
                self.trainers[site].train(before.model, round=before.n_rounds)
                for site in after.sites
            ]
            n = sum(lesson.n_interactions for lesson in lessons)
            wanted = before.model + sum(lesson.weighted for lesson in lessons) / n
            np.testing.assert_allclose(after.model, wanted, rtol=0, atol=2**-28)
            assert len(set(after.sites)) == len(after.sites) >= 2
        self.check_ledgers(rounds)
        return rounds

    def check_ledgers(self, rounds: list[LoggedRound]) -> None:
        """See that each round is released once, and each attempt of a node at most once.

        Rounds go on meanwhile: ledgers may be further than the rounds that are given.
        """
        purposes = self.purposes(COORDINATOR)
        assert purposes == [f"round {i + 1}" for i in range(len(purposes))]
        assert len(purposes) >= len(rounds) - 1
        for node in NODES:
            purposes = self.purposes(node)
            assert not [one for one, n in Counter(purposes).items() if n > 1]
            released = {released_round(one) for one in purposes}
            counted = {one.n_rounds - 1 for one in rounds if node in one.sites}
            assert counted <= released

    def uncounted(self, node: str, since: int) -> int:
        """Return how many releases of a node are in no model, of rounds from ``since`` to now."""
        rounds = self.rounds()
        counted = {one.n_rounds - 1 for one in rounds if node in one.sites}
        released = [released_round(one) for one in self.purposes(node)]
        return sum(one not in counted and since <= one < len(rounds) - 1 for one in released)

    def purposes(self, service: str) -> list[str]:
        """Return what is on a service's ledger, in order, once it is found to be whole."""
        with Database.open(self.state(service)) as database:
            ledger = Ledger(database)
            check_ledger(ledger)
            return [entry.purpose for entry in ledger.entries() if entry.kind == "release"]


def released_round(purpose: str) -> int:
    """Return the round of a node's release from 0, out of its purpose on the ledger (from 1)."""
    return int(purpose.split(", ")[1].removeprefix("round ")) - 1


def made_training(
    folder: Path, *, settings: Mapping[str, str] | None = None, **plan: Any
) -> FederationFolder:
    """Make a federation whose users are simulated; rounds follow each other closely."""
    agreement = FederationAgreement(
        name="pilot",
        ranker=RankerSettings(n_features=4),
        secure_aggregation=True,
        min_sites=2,
        simulated=True,
    )
    usual = {node: simulated(node) for node in NODES}
    usual[COORDINATOR] = f"\n[schedule]\nround_every_s = {EVERY_S}\ntimeout_s = {TIMEOUT_S}\n"
    whole = FederationPlan(
        **({"nodes": NODES, "agreement": agreement, "host": own_host(), "consent": "test"} | plan)
    )
    return FederationFolder.make(folder, whole, settings=usual | dict(settings or {}))


def simulated(node: str) -> str:
    """Return the part of a node's file that says who its users are."""
    users = USERS[node]
    return (
        f'\n[simulated]\ndata = "{users.data}"\nn_clients = {users.n_clients}\n'
        f"first = {users.first}\nn = {users.n}\nseed = {users.seed}\n"
    )


@contextmanager
def running_training(folder: FederationFolder, **more: Any) -> Iterator[Training]:
    """Start a coordinator and its nodes; there is nothing for a broker to do."""
    with Processes(folder, faulty=True, **more) as processes:
        processes.start(COORDINATOR, *NODES)
        yield Training(folder, processes)
        for service in (COORDINATOR, *NODES):  # there is nothing to wait for
            if processes.is_running(service):
                processes.kill(service)
