"""Who asks: a signed token, verified at the node.

A token is a JSON Web Token (RFC 7519) of an issuer whose public keys the node was given. It names
one agent, is meant for one audience, ends soon, and is bound to a key that its holder must have
(``cnf.jkt``, RFC 9449): a stolen token alone is worth nothing. Where an issuer's settings say
``bound=False``, tokens that are bound to no key are accepted, too: whoever has such a token is its
agent until it ends. A `Reader` of a request that came over a network is made here and nowhere else.

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
from typing import Any, Final, NamedTuple

from pydantic import Field, JsonValue, field_validator

from cloister.core.errors import AccessDenied, SettingsError
from cloister.core.ids import AgentId, GroupId, checked_id
from cloister.core.rights import Reader
from cloister.core.settings import Settings
from cloister.pods.overlay.token_keys import Algorithm, fitting, read_keys, registry_of

__all__ = [
    "Algorithm",
    "TokenVerifier",
    "TrustedIssuer",
    "VerifiedToken",
    "refused",
    "unverified_part",
    "unverified_parts",
]

MAX_TOKEN_CHARACTERS: Final = 8_192
MAX_GROUPS: Final = 256
_REMEMBERED: Final = 4_096  # tokens whose signature was checked
_THUMBPRINT_CHARACTERS: Final = 43  # SHA-256 in base64url
_ACCESS_TOKEN: Final = ("at+jwt", "application/at+jwt")  # RFC 9068: no ID token, proof or logout
_UNTYPED: Final = ("jwt", "application/jwt", "")
_OF_OTHER_TOKENS: Final = ("nonce", "at_hash", "c_hash", "s_hash", "events", "htm", "htu")
_ACCESS_USES: Final = ("access", "bearer", "dpop")  # of token_use (Cognito) and typ (Keycloak)


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
        And for these groups; of other groups in a token, and of such that cannot be an id (with a
        blank in them), nothing is believed.
    agent_claim, groups_claim
        Where the agent's id and the groups are.
    agent_prefix, group_prefix
        Put before what is found there: a provider's ``ann`` becomes ``clinic-a:ann``.
    algorithms
        How tokens may be signed; RSA keys are read where these name RS256 or PS256.
    bound
        Whether tokens must be bound to a key. A token that is bound is never taken for one that is
        not.
    max_lifetime_s
        Tokens that are made for longer are refused.
    clock_skew_s
        By how much the issuer's clock may be ahead.
    untyped_access_tokens
        Whether tokens are taken whose header does not say that they are access tokens (``typ`` is
        not ``at+jwt``). Then each must have a scope, and nothing that other kinds of token have.
    """

    issuer: str = Field(min_length=1)
    keys: dict[str, JsonValue]
    audience: str = Field(min_length=1)
    agent_prefixes: tuple[str, ...] = Field(min_length=1)
    group_prefixes: tuple[str, ...] = ()
    agent_claim: str = Field(default="sub", min_length=1)
    groups_claim: str = Field(default="groups", min_length=1)
    agent_prefix: str = ""
    group_prefix: str = ""
    algorithms: tuple[Algorithm, ...] = ("Ed25519", "ES256")
    bound: bool = True
    max_lifetime_s: float = Field(default=3_600.0, gt=0)
    clock_skew_s: float = Field(default=5.0, ge=0)
    untyped_access_tokens: bool = False

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
    thumbprint: str  # of the key that the holder must have (RFC 7638); empty where there is none
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
        self._issuers = {
            one.issuer: (one, read_keys(one.issuer, one.keys, one.algorithms)) for one in issuers
        }
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
            known = self._known
        if found is None:
            found = self._checked(token)
            with self._lock:
                known[digest] = found  # lost where an issuer was replaced meanwhile
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        if not found.begins_s <= self._clock() < found.expires_s:
            raise refused()
        return found

    def replace(self, issuer: TrustedIssuer) -> None:
        """Take an issuer's new settings and keys; its old tokens are verified anew.

        Raises `SettingsError`, and changes nothing, where the keys cannot be trusted.
        """
        new = (issuer, read_keys(issuer.issuer, issuer.keys, issuer.algorithms))
        with self._lock:
            self._issuers = {**self._issuers, issuer.issuer: new}
            self._known = OrderedDict()

    def drop(self, issuer: str) -> None:
        """Believe an issuer no more."""
        with self._lock:
            self._issuers = {name: one for name, one in self._issuers.items() if name != issuer}
            self._known = OrderedDict()

    def _checked(self, token: str) -> VerifiedToken:
        from joserfc import jwt
        from joserfc.errors import JoseError

        header, claims = unverified_parts(token)
        issuer, keys = self._issuers.get(_text(claims, "iss"), (None, {}))
        key = keys.get(_text(header, "kid"))
        if (
            issuer is None
            or key is None
            or header.get("alg") not in fitting(key, issuer.algorithms)
        ):
            raise refused()
        kind = str(header.get("typ", "")).lower()
        untyped = issuer.untyped_access_tokens and kind in _UNTYPED
        if not untyped and kind not in _ACCESS_TOKEN:
            raise refused()
        algorithm = header["alg"]
        try:
            verified = jwt.decode(
                token, key, algorithms=[algorithm], registry=registry_of(algorithm)
            )
        except (JoseError, ValueError, TypeError):
            raise refused() from None
        if untyped and not _looks_like_access(verified.claims):
            raise refused()
        return _read_claims(issuer, verified.claims)


