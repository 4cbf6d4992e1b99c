"""Certificates and lists of revoked ones as X.509 has them (RFC 5280)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.privacy.certificates.certificate_name import CertificateName, Host, checked_host
from cloister.web.callers import CALLER_SCHEME, SERVICES

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )

__all__ = [
    "Period",
    "Signer",
    "alternative_names",
    "leaf",
    "require_permitted",
    "revocation_list",
    "root",
    "subject",
]

_LOCAL_HOSTS: Final = ("localhost", "127.0.0.0/8", "::1/128")


class Period(NamedTuple):
    """From when until when something holds."""

    begins: datetime
    ends: datetime


class Signer(NamedTuple):
    """The authority: its certificate, and the key that it signs with."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def subject(name: CertificateName) -> x509.Name:
    """Return the subject; it has no common name, since clients may take one for a host."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = (
        (NameOID.ORGANIZATION_NAME, name.federation),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, str(name.role)),
        (NameOID.USER_ID, name.name),
    )
    return x509.Name([x509.NameAttribute(kind, text) for kind, text in parts])


def alternative_names(name: CertificateName, hosts: Iterable[Host]) -> x509.SubjectAlternativeName:
    """Return the URI of the name, and the hosts."""
    from cryptography import x509

    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(name.uri)]
    for host in hosts:
        names.append(x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host))
    return x509.SubjectAlternativeName(names)


def root(
    federation: str, key: EllipticCurvePrivateKey, period: Period, *, domains: Sequence[str] = ()
) -> x509.Certificate:
    """Return the authority's own certificate.

    It may sign no further authorities, and names of its own federation only; where domains are
    given, hosts in these and on the machine itself only.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    title = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, federation),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, f"{CALLER_SCHEME} authority"),
        ]
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _begun(title, key.public_key(), period).issuer_name(title)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    builder = builder.add_extension(_constraints(federation, domains), critical=True)
    return builder.add_extension(identifier, critical=False).sign(key, _sha256())


def leaf(
    signer: Signer,
    name: CertificateName,
    key: EllipticCurvePublicKey,
    period: Period,
    *,
    hosts: Iterable[Host] = (),
) -> x509.Certificate:
    """Return a certificate for a service or a person; services may answer with it, too."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if name.role in SERVICES:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = _begun(subject(name), key, period).issuer_name(signer.certificate.subject)
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(authority=False), True),
        (x509.ExtendedKeyUsage(purposes), False),
        (alternative_names(name, hosts), False),
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (_authority_identifier(signer), False),
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer.key, _sha256())


def require_permitted(authority: x509.Certificate, hosts: Iterable[Host]) -> None:
    """Refuse hosts for which the authority's own certificate leaves no room."""
    from cryptography import x509

    limits = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    permitted = limits.permitted_subtrees or []
    domains = [one.value for one in permitted if isinstance(one, x509.DNSName)]
    networks = [one.value for one in permitted if isinstance(one, x509.IPAddress)]
    for host in hosts:
        if isinstance(host, str):
            fits = not domains or any(host == one or host.endswith(f".{one}") for one in domains)
        else:
            fits = not networks or any(host in one for one in networks)  # type: ignore[operator]
        if not fits:
            raise SettingsError(
                "the authority may not name this host",
                where=str(host),
                remedy="choose a host in its domains, or make a new authority",
            )


def revocation_list(
    signer: Signer, number: int, period: Period, revoked: Iterable[tuple[int, datetime]]
) -> x509.CertificateRevocationList:
    """Return the list of revoked certificates, by serial number and time."""
    from cryptography import x509

    builder = x509.CertificateRevocationListBuilder(
        issuer_name=signer.certificate.subject,
        last_update=period.begins,
        next_update=period.ends,
    )
    builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    builder = builder.add_extension(_authority_identifier(signer), critical=False)
    for serial, moment in revoked:
        entry = x509.RevokedCertificateBuilder(serial, moment)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(signer.key, _sha256())


def _begun(
    title: x509.Name, key: EllipticCurvePublicKey, period: Period
) -> x509.CertificateBuilder:
    from cryptography import x509

    return x509.CertificateBuilder(
        subject_name=title,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=period.begins,
        not_valid_after=period.ends,
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_identifier(signer: Signer) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    return x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())


def _constraints(federation: str, domains: Sequence[str]) -> x509.NameConstraints:
    from cryptography import x509

    allowed: list[x509.GeneralName] = [x509.UniformResourceIdentifier(federation)]
    allowed += [_subtree(one) for one in (*domains, *_LOCAL_HOSTS) if domains]
    return x509.NameConstraints(permitted_subtrees=allowed, excluded_subtrees=None)


def _subtree(domain: str) -> x509.GeneralName:
    """Read a domain, an address or a network."""
    from cryptography import x509

    try:
        return x509.IPAddress(ip_network(domain))
    except ValueError:
        if "/" in domain:
            raise SettingsError("neither a domain nor a network", where=repr(domain)) from None
        return x509.DNSName(str(checked_host(domain)))


def _sha256() -> x509.base._AllowedHashTypes:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()
