"""Search through a real broker: 20 nodes on loopback with TLS, nkeys, seals and verified tokens.

Each node serves an index of its own; the nodes share a few processes, and the one that is stopped
and killed has a process to itself. Every search asks all nodes twice: what they have, and for
documents. The same searches in one process, without a broker, are the peer, and must find the same.
Texts are not read: there are no snippets. Times are of the clock and CPU of all threads; where
others share the cores, times grow: the load is among the figures.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import MissingDependency, StoreError
from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.shard import IndexedDocument, Shard
from cloister.lab.bench import Advance, Figures
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.nats_broker import broker_configuration, create_nkey
from cloister.pods.overlay.nats_connection import NatsSettings
from cloister.pods.overlay.nats_node_service import NatsNodeService
from cloister.pods.overlay.nats_overlay import NatsOverlay
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TokenVerifier, TrustedIssuer
from cloister.pods.search_server import SearchServer
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.private_file import read_private_file, write_private_file
from cloister.search.node import SearchNode
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import (
    Searcher,
)
from cloister.search.shard_node import ShardNode

__all__ = ["OverlaySize", "find_broker", "measure", "run", "serve_nodes"]

FEDERATION: Final = "bench"
ISSUER: Final = "https://id.clinic.example/"
AGENTS: Final = "https://clinic.example/"
HOST: Final = "127.0.0.1"
ACCESS_PERCENT: Final = 25
TIMEOUT_S: Final = 1.0  # of one round of requests
PATIENCE_S: Final = 120.0  # while kernels are compiled
N_WARM: Final = 20
S: Final = 5  # servers that are asked for documents, in the paper's middle setting
OUTSIDE_PATH: Final = "/usr/sbin:/usr/local/sbin"  # where Debian puts it


class OverlaySize(NamedTuple):
    """How much is measured."""

    n_servers: int = 20
    n_pods: int = 200  # of each server, with one document each
    n_searches: int = 300
    n_processes: int = 2  # for all nodes but one


def run(advance: Advance) -> Figures:
    """Measure at the full size."""
    return measure(OverlaySize(), advance)


def measure(size: OverlaySize, advance: Advance) -> Figures:
    """Build the indexes, start broker and nodes, search, and take a node away."""
    program = find_broker()
    world = ClinicWorld(
        ClinicSettings(servers=size.n_servers, pods=size.n_pods, queries=size.n_searches + N_WARM)
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="cloister-bench-")))
        shards = [stack.enter_context(shard) for shard in _build(world, folder)]
        advance(1, 5)
        scene = _Scene(folder, shards)
        broker = stack.enter_context(_child([program, "-c", str(scene.broker_file())]))
        _wait_for(broker, scene.port)
        groups = _groups(scene.names, size.n_processes)
        nodes = [stack.enter_context(scene.node_process(group)) for group in groups]
        overlay = stack.enter_context(NatsOverlay(scene.nats("searcher"), scene.directory))
        advance(2, 5)
        reader = world.search_parties[[*world.settings.access].index(ACCESS_PERCENT)].reader
        bench = _Bench(world, scene, reader)
        through = bench.through_broker(overlay, broker, nodes)
        advance(3, 5)
        figures = bench.compared(through, shards)
        advance(4, 5)
        figures |= bench.without_one(overlay, nodes[-1])
        advance(5, 5)
    return {**size._asdict(), "access_percent": ACCESS_PERCENT} | figures


def find_broker() -> str:
    """Return the path of the broker's program."""
    found = shutil.which("nats-server") or shutil.which("nats-server", path=OUTSIDE_PATH)
    if found is None:
        raise MissingDependency(
            "nats-server is not installed",
            where="bench overlay",
            remedy="install the package nats-server, or put the program on PATH",
        )
    return found


def serve_nodes(path: str) -> None:
    """Serve the nodes that a file describes until standard input ends; say when all listen."""
    setup = json.loads(read_private_file(path))
    tokens = TokenVerifier([TrustedIssuer(**setup["issuer"])])
    with ExitStack() as stack:
        for node in setup["nodes"]:
            name = ServerId(node["server_id"])
            shard = Shard.open(node["folder"], server_id=name, create=False)
            identity = SigningIdentity.from_private_bytes(bytes.fromhex(node["identity"]))
            server = _server(stack.enter_context(shard))
            settings = NatsSettings(**node["nats"])
            stack.enter_context(NatsNodeService(server, identity, tokens, settings))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


