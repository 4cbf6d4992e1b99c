"""A federation on loopback: a real broker with TLS and nkeys, and processes that serve nodes.

All keys are made anew, in one folder, and are good for the time of a benchmark.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from cloister.core.errors import MissingDependency, StoreError
from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.index.shard import Shard
from cloister.lab.bench.child_process import child_process
from cloister.pods.overlay.nats_broker import broker_configuration, create_nkey
from cloister.pods.overlay.nats_connection import NatsSettings
from cloister.pods.overlay.nats_node_service import NatsNodeService
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from cloister.pods.search_server import SearchServer
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.search.shard_node import ShardNode

__all__ = ["NatsFederation", "find_broker", "serve_nodes", "serving"]

FEDERATION: Final = "bench"
ISSUER: Final = "https://id.clinic.example/"
AGENTS: Final = "https://clinic.example/"
HOST: Final = "127.0.0.1"
OUTSIDE_PATH: Final = "/usr/sbin:/usr/local/sbin"  # where Debian puts it
WHERE: Final = "bench overlay"


def find_broker() -> str:
    """Return the path of the broker's program."""
    found = shutil.which("nats-server") or shutil.which("nats-server", path=OUTSIDE_PATH)
    if found is None:
        raise MissingDependency(
            "nats-server is not installed",
            where=WHERE,
            remedy="install the package nats-server, or put the program on PATH",
        )
    return found


class NatsFederation:
    """Keys, names and files of a federation in one folder."""

    def __init__(self, folder: Path, names: Sequence[ServerId]) -> None:
        self._folder = folder
        self.names = names
        self._port = _free_port()
        self._issuer = TokenIssuer(ISSUER, FEDERATION, "key-1")
        self.trusted = TrustedIssuer(
            issuer=ISSUER,
            keys=self._issuer.public_keys(),
            audience=FEDERATION,
            agent_prefixes=(AGENTS,),
        )
        self._identities = {name: SigningIdentity.generate() for name in self.names}
        self.directory = Directory({name: one.public for name, one in self._identities.items()})
        self._nkeys = {
            name: create_nkey(folder / f"{name}.seed") for name in ("searcher", *self.names)
        }
        _write_certificate(folder)

    @contextmanager
    def broker(self, program: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the broker; it listens when this begins."""
        with child_process([program, "-c", str(self._broker_file())]) as broker:
            _wait_for(broker, self._port)
            yield broker

    def _broker_file(self) -> Path:
        """Write the broker's configuration."""
        file = self._folder / "broker.conf"
        text = broker_configuration(
            federation=FEDERATION,
            address=f"{HOST}:{self._port}",
            certificate=self._folder / "broker.pem",
            private_key=self._folder / "broker.key",
            nodes={name: self._nkeys[name] for name in self.names},
            searchers=[self._nkeys["searcher"]],
        )
        file.write_text(text)
        return file

    def nats(self, name: str) -> NatsSettings:
        """Say how somebody reaches the broker."""
        return NatsSettings(
            servers=(f"tls://{HOST}:{self._port}",),
            federation=FEDERATION,
            ca_file=self._folder / "broker.pem",
            nkey_seed_file=self._folder / f"{name}.seed",
        )

    def credential(self, reader: Reader) -> Credential:
        """Return a token with its key, for the time of the benchmark."""
        holder = new_holder_key()
        token = self._issuer.issue(reader.agent_id, holder, lifetime_s=3_600.0)
        return Credential(token, holder)

    @contextmanager
    def node_process(self, names: Sequence[ServerId]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process that serves some nodes."""
        nodes = [
            {
                "server_id": name,
                "folder": str(self._folder / name),
                "identity": self._identities[name].private_bytes().hex(),
                "nats": self.nats(name).model_dump(mode="json"),
            }
            for name in names
        ]
        path = self._folder / f"{names[0]}.json"
        setup = {"issuer": self.trusted.model_dump(mode="json"), "nodes": nodes}
        write_private_file(path, json.dumps(setup).encode())
        code = f"import sys; from {__name__} import serve_nodes; serve_nodes(sys.argv[1])"
        with child_process([sys.executable, "-c", code, str(path)]) as child:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                raise StoreError("a node's process did not start", where=WHERE)
            yield child


def serve_nodes(path: str) -> None:
    """Serve the nodes that a file describes until standard input ends; say when all listen."""
    setup = json.loads(read_private_file(path))
    tokens = TokenVerifier([TrustedIssuer(**setup["issuer"])])
    with ExitStack() as stack:
        for node in setup["nodes"]:
            name = ServerId(node["server_id"])
            shard = Shard.open(node["folder"], server_id=name, create=False)
            identity = SigningIdentity.from_private_bytes(bytes.fromhex(node["identity"]))
            server = serving(stack.enter_context(shard))
            settings = NatsSettings(**node["nats"])
            stack.enter_context(NatsNodeService(server, identity, tokens, settings))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


def serving(shard: Shard) -> SearchServer:
    """Return what answers for a shard; texts are not read."""

    def open_node(reader: Reader) -> ShardNode:
        return ShardNode(shard.server_id, lambda: shard.view(reader), analysis=shard.analysis)

    return SearchServer(
        shard.server_id, open_node, version=lambda reader: shard.view(reader).version
    )


def _wait_for(broker: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            if broker.poll() is not None:
                break
            time.sleep(0.05)
    raise StoreError("the broker did not start", where=WHERE)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _write_certificate(folder: Path) -> None:
    """Write a certificate that vouches for itself, for an hour, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    now, hour = datetime.datetime.now(datetime.UTC), datetime.timedelta(hours=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - hour)
        .not_valid_after(now + hour)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private_file(folder / "broker.key", private)
    (folder / "broker.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
