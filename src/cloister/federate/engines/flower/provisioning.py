"""Keys, certificates and settings of a party: each makes its own, and only public ones travel."""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cloister.core.errors import DataError, NotFound, SettingsError, StoreError
from cloister.federate.engines.coordinator_file import CoordinatorFile
from cloister.federate.engines.flower.flower_folder import (
    FlowerFile,
    FlowerFolder,
    Invitation,
    Role,
)
from cloister.federate.engines.site_file import SiteFile
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.store.incoming import replace_file

__all__ = ["provision_coordinator", "provision_site", "renew_certificate"]

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 365
_SECRET_BYTES: Final = 32


def provision_coordinator(folder: FlowerFolder, file: Path, address: str) -> FlowerFolder:
    """Make the coordinator's folder: its signing key, a certificate for the SuperLink, settings."""
    CoordinatorFile.from_toml(file)
    host = _host(address)
    _new_folder(folder)
    folder.supernodes.mkdir()
    identity = SigningIdentity.generate()
    identity.save(folder.coordinator_key)
    authority = ec.generate_private_key(ec.SECP256R1())
    write_private_file(folder.ca_key, _pem(authority))
    folder.ca.write_bytes(_certificate(authority, authority, "", days=AUTHORITY_DAYS))
    _write_certificate(folder, authority, host)
    public = identity.public.hex()
    invitation = Invitation(address=address, coordinator_key=public, ca=folder.ca.read_text())
    folder.invitation.write_text(invitation.model_dump_json(indent=1) + "\n")
    _write_settings(folder, "coordinator", file, invitation)
    return folder


def provision_site(folder: FlowerFolder, file: Path, invitation: Path) -> Path:
    """Make a site's folder; return the public key that the coordinator needs."""
    site = SiteFile.from_toml(file)
    if site.signing_key is None:
        raise SettingsError(
            "replies are signed: the site needs a signing key",
            where=str(file),
            remedy="name the site's own key file as signing_key",
        )
    invited = _read_invitation(invitation)
    _new_folder(folder)
    key = ec.generate_private_key(ec.SECP384R1())
    write_private_file(
        folder.node_key,
        key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    )
    public = folder.path / f"{site.name}.pub"
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    folder.ca.write_text(invited.ca)
    _write_settings(folder, "site", file, invited)
    return public


def renew_certificate(folder: FlowerFolder) -> None:
    """Give the SuperLink a new key and certificate by the same authority; sites change nothing."""
    authority = load_pem_private_key(read_private_file(folder.ca_key), None)
    if not isinstance(authority, ec.EllipticCurvePrivateKey):
        raise DataError("not the authority's key", where=str(folder.ca_key))
    folder.certificate_key.unlink(missing_ok=True)
    _write_certificate(folder, authority, _host(folder.settings.address))


def _new_folder(folder: FlowerFolder) -> None:
    if folder.settings_file.exists():
        raise StoreError(
            "there is a Flower folder already",
            where=str(folder.path),
            remedy="choose another folder, or remove this one with its keys",
        )
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.running.mkdir(mode=0o700, exist_ok=True)
    write_private_file(folder.secret, secrets.token_bytes(_SECRET_BYTES))


def _write_settings(folder: FlowerFolder, role: Role, file: Path, invited: Invitation) -> None:
    """Write the settings last: with them the folder is complete."""
    place = Path(os.path.relpath(file.resolve(), folder.path.resolve()))
    settings = FlowerFile(
        role=role, file=place, address=invited.address, coordinator_key=invited.coordinator_key
    )
    replace_file(folder.settings_file, settings.to_toml().encode())


def _read_invitation(path: Path) -> Invitation:
    try:
        return Invitation.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path)) from None
    except ValueError:
        raise DataError("not an invitation", where=str(path)) from None


def _host(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise SettingsError("not host:port", where=address)
    return host.strip("[]")


def _write_certificate(
    folder: FlowerFolder, authority: ec.EllipticCurvePrivateKey, host: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    write_private_file(folder.certificate_key, _pem(key))
    folder.certificate.write_bytes(_certificate(authority, key, host, days=CERTIFICATE_DAYS))


def _certificate(
    authority: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    host: str,
    *,
    days: int,
) -> bytes:
    """Return a certificate for a host; for the authority itself where there is none."""
    now = datetime.datetime.now(datetime.UTC)
    public = authority.public_key()
    builder = (
        x509.CertificateBuilder()
        .issuer_name(_named("Cloister's SuperLink authority"))
        .subject_name(_named(host or "Cloister's SuperLink authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if host:
        builder = builder.add_extension(_names(host), critical=False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _names(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
