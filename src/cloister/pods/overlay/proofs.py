"""That the holder of a token asks, now, this node, for just this: a signed proof a request.

As in DPoP (RFC 9449) the proof is a token of its own, signed by the key to which the access token
is bound. It names the node, the access token, the SHA-256 of what is asked, the time, and a nonce.
Against whoever carries or records requests, and against other nodes that got one: a request cannot
be altered, sent to another node, or sent again. It says nothing about who may read the request.

A node remembers nonces in memory. After a restart it refuses what was signed before it started, so
a restart opens no gap; where its clock was set back in between, requests of that time are accepted
once more.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import Field

from cloister.core.ids import ServerId
from cloister.core.settings import Settings
from cloister.pods.overlay.spent_nonces import SpentNonces
from cloister.pods.overlay.tokens import TokenVerifier, VerifiedToken, refused, unverified_part

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey

__all__ = ["Credential", "Proof", "ProofSettings", "ProofVerifier", "ProvenAsker", "new_holder_key"]

PROOF_TYPE: Final = "cloister-request+jwt"
MAX_PROOF_CHARACTERS: Final = 4_096
_NONCE_BYTES: Final = 16
_KEPT_SIGNERS: Final = 1_024
_ALGORITHMS: Final = {"Ed25519": "Ed25519", "P-256": "ES256"}
_PUBLIC_FIELDS: Final = {"kty", "crv", "x", "y", "kid", "alg", "use", "key_ops"}


class ProofSettings(Settings):
    """How fresh a request must be.

    Parameters
    ----------
    max_age_s
        Older requests are refused.
    clock_skew_s
        By how much the searcher's clock may be ahead.
    """

    max_age_s: float = Field(default=60.0, gt=0)
    clock_skew_s: float = Field(default=5.0, ge=0)


def new_holder_key() -> OKPKey:
    """Draw a key for a token to be bound to."""
    from joserfc.jwk import OKPKey

    return OKPKey.generate_key("Ed25519", auto_kid=False)


class Proof(NamedTuple):
    """A signed proof, and its nonce, by which the answer is known to belong to it."""

    text: str
    nonce: str


class Credential:
    """A token and the key that it is bound to; ``repr()`` shows neither.

    Parameters
    ----------
    token
        As the issuer gave it.
    key
        An Ed25519 or P-256 key with its private half.
    """

    __slots__ = ("_header", "_key", "_token_hash", "token")

    def __init__(self, token: str, key: OKPKey | ECKey) -> None:
        public = key.as_dict(private=False)
        self.token = token
        self._key = key
        self._token_hash = _hashed(token.encode())
        self._header = {
            "typ": PROOF_TYPE,
            "alg": _ALGORITHMS[str(public["crv"])],
            "jwk": {name: public[name] for name in ("kty", "crv", "x", "y") if name in public},
        }

    @property
    def digest(self) -> str:
        """What stands for the token where answers are kept."""
        return self._token_hash

    def prove(
        self, server_id: ServerId, content: bytes, *, clock: Callable[[], float] = time.time
    ) -> Proof:
        """Sign that the holder asks this of a node now."""
        from joserfc import jwt

        nonce = secrets.token_hex(_NONCE_BYTES)
        claims = {
            "htu": server_id,
            "ath": self._token_hash,
            "content": _hashed(content),
            "iat": clock(),
            "jti": nonce,
        }
        header: dict[str, Any] = dict(self._header)
        text = jwt.encode(header, claims, self._key, algorithms=[header["alg"]])
        return Proof(text, nonce)

    def __repr__(self) -> str:
        return "<Credential>"


class ProvenAsker(NamedTuple):
    """Who asks, and with which nonce."""

    token: VerifiedToken
    nonce: str


class ProofVerifier:
    """What a node does with token and proof of each request; threads may share it.

    Parameters
    ----------
    server_id
        The node's own name: proofs for others are refused.
    tokens
        Verifies the access tokens.
    clock
        The time in seconds since 1970.
    """

    def __init__(
        self,
        server_id: ServerId,
        tokens: TokenVerifier,
        *,
        settings: ProofSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server_id = server_id
        self._tokens = tokens
        self._settings = settings or ProofSettings()
        self._clock = clock
        self._started_s = clock()
        keep_s = self._settings.max_age_s + self._settings.clock_skew_s
        self._spent = SpentNonces(keep_s=keep_s)

    def verify(self, token: str, proof: str, content: bytes) -> ProvenAsker:
        """Return who asks; raise `AccessDenied`, with no reason, unless all is right.

        The nonce is used up only by a request that is right in all else.
        """
        verified = self._tokens.verify(token)
        claims = self._signed_claims(proof, verified.thumbprint)
        nonce, signed_s = claims.get("jti"), claims.get("iat")
        now_s = self._clock()
        earliest_s = max(now_s - self._settings.max_age_s, self._started_s)
        if (
            claims.get("htu") != self.server_id
            or claims.get("ath") != _hashed(token.encode())
            or claims.get("content") != _hashed(content)
            or not isinstance(nonce, str)
            or len(nonce) != 2 * _NONCE_BYTES
            or isinstance(signed_s, bool)
            or not isinstance(signed_s, (int, float))
            or not earliest_s <= signed_s <= now_s + self._settings.clock_skew_s
        ):
            raise refused()
        self._spent.spend(verified.thumbprint, nonce, now_s)
        return ProvenAsker(verified, nonce)

    def _signed_claims(self, proof: str, thumbprint: str) -> dict[str, Any]:
        """Return the claims of a proof that the key with this thumbprint signed."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        if len(proof) > MAX_PROOF_CHARACTERS or not proof.isascii():
            raise refused()
        signer = _signer(proof.partition(".")[0])
        if signer.thumbprint != thumbprint:
            raise refused()
        try:
            return dict(jwt.decode(proof, signer.key, algorithms=[signer.algorithm]).claims)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise refused() from None


class _Signer(NamedTuple):
    """The key that a proof's header names."""

    key: OKPKey | ECKey
    algorithm: str
    thumbprint: str


@lru_cache(maxsize=_KEPT_SIGNERS)
def _signer(header_text: str) -> _Signer:
    """Read the first part of a proof, which is the same in all proofs of a credential."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey

    header = unverified_part(header_text)
    public, algorithm = header.get("jwk"), header.get("alg")
    if header.get("typ") != PROOF_TYPE or not isinstance(public, dict):
        raise refused()
    if set(public) - _PUBLIC_FIELDS or algorithm != _ALGORITHMS.get(str(public.get("crv"))):
        raise refused()
    try:
        key = (OKPKey if algorithm == "Ed25519" else ECKey).import_key(public)
        return _Signer(key, str(algorithm), key.thumbprint())
    except (JoseError, ValueError, TypeError, KeyError):
        raise refused() from None


def _hashed(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
