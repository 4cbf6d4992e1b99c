"""Who a user of a node is: bearer tokens of an OpenID provider, or of the node's own issuer.

Both go through one `TokenVerifier`. A node speaks for agents whose id begins with its own name and
a colon, and for no others: what a token says of somebody is put behind ``clinic-a:``. Whoever is
named nowhere in the settings is a plain user; operators and officers are named there by group or by
agent, and who would be both is neither.

*Guaranteed*, at each request: the user was named by an issuer that the node's settings name, in a
token for this node that has begun and not ended. *Not protected:* a bearer token that is bound to
no key is its user for whoever has it, until it ends. Roles and groups are as old as the token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.core.settings import Settings
from cloister.pods.overlay.proofs import ProofSettings, ProofVerifier
from cloister.pods.overlay.tokens import (
    MAX_TOKEN_CHARACTERS,
    TokenVerifier,
    TrustedIssuer,
    refused,
    unverified_parts,
)
from cloister.services.openid import MAX_WAITING, KeyCache, OpenIdSettings, require_unbound
from cloister.web.callers import Caller, Role, caller_uri

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = [
    "RoleMembers",
    "UserTokenSettings",
    "UserTokens",
    "VerifiedUser",
    "node_issuer_name",
]


def node_issuer_name(federation: str, node: str) -> str:
    """Return how a node calls itself as an issuer of tokens, and as their audience.

    Examples
    --------
    >>> node_issuer_name("clinics", "clinic-a")
    'cloister://clinics/node/clinic-a'
    """
    return caller_uri(federation, Role.NODE, node)


class RoleMembers(Settings):
    """Who has a role: agents, and groups of agents, by their whole ids (``clinic-a:ops``)."""

    agents: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def has(self, reader: Reader) -> bool:
        """Say whether somebody is among them."""
        return reader.agent_id in self.agents or bool(self.groups & reader.groups)


class UserTokenSettings(Settings):
    """Whose tokens a node believes about its users, and who of them is more than a user.

    Parameters
    ----------
    built_in
        Whether tokens of the node's own issuer (`cloister token issue`) are believed.
    bound
        Whether these must be bound to a key of their holder; cannot be set, since a node's routes
        take no proofs from users yet.
    max_lifetime_s
        Such tokens for longer are refused.
    providers
        OpenID providers.
    operators, officers
        Who has these roles; nobody unless given.

    Examples
    --------
    >>> UserTokenSettings().providers, UserTokenSettings().operators.groups
    ((), frozenset())
    """

    built_in: bool = True
    bound: bool = False
    max_lifetime_s: float = Field(default=3_600.0, gt=0, le=86_400.0)
    providers: tuple[OpenIdSettings, ...] = ()
    operators: RoleMembers = RoleMembers()
    officers: RoleMembers = RoleMembers()

    _unbound = field_validator("bound")(require_unbound)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse providers of which one could name the users of another."""
        agents = [one.agent_prefix for one in self.providers]
        groups = [one.group_prefix for one in self.providers if one.groups_claim]
        for prefixes in (sorted(agents), sorted(groups)):
            if any(second.startswith(first) for first, second in pairwise(prefixes)):
                raise ValueError("two providers need prefixes that keep their users apart")
        if len({one.issuer for one in self.providers}) != len(self.providers):
            raise ValueError("a provider is given twice")
        return self

    def below(self, folder: Path) -> Self:
        """Return the settings with their paths as seen from everywhere."""
        providers = tuple(one.below(folder) for one in self.providers)
        return self.model_copy(update={"providers": providers})


class VerifiedUser(NamedTuple):
    """Who asks, and as what: user, operator or officer."""

    reader: Reader
    role: Role