class _Scene:
    """Keys, names and files of a federation in one folder."""

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._folder = folder
        self.names = [shard.server_id for shard in shards]
        self.port = _free_port()
        self.issuer = TokenIssuer(ISSUER, FEDERATION, "key-1")
        self.trusted = TrustedIssuer(
            issuer=ISSUER,
            keys=self.issuer.public_keys(),
            audience=FEDERATION,
            agent_prefixes=(AGENTS,),
        )
        self._identities = {name: SigningIdentity.generate() for name in self.names}
        self.directory = Directory({name: one.public for name, one in self._identities.items()})
        self._nkeys = {
            name: create_nkey(folder / f"{name}.seed") for name in ("searcher", *self.names)
        }
        _write_certificate(folder)

    def broker_file(self) -> Path:
        """Write the broker's configuration."""
        file = self._folder / "broker.conf"
        text = broker_configuration(
            federation=FEDERATION,
            address=f"{HOST}:{self.port}",
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
            servers=(f"tls://{HOST}:{self.port}",),
            federation=FEDERATION,
            ca_file=self._folder / "broker.pem",
            nkey_seed_file=self._folder / f"{name}.seed",
        )

    def credential(self, reader: Reader) -> Credential:
        """Return a token with its key, for the time of the benchmark."""
        holder = new_holder_key()
        token = self.issuer.issue(reader.agent_id, holder, lifetime_s=3_600.0)
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
        code = "import sys; from cloister.lab.bench.overlay import serve_nodes; "
        with _child([sys.executable, "-c", code + "serve_nodes(sys.argv[1])", str(path)]) as child:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                raise StoreError("a node's process did not start", where="bench overlay")
            yield child


class _Timed(NamedTuple):
    """Searches with their times."""

    outcomes: list[SearchOutcome]
    times_s: list[float]

    def figures(self, name: str) -> Figures:
        """Return median and 95th percentile."""
        found = np.quantile(self.times_s, (0.5, 0.95)) * 1e3
        return {f"{name}_p50_ms": float(found[0]), f"{name}_p95_ms": float(found[1])}


