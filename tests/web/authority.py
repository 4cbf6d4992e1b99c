"""A private authority for tests, made anew for each session."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cloister.web.tls import TlsFiles

_DAY = dt.timedelta(days=1)


class Authority:
    """Makes certificates and lists of revoked ones in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / "authority.pem"
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._revoked: list[int] = []
        self.revoked_path = folder / "revoked.pem"
        self.write_revoked()

    def issue(self, stem: str, *uris: str, dns: str = "localhost", days: float = 1.0) -> TlsFiles:
        """Write a key and a certificate for this machine with some URIs."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(dns), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem)])
        certificate = (
            self._builder(subject, key, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path, key_path = self.folder / f"{stem}.pem", self.folder / f"{stem}.key"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.touch(mode=0o600)
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return TlsFiles(
            certificate=path, key=key_path, authority=self.path, revoked=self.revoked_path
        )

    def revoke(self, files: TlsFiles) -> None:
        """Put a certificate on the list, which is replaced as a whole."""
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        self._revoked.append(certificate.serial_number)
        self.write_revoked()

    def write_revoked(self, days: float = 1.0) -> None:
        """Write the list of revoked certificates."""
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _DAY)
            .next_update(now + dt.timedelta(days=days))
        )
        for number in self._revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        text = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        aside = self.revoked_path.with_suffix(".new")
        aside.write_bytes(text)
        aside.replace(self.revoked_path)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float = 1.0
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + dt.timedelta(days=days))
        )
