"""An issuer of tokens, for federations that run no OpenID provider, and for tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cloister.core.errors import DataError
from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.privacy.private_file import read_private_file, write_private_file

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey

__all__ = ["TokenIssuer"]


class TokenIssuer:
    """Signs tokens that say who an agent is, bound to the agent's key.

    It asks nobody: whoever calls it must have made sure who the agent is, and that the key is
    theirs. ``repr()`` does not show the key.

    Parameters
    ----------
    issuer
        Its name, which nodes trust.
    audience
        The federation.
    key_id
        Name of the key; a new key has a new name.
    key
        Its Ed25519 key; drawn where not given.

    Examples
    --------
    >>> from cloister.pods.overlay.proofs import Credential, new_holder_key
    >>> from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
    >>> issuer = TokenIssuer("https://id.example/", "clinics", "2026-1")
    >>> holder = new_holder_key()
    >>> token = issuer.issue(AgentId("https://id.example/alice"), holder)
    >>> trusted = TrustedIssuer(issuer="https://id.example/", audience="clinics",
    ...     keys=issuer.public_keys(), agent_prefixes=("https://id.example/",))
    >>> TokenVerifier([trusted]).verify(token).reader.agent_id
    'https://id.example/alice'
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        key_id: str,
        *,
        key: OKPKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        from joserfc.jwk import OKPKey

        self.issuer = issuer
        self.audience = audience
        self.key_id = checked_id(key_id)
        self._key = key or OKPKey.generate_key("Ed25519", auto_kid=False)
        self._clock = clock

    def issue(
        self,
        agent_id: AgentId,
        holder: OKPKey | ECKey,
        *,
        groups: Iterable[GroupId] = (),
        lifetime_s: float = 600.0,
    ) -> str:
        """Return a token for an agent, bound to the holder's key."""
        bound = {"cnf": {"jkt": holder.thumbprint()}}
        return self._signed(agent_id, groups, lifetime_s, bound)

    def issue_unbound(
        self, agent_id: AgentId, *, groups: Iterable[GroupId] = (), lifetime_s: float = 600.0
    ) -> str:
        """Return a token that is bound to no key: whoever has it is the agent until it ends."""
        return self._signed(agent_id, groups, lifetime_s, {})

    def save_key(self, path: str | Path) -> None:
        """Write the key and its name (a JSON Web Key) to a new file with mode 0600."""
        private = {**self._key.as_dict(private=True), "kid": self.key_id}
        write_private_file(path, json.dumps(private, sort_keys=True).encode() + b"\n")

    @classmethod
    def load(
        cls,
        path: str | Path,
        issuer: str,
        audience: str,
        *,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Return an issuer with a key that `save_key` wrote; refuse what others may read."""
        from joserfc.errors import JoseError
        from joserfc.jwk import OKPKey

        content = read_private_file(path)
        try:
            fields = json.loads(content)
            key_id = checked_id(fields.pop("kid"))
            key = OKPKey.import_key(fields)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            key_id, key = "", None
        if key is None or not key.is_private or key.curve_name != "Ed25519":
            raise DataError("not a private Ed25519 key with a kid", where=str(path))
        return cls(issuer, audience, key_id, key=key, clock=clock)

    def _signed(
        self,
        agent_id: AgentId,
        groups: Iterable[GroupId],
        lifetime_s: float,
        more: dict[str, Any],
    ) -> str:
        from joserfc import jwt

        now_s = self._clock()
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": checked_id(agent_id),
            "aud": self.audience,
            "iat": now_s,
            "exp": now_s + lifetime_s,
            "groups": sorted(groups),
            **more,
        }
        header = {"alg": "Ed25519", "kid": self.key_id, "typ": "at+jwt"}
        return jwt.encode(header, claims, self._key, algorithms=["Ed25519"])

    def public_keys(self) -> dict[str, Any]:
        """Return the JSON Web Key Set that nodes are given."""
        public = dict(self._key.as_dict(private=False))
        return {"keys": [{**public, "kid": self.key_id, "alg": "Ed25519", "use": "sig"}]}

    def __repr__(self) -> str:
        return f"<TokenIssuer {self.issuer} {self.key_id}>"