class _Bench:
    """The searches of one reader."""

    def __init__(self, world: ClinicWorld, scene: _Scene, reader: Reader) -> None:
        texts = [query.text for query in world.queries]
        self._warming, self._texts = texts[:N_WARM], texts[N_WARM:]
        self._scene = scene
        self._credential = scene.credential(reader)

    def through_broker(
        self,
        overlay: NatsOverlay,
        broker: subprocess.Popen[bytes],
        nodes: Sequence[subprocess.Popen[bytes]],
    ) -> tuple[_Timed, Figures]:
        """Search all nodes, then the best few of them."""
        searcher = self._warm(overlay.nodes(self._credential))
        load = os.getloadavg()[0]
        before = _cpu_s([broker]), _cpu_s(nodes), time.process_time()
        found = _searched(searcher, self._texts)
        after = _cpu_s([broker]), _cpu_s(nodes), time.process_time()
        cpu = {
            f"nats_{name}_cpu_ms_per_search": (b - a) / len(self._texts) * 1e3
            for name, a, b in zip(("broker", "nodes", "searcher"), before, after, strict=True)
        }
        with NatsOverlay(self._scene.nats("searcher"), self._scene.directory) as fresh:
            nodes_again = fresh.nodes(self._credential)  # whose answers nobody has kept
            few = self._warm(nodes_again, SearchSettings(n_servers=S))
            some = _searched(few, self._texts)
        return found, {
            "different_queries": len(set(self._texts)),
            **found.figures("nats"),
            **cpu,
            **some.figures(f"nats_{S}_servers"),
            "searches_with_missing_nodes": sum(bool(one.missing) for one in found.outcomes),
            "load_1_min": load,
        }

    def compared(self, through: tuple[_Timed, Figures], shards: Sequence[Shard]) -> Figures:
        """Search in this process, and count where something else is found."""
        found, figures = through
        servers = [_server(shard) for shard in shards]
        with InProcessOverlay(servers, TokenVerifier([self._scene.trusted])) as overlay:
            direct = _searched(self._warm(overlay.nodes(self._credential.token)), self._texts)
        differ = [a != b for a, b in zip(found.outcomes, direct.outcomes, strict=True)]
        return {**figures, **direct.figures("in_process"), "searches_that_differ": sum(differ)}

    def without_one(self, overlay: NatsOverlay, last: subprocess.Popen[bytes]) -> Figures:
        """Stop a node, let it go on, then kill it; say when the answer came, and who was named."""
        searcher = self._warm(overlay.nodes(self._credential))
        last.send_signal(signal.SIGSTOP)
        stopped = _searched(searcher, self._texts[:1])
        last.send_signal(signal.SIGCONT)
        end_s = time.monotonic() + PATIENCE_S
        while _searched(searcher, self._texts[:1]).outcomes[0].missing:
            if time.monotonic() > end_s:
                raise StoreError("a node did not come back", where="bench overlay")
        last.kill()
        last.wait()
        killed = _searched(searcher, self._texts[:1])
        return {
            "timeout_s": TIMEOUT_S,
            "stopped_node_answer_s": stopped.times_s[0],
            "stopped_node_missing": ", ".join(stopped.outcomes[0].missing),
            "killed_node_answer_s": killed.times_s[0],
            "killed_node_missing": ", ".join(killed.outcomes[0].missing),
        }

    def _warm(
        self, nodes: Sequence[SearchNode], settings: SearchSettings | None = None
    ) -> Searcher:
        """Return a searcher that knows nothing yet, of nodes that have answered others."""
        first = Searcher(nodes, None, settings, ask=ask_within(PATIENCE_S))
        _searched(first, self._warming)
        return Searcher(nodes, None, settings, ask=ask_within(TIMEOUT_S))


def _searched(searcher: Searcher, texts: Sequence[str]) -> _Timed:
    outcomes, times_s = [], []
    for text in texts:
        begin = time.perf_counter()
        outcomes.append(searcher.search(text))
        times_s.append(time.perf_counter() - begin)
    return _Timed(outcomes, times_s)


def _build(world: ClinicWorld, folder: Path) -> Iterator[Shard]:
    """Give the index of each server, with the records of its pods."""
    n = world.settings.pods
    for number, server in enumerate(world.servers):
        span = number * n, (number + 1) * n
        shard = Shard.open(folder / server.server_id, server_id=server.server_id)
        shard.add(
            IndexedDocument(pod.doc_id, pod.pod_id, document.text, pod.rights)
            for pod, document in zip(world.pods(*span), world.documents(*span), strict=True)
        )
        shard.commit()
        yield shard


def _server(shard: Shard) -> SearchServer:
    def open_node(reader: Reader) -> ShardNode:
        return ShardNode(shard.server_id, lambda: shard.view(reader), analysis=shard.analysis)

    return SearchServer(
        shard.server_id, open_node, version=lambda reader: shard.view(reader).version
    )


def _groups(names: Sequence[ServerId], n_processes: int) -> list[list[ServerId]]:
    """Spread servers over processes; the last one has a process to itself."""
    groups = [list(names[:-1][first::n_processes]) for first in range(n_processes)]
    return [group for group in [*groups, list(names[-1:])] if group]


@contextmanager
def _child(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; it is ended by its id whatever happens."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def _wait_for(broker: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection((HOST, port), 1).close()
            return
        except OSError:
            if broker.poll() is not None:
                break
            time.sleep(0.05)
    raise StoreError("the broker did not start", where="bench overlay")


def _cpu_s(children: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return the CPU seconds that processes have had, in steps of the system's clock."""
    n_ticks = 0
    for child in children:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        n_ticks += int(fields[11]) + int(fields[12])  # utime and stime
    return n_ticks / os.sysconf("SC_CLK_TCK")


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
