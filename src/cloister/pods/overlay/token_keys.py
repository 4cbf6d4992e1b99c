"""Public keys of issuers of tokens, and which algorithms each may be used with.

A key is used as its own kind demands, never as a token asks: ``none`` and shared secrets (HS256 and
its like) do not exist here, so that a public key cannot be taken for a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from cloister.core.errors import SettingsError

if TYPE_CHECKING:
    from joserfc.jwk import Key
    from joserfc.jws import JWSRegistry

__all__ = ["Algorithm", "fitting", "is_public", "read_keys", "registry_of"]

Algorithm = Literal["Ed25519", "EdDSA", "ES256", "PS256", "RS256"]
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192  # more only costs the node time
_MIN_MODULUS_CHARACTERS: Final = 342  # 2,048 bits in base64url
_OF_RSA: Final = ("RS256", "PS256")
_OF_CURVES: Final[Mapping[str, tuple[str, ...]]] = {
    "Ed25519": ("Ed25519", "EdDSA"),  # one algorithm, by its new and its old name (RFC 9864)
    "P-256": ("ES256",),
}


def read_keys(
    issuer: str, key_set: Mapping[str, Any], algorithms: Sequence[Algorithm]
) -> dict[str, Key]:
    """Read an issuer's JSON Web Key Set; private or shared keys are refused.

    Examples
    --------
    >>> read_keys("https://id.example/", {"keys": [{"kty": "oct", "k": "AAAA", "kid": "1"}]}, ())
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: https://id.example/: keys must be public, of a curve ...
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        listed = [_renamed(one) for one in key_set["keys"]]
        usable = all("kid" in one and is_public(one) for one in listed)
        keys = KeySet.import_key_set({"keys": listed}).keys if usable else []
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        raise SettingsError("not a JSON Web Key Set", where=issuer) from None
    if not usable or not all(key.kid and _may_sign(key, algorithms) for key in keys):
        raise SettingsError(
            "keys must be public, of a curve (or RSA where it is allowed), and have a kid",
            where=issuer,
        )
    found = {key.kid: key for key in keys if key.kid}
    if not found or len(found) != len(keys):
        raise SettingsError("no keys, or two with one kid", where=issuer)
    return found


def is_public(key: Mapping[str, Any]) -> bool:
    """Say whether a JSON Web Key is no shared secret, has no private half, and is long enough.

    Examples
    --------
    >>> is_public({"kty": "oct", "k": "AAAA"}), is_public({"kty": "OKP", "x": "..."})
    (False, True)
    """
    too_short = key.get("kty") == "RSA" and len(str(key.get("n"))) < _MIN_MODULUS_CHARACTERS
    return not too_short and key.get("kty") != "oct" and not {"d", "k"} & set(key)


def fitting(key: Key, algorithms: Sequence[Algorithm]) -> tuple[str, ...]:
    """Return those of some algorithms that a key may be used with."""
    fits = _OF_RSA if key.key_type == "RSA" else _OF_CURVES.get(str(key.as_dict().get("crv")), ())
    return tuple(name for name in algorithms if name in fits)


@lru_cache(maxsize=8)
def registry_of(algorithm: str) -> JWSRegistry:
    """Return where joserfc finds one algorithm, and no other."""
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=[algorithm])
    registry.algorithms = {algorithm: JWSRegistry.algorithms[_new_name(algorithm)]}
    return registry


def _may_sign(key: Key, algorithms: Sequence[Algorithm]) -> bool:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    if isinstance(key, RSAKey):
        fits = MIN_RSA_BITS <= key.raw_value.key_size <= MAX_RSA_BITS
        return fits and bool(set(_OF_RSA) & set(algorithms))
    return isinstance(key, (ECKey, OKPKey))


def _renamed(key: Mapping[str, Any]) -> dict[str, Any]:
    """Give a key's algorithm its new name."""
    return {name: _new_name(value) if name == "alg" else value for name, value in key.items()}


def _new_name(algorithm: Any) -> Any:
    return "Ed25519" if algorithm == "EdDSA" else algorithm