def _looks_like_access(claims: Mapping[str, Any]) -> bool:
    """Say whether a token without a type of its own has a scope, and nothing of other kinds."""
    uses = (claims.get(name, "access") for name in ("token_use", "typ"))
    return (
        bool(claims.get("scope") or claims.get("scp"))
        and not any(name in claims for name in _OF_OTHER_TOKENS)
        and all(str(use).lower() in _ACCESS_USES for use in uses)
    )


def _read_claims(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> VerifiedToken:
    """Take the claims of a token whose signature is right; the time is the caller's to check."""
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    issued_s, expires_s = _time(claims, "iat"), _time(claims, "exp")
    not_before_s = _time(claims, "nbf") if "nbf" in claims else issued_s
    agent = issuer.agent_prefix + _text(claims, issuer.agent_claim)
    thumbprint = _thumbprint(issuer, claims)
    if (
        claims.get("iss") != issuer.issuer
        or issuer.audience not in audiences
        or not issued_s < expires_s <= issued_s + issuer.max_lifetime_s
        or not agent.startswith(issuer.agent_prefixes)
    ):
        raise refused()
    try:
        reader = Reader(AgentId(checked_id(agent)), _groups(issuer, claims))
    except SettingsError:
        raise refused() from None
    begins_s = max(issued_s, not_before_s) - issuer.clock_skew_s
    return VerifiedToken(reader, thumbprint, begins_s, expires_s)


def _thumbprint(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> str:
    """Return what a token is bound to; what cannot be checked is refused, not passed over."""
    if not issuer.bound and "cnf" not in claims:
        return ""
    confirmation = claims.get("cnf")
    thumbprint = _text(confirmation, "jkt") if isinstance(confirmation, dict) else ""
    if len(thumbprint) != _THUMBPRINT_CHARACTERS:
        raise refused()
    return thumbprint


def _groups(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> frozenset[GroupId]:
    groups = claims.get(issuer.groups_claim, []) if issuer.group_prefixes else []
    if not isinstance(groups, list) or len(groups) > MAX_GROUPS:
        raise refused()
    if not all(isinstance(group, str) for group in groups):
        raise refused()
    named = [issuer.group_prefix + group for group in groups if group]
    spoken_for = [group for group in named if group.startswith(issuer.group_prefixes)]
    return frozenset(GroupId(group) for group in spoken_for if _can_be_id(group))


def _can_be_id(text: str) -> bool:
    try:
        return bool(checked_id(text))
    except SettingsError:
        return False


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
