"""Search through a real broker: 20 nodes on loopback with TLS, nkeys, seals and verified tokens.

Each node serves an index of its own; the nodes share a few processes, and the one that is stopped
and killed has a process to itself. Every search asks all nodes twice: what they have, and for
documents. The same searches in one process, without a broker, are the peer, and must find the same.
Texts are not read: there are no snippets. Times are of the clock and CPU of all threads; where
others share the cores, times grow: the load is among the figures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from cloister.core.errors import StoreError
from cloister.core.ids import ServerId
from cloister.core.rights import Reader
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.shard import IndexedDocument, Shard
from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.child_process import cpu_s_of
from cloister.lab.bench.nats_federation import WHERE, NatsFederation, find_broker, serving
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.nats_overlay import NatsOverlay
from cloister.pods.overlay.tokens import TokenVerifier
from cloister.search.node import SearchNode
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher

__all__ = ["OverlaySize", "measure", "run"]

ACCESS_PERCENT: Final = 25
TIMEOUT_S: Final = 1.0  # of one round of requests
PATIENCE_S: Final = 120.0  # while kernels are compiled
N_WARM: Final = 20
S: Final = 5  # servers that are asked for documents, in the paper's middle setting


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
        federation = NatsFederation(folder, [shard.server_id for shard in shards])
        broker = stack.enter_context(federation.broker(program))
        groups = _groups(federation.names, size.n_processes)
        nodes = [stack.enter_context(federation.node_process(group)) for group in groups]
        overlay = stack.enter_context(
            NatsOverlay(federation.nats("searcher"), federation.directory)
        )
        advance(2, 5)
        reader = world.search_parties[[*world.settings.access].index(ACCESS_PERCENT)].reader
        bench = _Bench(world, federation, reader)
        through = bench.through_broker(overlay, broker, nodes)
        advance(3, 5)
        figures = bench.compared(through, shards)
        advance(4, 5)
        figures |= bench.without_one(overlay, nodes[-1])
        advance(5, 5)
    return {**size._asdict(), "access_percent": ACCESS_PERCENT} | figures


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

    def __init__(self, world: ClinicWorld, federation: NatsFederation, reader: Reader) -> None:
        texts = [query.text for query in world.queries]
        self._warming, self._texts = texts[:N_WARM], texts[N_WARM:]
        self._federation = federation
        self._credential = federation.credential(reader)

    def through_broker(
        self,
        overlay: NatsOverlay,
        broker: subprocess.Popen[bytes],
        nodes: Sequence[subprocess.Popen[bytes]],
    ) -> tuple[_Timed, Figures]:
        """Search all nodes, then the best few of them."""
        searcher = self._warm(overlay.nodes(self._credential))
        load = os.getloadavg()[0]
        before = cpu_s_of([broker]), cpu_s_of(nodes), time.process_time()
        found = _searched(searcher, self._texts)
        after = cpu_s_of([broker]), cpu_s_of(nodes), time.process_time()
        cpu = {
            f"nats_{name}_cpu_ms_per_search": (b - a) / len(self._texts) * 1e3
            for name, a, b in zip(("broker", "nodes", "searcher"), before, after, strict=True)
        }
        with NatsOverlay(self._federation.nats("searcher"), self._federation.directory) as fresh:
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
        servers = [serving(shard) for shard in shards]
        with InProcessOverlay(servers, TokenVerifier([self._federation.trusted])) as overlay:
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
                raise StoreError("a node did not come back", where=WHERE)
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


def _groups(names: Sequence[ServerId], n_processes: int) -> list[list[ServerId]]:
    """Spread servers over processes; the last one has a process to itself."""
    groups = [list(names[:-1][first::n_processes]) for first in range(n_processes)]
    return [group for group in [*groups, list(names[-1:])] if group]
