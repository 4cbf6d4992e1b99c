"""A federation in one folder: authority, certificates, keys, roster and a file for each service.

For trying it out, for tests and measurements, and as the form from which real ones are made: there,
each party makes its own keys and asks the authority to sign (`cloister certs request`), and the
folders of the services lie on different machines.

========================  ======================================================================
``authority/``            the certificate authority, with its key
``roster.json``           who takes part, and by what agreement; the same for all
``NAME/service.toml``     what the service of that name starts from; its keys lie beside it
``operator/, officer/``   certificates of the people who run and watch it
========================  ======================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

from pydantic import Field, model_validator

from cloister.core.errors import SettingsError
from cloister.core.ids import AgentId
from cloister.core.settings import Settings
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.roster import FederationRoster, Member, Place
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.privacy.certificates.authority import Authority
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.ledger.limits import STANDARD_LIMITS, Consent, Limit
from cloister.services.user_tokens import node_issuer_name
from cloister.web.callers import Role
from cloister.web.client import PeerClient
from cloister.web.tls import TlsFiles

__all__ = ["FederationFolder", "FederationPlan"]

BROKER: Final = "broker"
COORDINATOR: Final = "coordinator"
ROSTER: Final = "roster.json"
UNFINISHED: Final = ".unfinished"  # is in a folder while it is being made
SERVICE: Final = "service.toml"
STATISTICS: Final = "published statistics"  # for which nodes' tables go to the broker
_ROLES: Final = {BROKER: "broker", COORDINATOR: "coordinator"}
_RESERVED: Final = frozenset({BROKER, COORDINATOR, "operator", "officer", "authority"})


class FederationPlan(Settings):
    """What a federation in a folder is made of.

    Parameters
    ----------
    name
        Of the federation.
    nodes
        Their names.
    agreement
        By which they train.
    host
        Where all services listen.
    hosts
        Where some services listen instead, by name.
    first_port
        Of the coordinator; the broker and the nodes have the next ones.
    budgets
        What each node's releases may cost at most, one for a level; it is in each node's file.
    consent
        Who agreed that nodes make releases without a bound (rounds without privacy, tables of exact
        counts); it is in each node's file. Nobody unless given: nodes refuse them.
    """

    name: str = "clinics"
    nodes: tuple[str, ...]
    agreement: FederationAgreement
    host: str = "127.0.0.1"
    hosts: dict[str, str] = Field(default_factory=dict)
    first_port: int = 8440
    budgets: tuple[Limit, ...] = tuple(STANDARD_LIMITS.values())
    consent: str = ""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.nodes)) != len(self.nodes) or _RESERVED & set(self.nodes):
            reserved = ", ".join(sorted(_RESERVED))
            raise ValueError(f"nodes have different names, and none of: {reserved}")
        if self.first_port + len(self.services) > 65536:
            raise ValueError("there are not enough ports above the first one")
        if self.agreement.min_sites > len(self.nodes):
            raise ValueError("a round would need more nodes than there are")
        if self.agreement.secure_aggregation and 2 * self.agreement.min_sites <= len(self.nodes):
            raise ValueError("with secure aggregation a round needs more than half of the nodes")
        for node in self.nodes:
            Place(name=node, url="")  # refuses what is no name
        return self

    @property
    def services(self) -> tuple[str, ...]:
        """All services, in the order of their ports."""
        return (COORDINATOR, BROKER, *self.nodes)

    @property
    def entries(self) -> tuple[str, ...]:
        """What the folder will hold."""
        return ("authority", *self.services, _OPERATOR.name, _OFFICER.name, ROSTER)

    def url(self, service: str) -> str:
        """Return where a service answers."""
        host = self.host_of(service)
        host = f"[{host}]" if ":" in host else host
        return f"https://{host}:{self.first_port + self.services.index(service)}"

    def host_of(self, service: str) -> str:
        """Return where a service listens."""
        return self.hosts.get(service, self.host)


class _Person(NamedTuple):
    role: Role
    name: str


_OPERATOR: Final = _Person(Role.OPERATOR, "operator")
_OFFICER: Final = _Person(Role.OFFICER, "officer")


class FederationFolder:
    """A federation in a folder.

    Parameters
    ----------
    folder
        Made by `make`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.roster = FederationRoster.from_json(self.folder / ROSTER)

    @classmethod
    def make(
        cls,
        folder: str | Path,
        plan: FederationPlan,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> FederationFolder:
        """Make a federation in a folder that is not there yet, or is empty.

        Parameters
        ----------
        settings
            TOML that goes at the end of a service's file: by name, or by kind of service.
        """
        folder = Path(folder).absolute()
        if folder.exists() and {path.name for path in folder.iterdir()} - {UNFINISHED}:
            raise SettingsError(
                "the folder is not empty", where=str(folder), remedy="name a new folder"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = Authority.create(folder / "authority", plan.name)
        members = []
        for service in plan.services:
            place = folder / service
            authority.issue(_role(service), service, folder=place, hosts=[plan.host_of(service)])
            if service in plan.nodes:
                members.append(_made_member(place, plan, service))
        for person in (_OPERATOR, _OFFICER):
            authority.issue(person.role, person.name, folder=folder / person.name)
        roster = FederationRoster(
            name=plan.name,
            agreement=plan.agreement,
            members=tuple(members),
            coordinator=Place(name=COORDINATOR, url=plan.url(COORDINATOR)),
            broker=Place(name=BROKER, url=plan.url(BROKER)),
        )
        (folder / ROSTER).write_bytes(roster.to_json())
        for service in plan.services:
            more = settings or {}
            text = _service_file(plan, service) + more.get(service, more.get(_role(service), ""))
            text += _node_limits(plan) if service in plan.nodes else ""
            (folder / service / SERVICE).write_text(text, encoding="utf-8")
        return cls(folder)

    @property
    def services(self) -> tuple[str, ...]:
        """All services: the coordinator, the broker, the nodes."""
        return (COORDINATOR, BROKER, *(member.name for member in self.roster.members))

    @property
    def here(self) -> tuple[str, ...]:
        """The services that this folder has the files of; the others run elsewhere."""
        return tuple(service for service in self.services if self.file(service).exists())

    def file(self, service: str) -> Path:
        """Return what a service starts from."""
        return self.folder / service / SERVICE

    @property
    def keeper_file(self) -> Path:
        """Beside which whoever keeps all services running holds a lock."""
        return self.folder / ROSTER

    def home(self, node: str) -> Path:
        """Return where a node keeps its pods and index."""
        return self.folder / node / "home"

    def url(self, service: str) -> str:
        """Return where a service answers."""
        for place in (self.roster.coordinator, self.roster.broker):
            if place is not None and place.name == service:
                return place.url
        return self.roster.member(service).url

    def tls(self, holder: str) -> TlsFiles:
        """Return the certificate of a service, or of ``operator`` or ``officer``."""
        role = holder if holder in ("operator", "officer") else _role(holder)
        stem = self.folder / holder / f"{role}-{holder}"
        authority = self.folder / "authority"
        return TlsFiles(
            certificate=stem.with_name(stem.name + ".pem"),
            key=stem.with_name(stem.name + ".key"),
            authority=authority / "authority.pem",
            revoked=authority / "revoked.pem",
        )

    def client(
        self, service: str, *, holder: str = "operator", timeout_s: float = 30.0
    ) -> PeerClient:
        """Return a client of a service, for the holder of a certificate."""
        return PeerClient(
            self.url(service),
            self.tls(holder),
            federation=self.roster.name,
            role=Role(_role(service)),
            name=service,
            timeout_s=timeout_s,
        )

    def token(self, agent_id: str, *, groups: Iterable[str] = (), lifetime_s: float = 600.0) -> str:
        """Return a token of the home node's built-in issuer for one of its users."""
        node = agent_id.partition(":")[0]
        self.roster.member(node)
        name = node_issuer_name(self.roster.name, node)
        issuer = TokenIssuer.load(self.folder / node / "token.key", name, name)
        return issuer.issue_unbound(AgentId(agent_id), groups=list(groups), lifetime_s=lifetime_s)  # type: ignore[arg-type]


def _role(service: str) -> str:
    return _ROLES.get(service, "node")


def _made_member(place: Path, plan: FederationPlan, node: str) -> Member:
    signing = SigningIdentity.generate()
    signing.save(place / "signing.key")
    name = node_issuer_name(plan.name, node)
    issuer = TokenIssuer(name, name, f"{node}-1")
    issuer.save_key(place / "token.key")
    return Member(
        name=node,
        signing_key=signing.public.hex(),
        url=plan.url(node),
        token_keys=issuer.public_keys(),
    )


def _node_limits(plan: FederationPlan) -> str:
    """Return what a node's releases may cost, and who agreed to what has no cost: TOML tables."""
    lines = []
    for limit in plan.budgets:
        lines += ["", "[[budgets]]", f'level = "{limit.level}"', f"epsilon = {limit.epsilon}"]
        lines += [f"delta = {limit.delta}"]
        if limit.order is not None:
            lines += [f"order = {limit.order}"]
        if limit.failures is not None:
            lines += [f"failures = {limit.failures}"]
    for_what = {COORDINATOR: plan.agreement.name, BROKER: STATISTICS} if plan.consent else {}
    for recipient, purpose in for_what.items():
        agreed = Consent(name=plan.consent, recipient=recipient, purpose=purpose)
        lines += ["", "[[consents]]"]
        lines += [f"{name} = {json.dumps(text)}" for name, text in agreed.model_dump().items()]
    return "\n".join(lines) + "\n"


def _service_file(plan: FederationPlan, service: str) -> str:
    role, port = _role(service), plan.url(service).rpartition(":")[2]
    lines = [
        f'kind = "{role}"',
        f'name = "{service}"',
        'roster = "../roster.json"',
        f'host = "{plan.host_of(service)}"',
        f"port = {port}",
        'state = "state.db"',
        'files = "files"',
        f'operators = ["{_OPERATOR.name}"]',
        f'officers = ["{_OFFICER.name}"]',
    ]
    if role == "node":
        lines += ['home = "home"', 'signing_key = "signing.key"', 'token_key = "token.key"']
    lines += [  # dotted, so that what comes behind may begin with names of no table
        f'tls.certificate = "{role}-{service}.pem"',
        f'tls.key = "{role}-{service}.key"',
        'tls.authority = "../authority/authority.pem"',
        'tls.revoked = "../authority/revoked.pem"',
    ]
    return "\n".join(lines) + "\n"
