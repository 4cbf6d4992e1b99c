"""Three sites that share a small population, and an engine that loses, repeats and kills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.data.partitions import iid
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.local_trainer import PopulationTrainer
from cloister.federate.engines.round_log import RoundLog
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import (
    SiteCall,
    SiteId,
    SiteMethod,
    SiteReply,
    call_id_of,
)
from cloister.federate.engines.site_memory import SiteMemory
from cloister.federate.population import Population
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.limits import Consent
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database
from federate.made_clients import NAVIGATIONAL, ragged

N_USERS = 12
SEED = 7
A, B, C = SITES = (SiteId("clinic-a"), SiteId("clinic-b"), SiteId("clinic-c"))
USERS = {A: range(3), B: range(3, 7), C: range(7, 12)}
BESIDE = (SiteMethod.HELLO, SiteMethod.TRAIN, SiteMethod.END_SESSION)
STAGES = tuple(method for method in SiteMethod if method not in BESIDE)
POPULATION = Population(iid(ragged(1), N_USERS), NAVIGATIONAL)


class Killed(BaseException):
    """A process was killed."""


def agreed(**fields: Any) -> FederationAgreement:
    """Return an agreement among the three sites."""
    usual: dict[str, Any] = {"name": "pilot", "ranker": RankerSettings(n_features=5)}
    return FederationAgreement(**(usual | {"simulated": True} | fields))


def secure(**fields: Any) -> FederationAgreement:
    """Return an agreement with secure aggregation that bears one dropout."""
    return agreed(**({"secure_aggregation": True, "min_sites": 2} | fields))


def private(**fields: Any) -> FederationAgreement:
    """Return an agreement with noise, and with a coin for each user and round."""
    usual = {"epsilon": 5.0, "delta": 1e-3, "n_rounds": 3, "n_users": N_USERS}
    return secure(privacy=SitePrivacy(**(usual | fields)))


@cache
def _empty_database() -> bytes:
    """Make all tables once: that takes longer than a round."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        with Database.open(path) as database:
            SiteMemory(database, A)
            RoundLog(database, "none")
        return path.read_bytes()


class Scene:
    """A coordinator and three sites with databases of their own; each can be started again."""

    def __init__(self, folder: Path, agreement: FederationAgreement) -> None:
        self.folder = folder
        self.agreement = agreement
        self.identities = {site: SigningIdentity.generate() for site in SITES}
        self.directory = Directory({s: i.public for s, i in self.identities.items()})
        self.sites: dict[SiteId, Site] = {}
        self._databases: dict[str, Database] = {}
        for site in SITES:
            self.start(site)
        self.engine = FaultyEngine(self)

    def start(self, name: SiteId) -> None:
        """Start a site, or start it again: what it had in memory is gone."""
        source = SimulatedNoise(stream(SEED, "noise", name))
        self.sites[name] = Site(
            name,
            self.agreement,
            self.trainer(name),
            self.database(name),
            keys=SiteKeys(self.identities[name], self.directory, source),
            consents=(Consent(name="test", recipient="coordinator", purpose=self.agreement.name),),
        )

    def trainer(self, name: SiteId) -> PopulationTrainer:
        return PopulationTrainer(POPULATION, self.agreement, members=USERS[name], seed=SEED)

    def coordinator(self) -> SiteFederation:
        """Start the coordinator, or start it again."""
        return SiteFederation(
            self.engine, self.database("coordinator"), self.agreement, directory=self.directory
        )

    def database(self, name: str) -> Database:
        """Open a database anew."""
        path = self.folder / f"{name}.db"
        if name in self._databases:
            self._databases[name].close()
        else:
            path.write_bytes(_empty_database())
            path.chmod(0o600)
        self._databases[name] = Database.open(path)
        return self._databases[name]

    def close(self) -> None:
        for database in self._databases.values():
            database.close()

    def n_releases(self) -> list[int]:
        """Return how many releases each site has recorded."""
        return [len(self.sites[site].ledger.entries()) for site in SITES]

    def mean_of(self, model: NDArray[np.float64], round: int, *sites: SiteId) -> Any:
        """Return the model moved by what these sites teach: the literal formula."""
        lessons = [self.trainer(site).train(model, round=round) for site in sites]
        n = sum(lesson.n_interactions for lesson in lessons)
        return model + sum(lesson.weighted for lesson in lessons) / n


MakeScene = Callable[[FederationAgreement], Scene]
Fault = Callable[[SiteCall, Callable[[SiteCall], SiteReply]], SiteReply | None]


class FaultyEngine:
    """The engine inside a process, with faults by site and method."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.faults: dict[tuple[SiteId, SiteMethod], Fault] = {}
        self.kill_before = self.kill_after = -1
        self.n_calls = 0
        self.log: list[tuple[SiteId, SiteCall, SiteReply | None]] = []

    def sites(self) -> tuple[SiteId, ...]:
        return SITES

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        number, self.n_calls = self.n_calls, self.n_calls + 1
        if number == self.kill_before:
            raise Killed
        replies = {site: self._one(site, call) for site, call in calls.items()}
        if number == self.kill_after:
            raise Killed
        return {site: reply for site, reply in replies.items() if reply is not None}

    def _one(self, site: SiteId, call: SiteCall) -> SiteReply | None:
        def carried(call: SiteCall) -> SiteReply:
            return InProcessEngine(self._scene.sites).call({site: call}, 1.0)[site]

        fault = self.faults.get((site, call.method))
        reply = carried(call) if fault is None else fault(call, carried)
        self.log.append((site, call, reply))
        return reply


def lost(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply | None:
    """Lose the call."""
    return None


def unanswered(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply | None:
    """Lose the reply."""
    carried(call)
    return None


def repeated(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply | None:
    """Bring the call twice, lose the first reply."""
    first, second = carried(call), carried(call)
    assert first == second
    return second


def refused(call: SiteCall, carried: Callable[[SiteCall], SiteReply]) -> SiteReply:
    """Refuse, whatever is asked."""
    return SiteReply(call_id_of(call), b"", "DataError")
