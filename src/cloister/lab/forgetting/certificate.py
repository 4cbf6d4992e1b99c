"""A certificate of forgetting: what was done, signed by the federation that did it.

It shows that the holder of the federation's key states this, and that nobody changed it since. It
is no proof that the statement is true: a federation could keep a copy and say nothing. What a
client can test for itself is a mark of its own (:mod:`cloister.federate.canary`), where the
federation does not work against that test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from cloister.core.errors import DataError
from cloister.privacy.identity import SIGNATURE_BYTES, Directory, SigningIdentity

__all__ = ["certificate_digest", "signed_certificate", "verify_certificate"]

Certificate = dict[str, Any]

_PURPOSE: Final = b"certificate of forgetting"
_OWNER: Final = "federation"


def signed_certificate(content: Mapping[str, Any], identity: SigningIdentity) -> Certificate:
    """Return the content with the public key and a signature of both.

    Examples
    --------
    >>> identity = SigningIdentity.generate()
    >>> certificate = signed_certificate({"forgotten": ["client-9"]}, identity)
    >>> verify_certificate(certificate, identity.public)
    >>> verify_certificate(certificate | {"forgotten": ["client-8"]}, identity.public)
    Traceback (most recent call last):
    ...
    cloister.core.errors.AccessDenied: federation: the signature does not fit; ...
    """
    whole = {**content, "public_key": identity.public.hex()}
    return {**whole, "signature": identity.sign(_PURPOSE, _canonical(whole)).hex()}


def verify_certificate(certificate: Mapping[str, Any], public: bytes) -> None:
    """Raise unless the holder of this public key signed the certificate as it is.

    Parameters
    ----------
    certificate
        As `signed_certificate` made it, or as it was read from its JSON.
    public
        The federation's public key, from somebody who knows it: the one in the certificate is
        whatever its maker put there.
    """
    content = {name: value for name, value in certificate.items() if name != "signature"}
    try:
        signature = bytes.fromhex(certificate["signature"])
    except (KeyError, TypeError, ValueError):
        signature = b""
    if len(signature) != SIGNATURE_BYTES:
        raise DataError("there is no signature", where="certificate")
    Directory({_OWNER: public}).verify(_OWNER, _PURPOSE, _canonical(content), signature)


def certificate_digest(certificate: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a whole certificate, by which the next one refers to it."""
    return hashlib.sha256(_canonical(certificate)).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(dict(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot be written as JSON ({error})", where="certificate") from None
    return text.encode()
