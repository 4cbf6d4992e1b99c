"""Proof of possession (DPoP, RFC 9449): a token is of use only with the key that it is bound to."""

from __future__ import annotations

import json
import secrets
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from cloister.pods.http_transport import sent_address

__all__ = ["DPoPKey"]

ALGORITHM: Final = "ES256"
_N_BYTES: Final = 32  # of a number of the curve


class DPoPKey:
    """A new key on P-256 that never leaves this process."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        point = self._key.public_key().public_numbers()
        key = {"kty": "EC", "crv": "P-256", "x": _number(point.x), "y": _number(point.y)}
        self._header = _part({"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": key})

    def proof(self, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
        """Return a proof for one request.

        Parameters
        ----------
        token
            The access token that the request carries; empty where one is asked for.
        nonce
            What the server asked to be told again; empty where it did not.
        """
        claims: dict[str, Any] = {
            "htm": method,
            "htu": sent_address(url).url.partition("?")[0],
            "iat": int(time.time()),
            "jti": secrets.token_urlsafe(16),
        }
        if token:
            claims["ath"] = _base64(sha256(token.encode()).digest())
        if nonce:
            claims["nonce"] = nonce
        signed = f"{self._header}.{_part(claims)}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(SHA256())))
        return f"{signed}.{_base64(r.to_bytes(_N_BYTES) + s.to_bytes(_N_BYTES))}"


def _part(fields: dict[str, Any]) -> str:
    return _base64(json.dumps(fields).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes(_N_BYTES))


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
