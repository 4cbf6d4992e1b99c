"""Requests for a certificate: the private key stays where it was drawn.

A request is signed by its key, so that nobody can ask for a certificate for somebody else's key.
It does not show who asks: whoever signs it must have got it, or its fingerprint, from the right
people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.certificates.building import alternative_names, subject
from cloister.privacy.certificates.certificate_name import CertificateName, checked_host
from cloister.privacy.certificates.key_files import kept_key, replace_public_file

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

__all__ = ["CertificateRequest", "RequestFiles", "new_request", "read_request"]

MAX_REQUEST_BYTES: Final = 16_384


class RequestFiles(NamedTuple):
    """Where a request and its key lie."""

    request: Path
    key: Path
    fingerprint: str  # SHA-256 of the public key


class CertificateRequest(NamedTuple):
    """What a request asks for."""

    key: EllipticCurvePublicKey
    uris: tuple[str, ...]
    hosts: tuple[str, ...]
    fingerprint: str


def new_request(
    folder: str | Path, federation: str, role: str, name: str, *, hosts: Iterable[str] = ()
) -> RequestFiles:
    """Draw a key and write a request for a certificate for it.

    The key gets mode 0600. A key of that name that is there already is used again where no
    certificate lies beside it; else the request is refused.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    whom = CertificateName.checked(federation, role, name)
    named = [checked_host(host) for host in hosts]
    folder = Path(folder)
    require_no_certificate(folder, whom)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_path = folder / f"{whom.file_stem}.key"
    request_path = folder / f"{whom.file_stem}.csr"
    key = kept_key(key_path)
    builder = x509.CertificateSigningRequestBuilder(subject(whom))
    builder = builder.add_extension(alternative_names(whom, named), critical=False)
    request = builder.sign(key, SHA256())
    replace_public_file(request_path, request.public_bytes(Encoding.PEM))
    return RequestFiles(request_path, key_path, _fingerprint(key.public_key()))


def require_no_certificate(folder: Path, name: CertificateName) -> None:
    """Refuse to begin anew where a certificate lies."""
    path = folder / f"{name.file_stem}.pem"
    if path.exists():
        raise SettingsError(
            "there is a certificate already",
            where=str(path),
            remedy="renew it, or choose another folder for a new key",
        )


def read_request(pem: bytes) -> CertificateRequest:
    """Read a request that its own key signed; keys other than P-256 are refused."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

    try:
        if len(pem) > MAX_REQUEST_BYTES:
            raise ValueError
        request = x509.load_pem_x509_csr(pem)
        names = _alternative_names(request)
        key, signed = request.public_key(), request.is_signature_valid
    except (ValueError, TypeError, x509.DuplicateExtension):
        raise DataError("not a request for a certificate in PEM", where="request") from None
    if not signed:
        raise DataError("the request is not signed by its key", where="request")
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise DataError("not a P-256 key", where="request", remedy="make the request anew")
    hosts = (
        *names.get_values_for_type(x509.DNSName),
        *(str(one) for one in names.get_values_for_type(x509.IPAddress)),
    )
    uris = tuple(names.get_values_for_type(x509.UniformResourceIdentifier))
    return CertificateRequest(key, uris, hosts, _fingerprint(key))


def _alternative_names(
    request: x509.CertificateSigningRequest,
) -> x509.SubjectAlternativeName:
    from cryptography import x509

    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _fingerprint(key: EllipticCurvePublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    content = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(content).hexdigest()
