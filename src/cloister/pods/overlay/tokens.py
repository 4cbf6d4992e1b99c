"""Who asks: a signed token, verified at the node.

A token is a JSON Web Token (RFC 7519) of an issuer whose public keys the node was given. It names
one agent, is meant for one audience, ends soon, and is bound to a key that its holder must have
(``cnf.jkt``, RFC 9449): a stolen token alone is worth nothing. A `Reader` of a request that came
over a network is made here and nowhere else.

Tokens of Solid-OIDC fit: ``agent_claim="webid"``, ``audience="solid"``, algorithm ES256. Solid asks
that the WebID's profile names the issuer; a node looks nothing up, so `agent_prefixes` says of
whom an issuer may speak.

What it does not protect: whoever has an issuer's private key can be any of its agents. A token
holds until it ends: who is to be shut out at once must lose the rights at the pod. Groups are as
old as the token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import Field, JsonValue, field_validator

from cloister.core.errors import AccessDenied, SettingsError
from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.core.rights import Reader
from cloister.core.settings import Settings

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = [
    "Algorithm",
    "TokenVerifier",
    "TrustedIssuer",
    "VerifiedToken",
    "refused",
    "unverified_part",
    "unverified_parts",
]

Algorithm = Literal["Ed25519", "ES256"]
MAX_TOKEN_CHARACTERS: Final = 8_192
MAX_GROUPS: Final = 256
_REMEMBERED: Final = 4_096  # tokens whose signature was checked
_THUMBPRINT_CHARACTERS: Final = 43  # SHA-256 in base64url


def refused() -> AccessDenied:
    """Return the one error that a caller sees, whatever the reason."""
    return AccessDenied("not allowed, or no such resource")


class TrustedIssuer(Settings):
    """Somebody whose tokens a node believes, and about whom.

    Parameters
    ----------
    issuer
        The ``iss`` of its tokens, exactly.
    keys
        Its public keys as a JSON Web Key Set; each has a ``kid``.
    audience
        What must be in ``aud``: the federation.
    agent_prefixes
        The issuer speaks for agents whose id begins so; each ends in ``/``, ``#`` or ``:``, or is
        empty for all agents.
    group_prefixes
        And for these groups; of other groups in a token nothing is believed.
    agent_claim, groups_claim
        Where the agent's id and the groups are.
    algorithms
        How tokens may be signed.
    max_lifetime_s
        Tokens that are made for longer are refused.
    clock_skew_s
        By how much the issuer's clock may be ahead.
    """

    issuer: str = Field(min_length=1)
    keys: dict[str, JsonValue]
    audience: str = Field(min_length=1)
    agent_prefixes: tuple[str, ...] = Field(min_length=1)
    group_prefixes: tuple[str, ...] = ()
    agent_claim: Literal["sub", "webid"] = "sub"
    groups_claim: str = "groups"
    algorithms: tuple[Algorithm, ...] = ("Ed25519", "ES256")
    max_lifetime_s: float = Field(default=3_600.0, gt=0)
    clock_skew_s: float = Field(default=5.0, ge=0)

    @field_validator("agent_prefixes", "group_prefixes")
    @classmethod
    def _closed(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse ``https://a.org``: ``https://a.org.example`` begins with it too."""
        for prefix in prefixes:
            if prefix and prefix[-1] not in "/#:":
                raise ValueError("a prefix ends in /, # or :")
        return prefixes


class VerifiedToken(NamedTuple):
    """What a verified token says."""

    reader: Reader
    thumbprint: str  # of the key that the holder must have (RFC 7638)
    begins_s: float
    expires_s: float


