"""Search across 475,000 pods on 50 servers: indexing for all users, then queries at S = 5.

The size is the ESPRESSO paper's; ``CLOISTER_BENCH_PODS`` is the number of pods a server, for a
smaller one. Indexes are kept in the cache: a build that was stopped goes on where it was. Minutes
are then those of the servers that this run built, and the figures say how many these were.

Servers are in this process, one after another on one thread. What a network would add is not here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.core.rights import Reader
from cloister.lab.bench import Advance, Figures, peak_memory_mb, timed
from cloister.lab.bench.process_memory import PeakOfChildren
from cloister.lab.espresso.federation import (
    Federation,
    build_federation,
    federation_folder,
    n_servers_there,
    open_federation,
)
from cloister.lab.espresso.federation_contents import (
    ACCESS,
    ANALYSIS,
    FederationSettings,
    sample_texts,
)
from cloister.lab.espresso.topic_queries import topic_queries
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode

__all__ = ["run"]

SIZE: Final = "CLOISTER_BENCH_PODS"
PAPER_PODS: Final = 9_500
N_SAMPLE: Final = 1_000  # documents from whose topics queries are made
N_SERVERS, N_PODS, K = 5, 5, 10
LIST_LENGTH: Final = 3  # documents in a list of the selector
WAYS: Final = ("entity", "best-impact")
ROUNDS: Final = 3  # through all queries


def run(advance: Advance) -> Figures:
    """Build what is missing, and search as readers of each access level."""
    settings = FederationSettings(servers=50, pods=_pods())
    folder = federation_folder(settings)
    figures = _build(settings, folder, advance)
    queries = _queries(settings)
    with timed() as opening:
        federation = open_federation(settings, folder)
    figures |= {"documents": federation.n_documents, "open_wall_s": opening.wall_s}
    for access in ACCESS:
        for way in WAYS:
            found = _searched(federation, federation.readers[access], way, queries)
            name = f"access_{access}_{way.replace('-', '_')}"
            figures |= {f"{name}_{key}": value for key, value in found.items()}
    federation.close()
    return figures | {"search_peak_memory_mb": peak_memory_mb()}


def _pods() -> int:
    given = os.environ.get(SIZE, str(PAPER_PODS))
    if not given.isdigit() or int(given) < 1:
        raise SettingsError(f"no number of pods: {given!r}", where=SIZE)
    return int(given)


def _build(settings: FederationSettings, folder: Path, advance: Advance) -> Figures:
    """Index the servers that are missing; memory is that of all processes at one time."""
    before = _n_bytes(folder)
    n_there = n_servers_there(settings, folder)
    workers = len(os.sched_getaffinity(0))
    with PeakOfChildren() as memory, timed() as building:
        build_federation(settings, folder, workers=workers, advance=advance)
    after = _n_bytes(folder)
    return {
        "pods": settings.servers * settings.pods,
        "servers_built": settings.servers - n_there,
        "build_wall_minutes": building.wall_s / 60,
        "build_peak_memory_mb": memory.peak_mb,
        "index_mb": after / 1e6,
        "index_mb_built": (after - before) / 1e6,
    }


def _n_bytes(folder: Path) -> int:
    """Return the bytes of all servers' indexes."""
    return sum(f.stat().st_size for f in folder.glob("server-*/*") if f.is_file())


def _queries(settings: FederationSettings) -> list[str]:
    texts = sample_texts(settings, N_SAMPLE, stream(1, "bench pods"))
    return [query.text for query in topic_queries(texts, analysis=ANALYSIS, seed=1)]


def _searched(
    federation: Federation, reader: Reader, way: str, queries: Sequence[str]
) -> dict[str, float]:
    """Time one reader's queries. The first one makes the views, where no query made them before.

    ``new`` are a query's first times, when its terms must be looked up; ``again`` the later ones.
    """
    nodes = [ShardNode(one.server_id, lambda s=one: s.view(reader)) for one in federation.shards]  # type: ignore[misc]
    settings = SearchSettings.model_validate(
        {"selection": way, "n_servers": N_SERVERS, "n_pods": N_PODS, "n_best": LIST_LENGTH}
    )
    searcher = Searcher(nodes, ANALYSIS, settings)
    times = np.array([[_seconds(searcher, query) for query in queries] for _ in range(ROUNDS)])
    new, again = 1e3 * times[0, 1:], 1e3 * times[1:].ravel()
    return {
        "first_query_ms": 1e3 * float(times[0, 0]),
        "new_query_median_ms": float(np.median(new)),
        "new_query_p95_ms": float(np.percentile(new, 95)),
        "again_median_ms": float(np.median(again)),
        "again_p95_ms": float(np.percentile(again, 95)),
    }


def _seconds(searcher: Searcher, query: str) -> float:
    start = time.perf_counter()
    searcher.search(query, k=K)
    return time.perf_counter() - start