class UserTokens:
    """Verifies the tokens of a node's users; threads may share it.

    Parameters
    ----------
    federation, node
        Whose users they are.
    settings
        Whom to believe.
    own_keys
        The public keys of the node's own issuer, a JSON Web Key Set.
    proofs
        How fresh the proofs of bound tokens must be.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> from cloister.core.ids import AgentId
    >>> from cloister.pods.overlay.token_issuer import TokenIssuer
    >>> name = node_issuer_name("clinics", "clinic-a")
    >>> issuer = TokenIssuer(name, name, "key-1")
    >>> users = UserTokens("clinics", "clinic-a", own_keys=issuer.public_keys())
    >>> user = users.verify(issuer.issue_unbound(AgentId("clinic-a:ann")))
    >>> user.reader.agent_id, str(user.role)
    ('clinic-a:ann', 'user')
    >>> users.verify(issuer.issue_unbound(AgentId("clinic-b:ben")))
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: not allowed, or no such resource; ask the owner for access
    """

    def __init__(
        self,
        federation: str,
        node: str,
        *,
        settings: UserTokenSettings | None = None,
        own_keys: Mapping[str, JsonValue] | None = None,
        proofs: ProofSettings | None = None,
        clock: Callable[[], float] = time.time,
        key_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or UserTokenSettings()
        self._prefix = f"{node}:"
        built_in = []
        if self._settings.built_in and own_keys is not None:
            built_in.append(self._own_issuer(node_issuer_name(federation, node), own_keys))
        self._tokens = TokenVerifier(built_in, clock=clock)
        self._proofs = ProofVerifier(ServerId(node), self._tokens, settings=proofs, clock=clock)
        waiting = threading.Semaphore(MAX_WAITING)
        self._caches = {
            one.issuer: self._key_cache(one, waiting, key_clock) for one in self._settings.providers
        }

    def verify(self, token: str, *, proof: str = "", content: bytes = b"") -> VerifiedUser:
        """Return who asks; raise `AccessDenied`, with no reason, unless all is right.

        A token that is bound to a key needs a proof (`cloister.pods.overlay.proofs`) over the
        content of this very request; without one it is refused, too. May fetch a provider's keys.
        """
        self._fetch_keys(token)
        verified = self._tokens.verify(token)
        if verified.thumbprint or proof:
            self._proofs.verify(token, proof, content)
        return VerifiedUser(verified.reader, self._role(verified.reader))

    def identify(self, token: str) -> Caller:
        """Return the caller of a bearer token, as `cloister.web` asks for it."""
        user = self.verify(token)
        return Caller(user.role, user.reader.agent_id, frozenset(user.reader.groups))

    def _fetch_keys(self, token: str) -> None:
        """See that the keys of the provider that a token names are there."""
        if not self._caches:
            return
        if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
            raise refused()
        header, claims = unverified_parts(token)
        issuer, key_id = claims.get("iss"), header.get("kid")
        if isinstance(issuer, str) and isinstance(key_id, str) and issuer in self._caches:
            self._caches[issuer].ensure(key_id)

    def _role(self, reader: Reader) -> Role:
        operates, watches = (
            self._settings.operators.has(reader),
            self._settings.officers.has(reader),
        )
        if operates == watches:
            return Role.USER
        return Role.OPERATOR if operates else Role.OFFICER

    def _own_issuer(self, name: str, keys: Mapping[str, JsonValue]) -> TrustedIssuer:
        return TrustedIssuer(
            issuer=name,
            audience=name,
            keys=dict(keys),
            agent_prefixes=(self._prefix,),
            group_prefixes=(self._prefix,),
            bound=self._settings.bound,
            max_lifetime_s=self._settings.max_lifetime_s,
        )

    def _key_cache(
        self,
        provider: OpenIdSettings,
        waiting: threading.Semaphore,
        clock: Callable[[], float],
    ) -> KeyCache:
        def take(keys: dict[str, Any]) -> None:
            self._tokens.replace(self._provided_issuer(provider, keys))

        def drop() -> None:
            self._tokens.drop(provider.issuer)

        return KeyCache(provider, take, drop, waiting=waiting, clock=clock)

    def _provided_issuer(self, provider: OpenIdSettings, keys: dict[str, Any]) -> TrustedIssuer:
        return TrustedIssuer(
            issuer=provider.issuer,
            audience=provider.audience,
            keys=keys,
            agent_prefixes=(self._prefix,),
            group_prefixes=(self._prefix,) if provider.groups_claim else (),
            agent_claim=provider.agent_claim,
            groups_claim=provider.groups_claim or "groups",
            agent_prefix=self._prefix + provider.agent_prefix,
            group_prefix=self._prefix + provider.group_prefix,
            algorithms=provider.algorithms,
            bound=provider.bound,
            max_lifetime_s=provider.max_lifetime_s,
            clock_skew_s=provider.clock_skew_s,
            untyped_access_tokens=provider.untyped_access_tokens,
        )
