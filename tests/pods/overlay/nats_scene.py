"""A real broker on loopback, with certificates and nkeys made for the test."""

from __future__ import annotations

import datetime
import ipaddress
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cloister.core.ids import ServerId
from cloister.pods.overlay.nats_broker import broker_configuration, create_nkey
from cloister.pods.overlay.nats_connection import NatsSettings
from cloister.privacy.identity import Directory, SigningIdentity
from pods.overlay.overlay_scene import FEDERATION


def find_broker() -> str:
    found = shutil.which("nats-server") or shutil.which(
        "nats-server", path="/usr/sbin:/usr/local/sbin"
    )
    if found is None:
        pytest.skip("nats-server is not installed")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def write_certificates(folder: Path) -> None:
    """Write ca.pem, broker.pem and broker.key."""
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name("test authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - hour)
            .not_valid_after(now + hour)
        )

    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    ca = (
        builder("test authority", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    broker = (
        builder("broker", key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "broker.pem").write_bytes(broker.public_bytes(pem))
    (folder / "broker.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


class Federation:
    """Names, keys and settings of a federation with a broker."""

    def __init__(self, folder: Path, server_ids: Sequence[str]) -> None:
        self.folder = folder
        self.port = free_port()
        write_certificates(folder)
        self.identities = {ServerId(name): SigningIdentity.generate() for name in server_ids}
        self.directory = Directory({name: one.public for name, one in self.identities.items()})
        self.nkeys = {
            name: create_nkey(folder / f"node-{i}.seed") for i, name in enumerate(self.identities)
        }
        self._seeds = {name: folder / f"node-{i}.seed" for i, name in enumerate(self.identities)}
        self.searcher_nkey = create_nkey(folder / "searcher.seed")
        self._broker: subprocess.Popen[bytes] | None = None

    def settings(self, server_id: ServerId | None = None) -> NatsSettings:
        seed = self.folder / "searcher.seed" if server_id is None else self._seeds[server_id]
        return NatsSettings(
            servers=(f"tls://127.0.0.1:{self.port}",),
            federation=FEDERATION,
            ca_file=self.folder / "ca.pem",
            nkey_seed_file=seed,
            reconnect_wait_s=0.1,
        )

    def start_broker(self, extra_users: Sequence[dict[str, str]] = ()) -> None:
        text = broker_configuration(
            federation=FEDERATION,
            address=f"127.0.0.1:{self.port}",
            certificate=self.folder / "broker.pem",
            private_key=self.folder / "broker.key",
            nodes=self.nkeys,
            searchers=[self.searcher_nkey],
        )
        written = json.loads(text)
        written["authorization"]["users"] += extra_users
        configuration = self.folder / "broker.conf"
        configuration.write_text(json.dumps(written))
        log = self.folder / "broker.log"
        self._broker = subprocess.Popen(
            [find_broker(), "-c", str(configuration), "-l", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self._broker.poll() is not None:
                    break
                time.sleep(0.05)
        pytest.fail(log.read_text() if log.exists() else "the broker did not start")

    def stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.terminate()
            self._broker.wait(10)
            self._broker = None


@contextmanager
def running(folder: Path, server_ids: Sequence[str]) -> Iterator[Federation]:
    federation = Federation(folder, server_ids)
    federation.start_broker()
    try:
        yield federation
    finally:
        federation.stop_broker()
