"""Private ranking over HTTP on loopback: the server as a program of its own, and its client."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from cloister.cloud.client import PrivateIndexClient
from cloister.cloud.http_client import HttpTransport
from cloister.cloud.rank_request import RankRequest
from cloister.core.errors import StoreError
from cloister.lab.bench import Figures
from cloister.lab.bench.child_process import child_process, cpu_s_of
from cloister.lab.bench.neural_index import BuiltScene, ReRankedQuery
from cloister.lab.bench.neural_serving import TRAINERS, WHERE
from cloister.privacy.private_file import write_private_file

__all__ = ["search_over_http"]

Asked = TypeVar("Asked")

N_WARM: Final = 5


def search_over_http(built: BuiltScene, index: Path, *, n_rounds: int) -> Figures:
    """Upload an index and ask the queries, one after the other over one connection.

    ``http`` is a request and its answer; ``search`` is that with the client's own work: labels and
    keys of the query's words, and opening the names of what was found.
    """
    token = secrets.token_hex(16)
    with _service(index.parent, token) as (service, address), HttpTransport(address, token) as way:
        client = PrivateIndexClient(built.dictionary, way)
        begin = time.perf_counter()
        client.upload(index)
        upload_s = time.perf_counter() - begin
        requests = [built.request(query) for query in built.scene.queries]

        def rank(request: RankRequest) -> None:
            way.rank(client.index_id, request)

        def search(query: ReRankedQuery) -> None:
            few = built.candidates(query)
            client.search_terms(query.terms, len(few), candidates=few)

        _wall_ms(search, [built.scene.warming], N_WARM)
        before = cpu_s_of([service])
        http_ms = _wall_ms(rank, requests, n_rounds)
        cpu_s = cpu_s_of([service]) - before
        search_ms = _wall_ms(search, built.scene.queries, n_rounds)
        _require_no_trainers(service)
    return {
        "upload_wall_s": upload_s,
        "http_median_wall_ms": float(np.median(http_ms)),
        "http_p95_wall_ms": float(np.quantile(http_ms, 0.95)),
        "http_server_mean_cpu_ms": cpu_s / len(http_ms) * 1e3,
        "search_median_wall_ms": float(np.median(search_ms)),
        "search_p95_wall_ms": float(np.quantile(search_ms, 0.95)),
        "request_bytes": float(np.mean([len(request.to_json()) for request in requests])),
    }


@contextmanager
def _service(folder: Path, token: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the server; it listens when this begins."""
    token_file = folder / "token"
    write_private_file(token_file, token.encode())
    command = [sys.executable, "-m", "cloister.cloud.http_service", str(folder / "indexes")]
    command += ["--token-file", str(token_file), "--port", "0"]
    with child_process(command) as service:
        line = service.stdout.readline() if service.stdout else b""
        if not line:
            raise StoreError(
                "the server did not start", where=WHERE, remedy="pip install 'cloister[cloud]'"
            )
        yield service, json.loads(line)["address"]


def _wall_ms(ask: Callable[[Asked], None], asked: Sequence[Asked], n_rounds: int) -> list[float]:
    times = []
    for one in list(asked) * n_rounds:
        begin = time.perf_counter()
        ask(one)
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def _require_no_trainers(service: subprocess.Popen[Any]) -> None:
    loaded = Path(f"/proc/{service.pid}/maps").read_text()
    if found := re.search("|".join(TRAINERS), loaded):
        raise StoreError(f"the server has loaded {found.group()}", where=WHERE)
