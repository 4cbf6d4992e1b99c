"""Proof of possession (DPoP, RFC 9449): a token is of use only with the key that it is bound to."""

from __future__ import annotations

import time
import uuid
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

from cloister.core.errors import MissingDependency

__all__ = ["DPoPKey"]

ALGORITHM: Final = "ES256"


class DPoPKey:
    """A new key on P-256 that never leaves this process."""

    def __init__(self) -> None:
        self._key = _jwk().ECKey.generate_key("P-256")

    def proof(self, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
        """Return a proof for one request.

        Parameters
        ----------
        token
            The access token that the request carries; empty where one is asked for.
        nonce
            What the server asked to be told again; empty where it did not.
        """
        from joserfc import jwt

        claims: dict[str, Any] = {
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(time.time()),
            "jti": str(uuid.uuid4()),
        }
        if token:
            digest = sha256(token.encode()).digest()
            claims["ath"] = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if nonce:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self._key.as_dict(private=False)}
        return jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])


def _jwk() -> Any:
    try:
        from joserfc import jwk
    except ImportError:
        raise MissingDependency(
            "Solid pods need joserfc", where="pods", remedy="pip install 'cloister[solid]'"
        ) from None
    return jwk
