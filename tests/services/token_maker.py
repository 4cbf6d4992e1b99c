"""Tokens of every kind, right and wrong, signed by keys of the tests' own."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

NOW_S = 1_800_000_000.0


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now_s: float = NOW_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Maker:
    """An issuer that signs whatever it is asked to.

    Parameters
    ----------
    claims
        What its tokens say unless told otherwise.
    """

    def __init__(self, key: Key, algorithm: str, claims: dict[str, Any], key_id: str = "1") -> None:
        self.key, self.algorithm, self.claims, self.key_id = key, algorithm, claims, key_id

    def public(self, **changes: Any) -> dict[str, Any]:
        fields = {**self.key.as_dict(private=False), "kid": self.key_id, "use": "sig"}
        return {name: value for name, value in (fields | changes).items() if value is not None}

    def token(self, header: dict[str, Any] | None = None, key: Any = None, **changes: Any) -> str:
        """Sign the claims with changes; None leaves a claim or a header out."""
        claims = {name: v for name, v in (self.claims | changes).items() if v is not None}
        whole = {"alg": self.algorithm, "kid": self.key_id, "typ": "at+jwt"} | (header or {})
        whole = {name: value for name, value in whole.items() if value is not None}
        if whole["alg"] == "EdDSA":  # joserfc warns of the old name: sign as others do
            return signed_by_hand(whole, claims, ed25519(key or self.key))
        return jwt.encode(
            whole, claims, key or self.key, algorithms=[whole["alg"]], default_type=None
        )


def part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def signed_by_hand(
    header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes]
) -> str:
    """Sign what joserfc would not."""
    text = f"{part(header)}.{part(claims)}"
    signature = base64.urlsafe_b64encode(sign(text.encode())).rstrip(b"=").decode()
    return f"{text}.{signature}"


def ed25519(key: Key) -> Callable[[bytes], bytes]:
    return key.get_op_key("sign").sign  # type: ignore[no-any-return,attr-defined]


def new_key(algorithm: str) -> Key:
    if algorithm in ("RS256", "PS256"):
        return RSAKey.generate_key(2048, auto_kid=False)
    if algorithm == "ES256":
        return ECKey.generate_key("P-256", auto_kid=False)
    return OKPKey.generate_key("Ed25519", auto_kid=False)
