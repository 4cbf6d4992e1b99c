"""What the forget page shows of a stored federation: clients, what is kept, and certificates."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cloister.core.errors import CloisterError, NotFound
from cloister.federate.update_store import Keep
from cloister.lab.forgetting.basis import make_basis
from cloister.lab.forgetting.certificate import certificate_digest, verify_certificate
from cloister.lab.forgetting.federation import StoredFederation, client_name
from cloister.lab.forgetting.folder import DATABASE, WriterLock
from cloister.lab.forgetting.state import State, read_state
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["CertificateSeen", "ClientSeen", "FederationSeen", "StoredClients"]


class ClientSeen(NamedTuple):
    """A client: whether it attacks, what is kept of it, which certificate says it is forgotten."""

    name: str
    attacks: bool
    n_kept: int
    kept_bytes: int
    certificate: int | None
    forgotten_at: str


class CertificateSeen(NamedTuple):
    """A certificate, and what checking it gave.

    Parameters
    ----------
    content
        What it says.
    problem
        Why its signature does not hold; empty where it does.
    in_order
        Whether it refers to the one before as that is now.
    """

    content: Mapping[str, Any]
    problem: str
    in_order: bool


class FederationSeen(NamedTuple):
    """A stored federation at one time."""

    settings: SimulationSettings
    keep: Keep
    keep_every: int
    clients: list[ClientSeen]
    certificates: list[CertificateSeen]
    public_key: str
    ranker_sha256: str
    ndcg: float
    size_bytes: int

    @property
    def present(self) -> list[ClientSeen]:
        """The clients that were not forgotten."""
        return [one for one in self.clients if one.certificate is None]


class StoredClients:
    """The stored federation of a console. Threads may share it.

    Parameters
    ----------
    folder
        Where it is, or will be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: FederationSeen | None = None
        self._ndcg: dict[str, float] = {}  # by digest of the ranker

    def look(self) -> FederationSeen | None:
        """Read what there is; None where no training has come to its end here.

        A reader can keep deleted bytes in the database's log: nobody should look while a client is
        being forgotten, and `last` is for that time.
        """
        with self._lock:
            self._seen = self._read()
            return self._seen

    @property
    def last(self) -> FederationSeen | None:
        """What was seen last."""
        return self._seen

    def put_aside(self) -> Path | None:
        """Rename the folder, so that another federation can be trained; return where it is now."""
        if not (self.folder / DATABASE).is_file():
            return None
        lock = WriterLock(self.folder)
        lock.take()  # others may look meanwhile
        try:
            with self._lock:
                target = next(path for path in map(self._aside, range(1, 10_000)) if _free(path))
                self.folder.rename(target)
                self._seen = None
        finally:
            lock.let_go()
        return target

    def _aside(self, number: int) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{number}")

    def _read(self) -> FederationSeen | None:
        if not (self.folder / DATABASE).is_file():
            return None
        try:
            with StoredFederation.open(self.folder) as federation:
                return self._seen_in(federation)
        except NotFound:  # a training was begun, and what it is about was not written yet
            return None

    def _seen_in(self, federation: StoredFederation) -> FederationSeen | None:
        state = federation.database.run(read_state, read_only=True)
        if state is None:  # the training goes on, or was cut short
            return None
        public = federation.identity.public
        return FederationSeen(
            settings=federation.settings,
            keep=federation.store.keep,
            keep_every=federation.store.keep_every,
            clients=_clients(federation, state),
            certificates=_checked(state.certificates, public),
            public_key=public.hex(),
            ranker_sha256=state.ranker_sha256,
            ndcg=self._measured(federation.settings, state),
            size_bytes=federation.size_bytes,
        )

    def _measured(self, settings: SimulationSettings, state: State) -> float:
        digest = state.ranker_sha256
        if digest not in self._ndcg:
            self._ndcg[digest] = make_basis(settings, honest=True).measured(state.ranker)
        return self._ndcg[digest]


def _clients(federation: StoredFederation, state: State) -> list[ClientSeen]:
    settings = federation.settings
    kept = Counter(
        client for one in federation.store.kept_rounds() for client in one.clients.tolist()
    )
    each = 4 * len(state.ranker.parameters) if federation.store.keep == "updates" else 8
    told = {
        name: (certificate["number"], certificate["at"])
        for certificate in state.certificates
        for name in certificate["forgotten"]
    }
    rows = []
    for number in range(settings.clients):
        name = client_name(number)
        by, at = told.get(name, (None, ""))
        attacks = number in settings.attacking_clients
        rows.append(ClientSeen(name, attacks, kept[number], each * kept[number], by, at))
    return rows


def _checked(certificates: Sequence[Mapping[str, Any]], public: bytes) -> list[CertificateSeen]:
    """Check each signature, and that each certificate refers to the one before."""
    seen, before = [], None
    for certificate in certificates:
        in_order = certificate.get("previous_sha256") == before
        seen.append(CertificateSeen(certificate, _problem(certificate, public), in_order))
        before = certificate_digest(certificate)
    return seen


def _problem(certificate: Mapping[str, Any], public: bytes) -> str:
    try:
        verify_certificate(certificate, public)
    except CloisterError as error:
        return error.what
    return ""


def _free(path: Path) -> bool:
    return not path.exists()
