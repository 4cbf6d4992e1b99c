"""How a node speaks for its users to other nodes, and what other nodes believe of it.

A node signs a short token that names its user, bound to a key that the process draws when it
starts and never writes down; each request carries a proof by that key (`pods.overlay.proofs`).
Other nodes know its public keys from the federation's roster, and believe ``clinic-a`` about agents
and groups ``clinic-a:...`` alone.

*Not protected:* a node can say of its own users what it likes, and ask in their name without them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import Field

from cloister.core.errors import AccessDenied
from cloister.core.ids import AgentId, GroupId
from cloister.core.settings import Settings
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from cloister.services.user_tokens import node_issuer_name

if TYPE_CHECKING:
    from cloister.core.rights import Reader
    from cloister.federate.engines.roster import FederationRoster

__all__ = ["NodeIssuer", "NodeIssuerSettings", "peer_verifier"]

_KEPT: Final = 4_096  # credentials


class NodeIssuerSettings(Settings):
    """For how long a node's tokens hold.

    Parameters
    ----------
    lifetime_s
        Of a token.
    renew_before_s
        So long before its end a token is replaced.
    """

    lifetime_s: float = Field(default=300.0, gt=0, le=3_600.0)
    renew_before_s: float = Field(default=60.0, ge=0)


class _Kept(NamedTuple):
    credential: Credential
    until_s: float


class NodeIssuer:
    """Signs for a node's users; threads may share it.

    Parameters
    ----------
    federation, node
        Who signs.
    key_file
        Made by `cloister token key`; its public half is in the roster.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.core.rights import Reader
    >>> home = TemporaryDirectory()
    >>> TokenIssuer("any", "any", "key-1").save_key(Path(home.name, "token.key"))
    >>> issuer = NodeIssuer("clinics", "clinic-a", Path(home.name, "token.key"))
    >>> ann = issuer.credential(Reader(AgentId("clinic-a:ann")))
    >>> ann is issuer.credential(Reader(AgentId("clinic-a:ann")))
    True
    >>> issuer.credential(Reader(AgentId("clinic-b:ben")))
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: clinic-a: not one of the node's own users; ...
    >>> home.cleanup()
    """

    def __init__(
        self,
        federation: str,
        node: str,
        key_file: str | Path,
        *,
        settings: NodeIssuerSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        name = node_issuer_name(federation, node)
        self.node = node
        self._issuer = TokenIssuer.load(key_file, name, federation, clock=clock)
        self._settings = settings or NodeIssuerSettings()
        self._clock = clock
        self._holder = new_holder_key()
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[AgentId, frozenset[GroupId]], _Kept] = OrderedDict()

    def credential(self, reader: Reader) -> Credential:
        """Return a token for one of the node's users, with the key that proves it.

        The same one is given until shortly before its end.
        """
        self._require_own([reader.agent_id, *reader.groups])
        asked, now_s = (reader.agent_id, reader.groups), self._clock()
        with self._lock:
            kept = self._kept.get(asked)
            if kept is None or now_s >= kept.until_s:
                kept = self._kept[asked] = self._new(reader, now_s)
            self._kept.move_to_end(asked)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return kept.credential

    def public_keys(self) -> dict[str, object]:
        """Return the keys as the roster has them (``token_keys``)."""
        return self._issuer.public_keys()

    def _new(self, reader: Reader, now_s: float) -> _Kept:
        lifetime_s = self._settings.lifetime_s
        token = self._issuer.issue(
            reader.agent_id, self._holder, groups=reader.groups, lifetime_s=lifetime_s
        )
        early_s = min(self._settings.renew_before_s, lifetime_s / 2)
        return _Kept(Credential(token, self._holder), now_s + lifetime_s - early_s)

    def _require_own(self, names: Iterable[str]) -> None:
        if not all(name.startswith(f"{self.node}:") for name in names):
            raise AccessDenied(
                "not one of the node's own users",
                where=self.node,
                remedy="other nodes speak for their users",
            )


def peer_verifier(
    roster: FederationRoster, *, clock: Callable[[], float] = time.time
) -> TokenVerifier:
    """Return what believes each node of a roster about its own users, and nobody else.

    A node without keys in the roster is believed in nothing.
    """
    trusted = [
        TrustedIssuer(
            issuer=node_issuer_name(roster.name, member.name),
            audience=roster.name,
            keys=member.token_keys,
            agent_prefixes=(f"{member.name}:",),
            group_prefixes=(f"{member.name}:",),
            algorithms=("Ed25519",),
        )
        for member in roster.members
        if member.token_keys
    ]
    return TokenVerifier(trusted, clock=clock)
