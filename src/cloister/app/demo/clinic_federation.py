"""Five made-up clinics: a node each, a broker and a coordinator, as processes of this machine.

They are real services over mutual TLS on loopback addresses: secure aggregation, noise, ledgers and
rights are those of a deployment. Only the people and their records are made up.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.closing import Closing
from cloister.core.errors import SettingsError
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.fpdgd import FpdgdSettings
from cloister.privacy.ledger.limits import Limit
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.processes import Processes
from cloister.services.sample_clinics import SampleClinics, SampleUser

__all__ = ["AGREEMENT", "NODES", "PRIVACY", "ClinicFederation", "DemoUser", "free_ports"]

NODES: Final = ("st-agnes", "riverside", "northgate", "harbour", "hillcrest")
PODS: Final = 40  # of each node
STAFF: Final = 3
RESEARCHERS: Final = 8
PATIENTS: Final = 1  # of each node who has an account
ACCESS: Final = tuple(range(22, 101, 2))  # what each researcher may read, in per cent
FIRST_PORT: Final = 8440
N_PORTS: Final = 500  # that are tried
N_CANDIDATES: Final = 20  # ranked for a page
SETTLE_S: Final = 300.0  # a page is open for so long, unless it is left
VOTES_EPSILON: Final = 4.0

PRIVACY: Final = SitePrivacy(
    epsilon=8.0,
    delta=1e-4,
    n_rounds=24,
    clip_norm=0.5,
    n_users=len(NODES) * (STAFF + RESEARCHERS + PATIENTS),
    server_rate=6.0,
)
LIMIT: Final = Limit(epsilon=18.0, delta=PRIVACY.delta)  # of a clinic: rounds, words and votes
AGREEMENT: Final = FederationAgreement(
    name="demo",
    ranker=RankerSettings(n_features=len(PAGE_FEATURES)),
    training=FpdgdSettings(pdgd=PdgdSettings(learning_rate=3.0)),
    min_sites=4,
    n_colluders=1,
    secure_aggregation=True,
    privacy=PRIVACY,
)
SERVICES: Final = {
    "node": f"""votes_epsilon = {VOTES_EPSILON}
refresh_s = 0.5
[search]
timeout_s = 3.0
n_candidates = {N_CANDIDATES}
[clicks]
settle_s = {SETTLE_S}
[publishing]
form = "noisy"
noise.epsilon = 2.0
""",
    "broker": '[publishing]\nform = "noisy"\n',
    "coordinator": f"""[schedule]
timeout_s = 5.0
votes_s = 10.0
[trials]
alpha = 0.2
min_votes = 10
epsilon = {VOTES_EPSILON}
""",
}


class DemoUser(NamedTuple):
    """Somebody who has an account at a node."""

    agent_id: str
    groups: frozenset[str]
    role: str  # "patient", "doctor", "nurse", "specialist" or "researcher"
    name: str
    node: str

    @property
    def label(self) -> str:
        """What people read who choose among users."""
        return f"{self.name}, {self.role} at {self.node}"


class ClinicFederation(Closing):
    """The clinics of the demo; close them, or use them in a ``with``.

    Parameters
    ----------
    folder
        Where everything is kept; not there yet, or empty.
    seed
        Of the world.
    """

    def __init__(self, folder: Path, *, seed: int = 1) -> None:
        self.clinics = SampleClinics(
            list(NODES),
            pods=PODS,
            seed=seed,
            staff=STAFF,
            access=ACCESS,
            parties_everywhere=True,
        )
        plan = FederationPlan(
            name="clinics",
            nodes=NODES,
            agreement=AGREEMENT,
            host=(host := own_host()),
            first_port=free_ports(len(NODES) + 2, host=host),
            budgets=(LIMIT,),  # other levels have the standard limits
        )
        self.folder = FederationFolder.make(folder, plan, settings=SERVICES)
        self.processes = Processes(self.folder, tied=True)
        self.users = tuple(user for node in NODES for user in self._users(node))

    def fill(self) -> int:
        """Write and index all records; return how many."""
        return self.clinics.fill({node: self.folder.home(node) for node in NODES})

    def user(self, role: str, node: str | None = None) -> DemoUser:
        """Return the first user of a role, at a node where one is named."""
        return next(u for u in self.users if u.role == role and node in (None, u.node))

    def close(self) -> None:
        """End all services."""
        self.processes.close()

    def _users(self, node: str) -> list[DemoUser]:
        known = self.clinics.users(node)
        first = NODES.index(node) * PODS
        patients = [self.clinics.patient(first + number) for number in range(PATIENTS)]
        return [_demo_user(one, node) for one in (*known, *patients)]


def _demo_user(one: SampleUser, node: str) -> DemoUser:
    role, name = one.role, one.name
    if role == "search party":
        role, name = "researcher", f"Registry that {one.name} of all records"
    return DemoUser(str(one.agent_id), frozenset(map(str, one.groups)), role, name, node)


def own_host() -> str:
    """Return a loopback address that no other demo is likely to have; all of 127.0.0.0/8 is one."""
    return f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


def free_ports(n: int, *, first: int = FIRST_PORT, host: str = "127.0.0.1") -> int:
    """Return the first of so many ports in a row, from one on, on which nobody listens now.

    Examples
    --------
    >>> 0 <= free_ports(2, first=9000) - 9000 < N_PORTS
    True
    """
    last = min(first + N_PORTS, 65_536 - n)
    for begin in range(first, last, n):
        if all(_is_free(host, port) for port in range(begin, begin + n)):
            return begin
    raise SettingsError(
        f"no {n} free ports in a row from {first} to {last}",
        where=host,
        remedy="end other services of this machine",
    )


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