class TokenVerifier:
    """Verifies tokens of known issuers; threads may share it.

    Parameters
    ----------
    issuers
        Whom to believe; tokens of all others are refused.
    clock
        The time in seconds since 1970.
    """

    def __init__(
        self, issuers: Sequence[TrustedIssuer], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._issuers = {one.issuer: (one, _read_keys(one)) for one in issuers}
        if len(self._issuers) != len(issuers):
            raise SettingsError("an issuer is given twice", where="TokenVerifier")
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, VerifiedToken] = OrderedDict()

    def verify(self, token: str) -> VerifiedToken:
        """Return what a token says, or raise `AccessDenied`, whose text gives no reason.

        Each call looks at the time. The signature of a token that was accepted before is not
        computed again.
        """
        if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
            raise refused()
        digest = hashlib.sha256(token.encode()).digest()
        with self._lock:
            found = self._known.get(digest)
        if found is None:
            found = self._checked(token)
            with self._lock:
                self._known[digest] = found
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        if not found.begins_s <= self._clock() < found.expires_s:
            raise refused()
        return found

    def _checked(self, token: str) -> VerifiedToken:
        from joserfc import jwt
        from joserfc.errors import JoseError

        header, claims = unverified_parts(token)
        issuer, keys = self._issuers.get(_text(claims, "iss"), (None, {}))
        key = keys.get(_text(header, "kid"))
        if issuer is None or key is None or header.get("alg") not in _algorithms(issuer, key):
            raise refused()
        try:
            verified = jwt.decode(token, key, algorithms=[header["alg"]])
        except (JoseError, ValueError, TypeError):
            raise refused() from None
        return _read_claims(issuer, verified.claims)


def _read_claims(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> VerifiedToken:
    """Take the claims of a token whose signature is right; the time is the caller's to check."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    issued_s, expires_s = _time(claims, "iat"), _time(claims, "exp")
    not_before_s = _time(claims, "nbf") if "nbf" in claims else issued_s
    agent = _text(claims, issuer.agent_claim)
    confirmation = claims.get("cnf")
    thumbprint = _text(confirmation, "jkt") if isinstance(confirmation, dict) else ""
    if (
        claims.get("iss") != issuer.issuer
        or issuer.audience not in audiences
        or not issued_s < expires_s <= issued_s + issuer.max_lifetime_s
        or not agent.startswith(issuer.agent_prefixes)
        or len(thumbprint) != _THUMBPRINT_CHARACTERS
    ):
        raise refused()
    try:
        reader = Reader(AgentId(checked_id(agent)), _groups(issuer, claims))
    except SettingsError:
        raise refused() from None
    begins_s = max(issued_s, not_before_s) - issuer.clock_skew_s
    return VerifiedToken(reader, thumbprint, begins_s, expires_s)


def _groups(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> frozenset[GroupId]:
    groups = claims.get(issuer.groups_claim, []) if issuer.group_prefixes else []
    if not isinstance(groups, list) or len(groups) > MAX_GROUPS:
        raise refused()
    if not all(isinstance(group, str) for group in groups):
        raise refused()
    spoken_for = [group for group in groups if group.startswith(issuer.group_prefixes)]
    return frozenset(GroupId(checked_id(group)) for group in spoken_for)


def _read_keys(issuer: TrustedIssuer) -> dict[str, Key]:
    """Read the issuer's key set; private or shared keys are refused."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, KeySet, OKPKey

    try:
        keys = KeySet.import_key_set(issuer.keys).keys  # type: ignore[arg-type]
    except (JoseError, ValueError, TypeError, KeyError):
        raise SettingsError("not a JSON Web Key Set", where=issuer.issuer) from None
    listed = issuer.keys.get("keys")
    named = [isinstance(one, dict) and "kid" in one for one in listed or ()]  # type: ignore[union-attr]
    found: dict[str, Key] = {}
    for key in keys:
        if not isinstance(key, (ECKey, OKPKey)) or key.is_private or not key.kid or not all(named):
            raise SettingsError(
                "keys must be public, of a curve, and have a kid", where=issuer.issuer
            )
        found[key.kid] = key
    if not found or len(found) != len(keys):
        raise SettingsError("no keys, or two with one kid", where=issuer.issuer)
    return found


def _algorithms(issuer: TrustedIssuer, key: Key) -> tuple[str, ...]:
    """Return how this key may sign."""
    fits = {"Ed25519": "Ed25519", "P-256": "ES256"}.get(str(key.as_dict().get("crv")))
    return tuple(name for name in issuer.algorithms if name == fits)


def unverified_parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read header and claims, to find the key; nothing else may be done with them."""
    parts = token.split(".")
    if len(parts) != 3:
        raise refused()
    return unverified_part(parts[0]), unverified_part(parts[1])


def unverified_part(text: str) -> dict[str, Any]:
    """Read one part of a token, of which nothing is known."""
    try:
        part = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise refused() from None
    if not isinstance(part, dict):
        raise refused()
    return part


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise refused()
    return value


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**53:
        raise refused()
    return float(value)
