"""A server of a private index in a process of its own: its times, on one core and over HTTP.

`time_requests` runs in a fresh process, which this module's other functions start: it must import
nothing that needs torch or LightGBM, and says what it has imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.model_box import ModelBox
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.query_opening import open_model
from cloister.cloud.rank_request import RankAnswer, RankRequest
from cloister.cloud.server import PrivateIndexServer, score_trace
from cloister.cloud.server_kernel import weighted_sums
from cloister.core.errors import StoreError
from cloister.privacy.private_file import read_private_file, write_private_file

__all__ = ["ServedTimes", "serve_fresh", "time_requests"]

WHERE: Final = "bench neural"
TRAINERS: Final = ("torch", "lightgbm", "gensim")  # no server needs them
ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                     "NUMBA_NUM_THREADS")  # fmt: skip

Floats = NDArray[np.float64]


class ServedTimes(NamedTuple):
    """CPU milliseconds by step, each [round, query], and the answers.

    Parameters
    ----------
    steps
        ``parse``: the request from JSON; ``rank``: from a request to an answer; ``write``: the
        answer to JSON. Parts of a ranking are then asked for apart: ``open`` (finding, opening and
        reading boxes), ``score``, ``score_without_trees``, ``layer``.
    answers
        To the queries.
    index_opening_ms
        Mapping and checking the file, by the clock.
    """

    steps: dict[str, Floats]
    answers: list[RankAnswer]
    index_opening_ms: float

    @property
    def parts(self) -> dict[str, Floats]:
        """Milliseconds of the parts of a ranking, which add up to it.

        ``trees`` is the difference that they make, ``gather`` what is left of scoring: finding the
        candidates, their levels and their codes. ``sort`` is the rest: order and names.
        """
        steps = self.steps
        trees = steps["score"] - steps["score_without_trees"]
        return {
            "open": steps["open"],
            "gather": steps["score"] - trees - steps["layer"],
            "trees": trees,
            "layer": steps["layer"],
            "sort": steps["rank"] - steps["open"] - steps["score"],
        }


def serve_fresh(
    index: Path, requests: Sequence[RankRequest], warming: RankRequest, n_rounds: int
) -> ServedTimes:
    """Let a fresh process on one core rank by an index; the folder of the index takes the requests.

    Raises
    ------
    StoreError
        If the process fails, or has imported what a server must not need.
    """
    asked = index.with_suffix(".requests")
    lines = [request.to_json() for request in (warming, *requests)]
    write_private_file(asked, b"\n".join(lines))
    code = f"import sys; from {__name__} import time_requests; time_requests(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(index), str(asked), str(n_rounds)]
    alone = os.environ | dict.fromkeys(ONE_THREAD, "1")
    done = subprocess.run(command, capture_output=True, text=True, env=alone, check=False)
    if done.returncode:
        raise StoreError(f"the server's process failed: {done.stderr[-500:]}", where=WHERE)
    told = json.loads(done.stdout)
    if told["trainers"]:
        raise StoreError(f"the server imports {', '.join(told['trainers'])}", where=WHERE)
    return ServedTimes(
        {name: np.array(values) for name, values in told["steps"].items()},
        [RankAnswer.from_json(answer.encode()) for answer in told["answers"]],
        told["index_opening_ms"],
    )


def time_requests(index: str, requests: str, n_rounds: str) -> None:
    """Rank the requests of a file on one core and write times and answers to standard output.

    The first request of the file compiles the kernels; its times are not told.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    begin = time.perf_counter()
    server = PrivateIndexServer(PrivateIndex.open(index))
    opening_ms = (time.perf_counter() - begin) * 1e3
    warming, *asked = read_private_file(requests).split(b"\n")
    _Timer(server, warming).run(warming)
    timer = _Timer(server, warming)
    for _ in range(int(n_rounds)):
        answers = [timer.run(request) for request in asked]
    times = {name: np.reshape(found, (-1, len(asked))) for name, found in timer.steps.items()}
    told = {
        "trainers": [name for name in TRAINERS if name in sys.modules],
        "index_opening_ms": opening_ms,
        "steps": {name: found.tolist() for name, found in times.items()},
        "answers": [answer.decode() for answer in answers],
    }
    sys.stdout.write(json.dumps(told))


class _Timer:
    """Takes a server's work apart; each step is a call of its own."""

    def __init__(self, server: PrivateIndexServer, request: bytes) -> None:
        self._server = server
        self._model = open_model(server.index, RankRequest.from_json(request).model)
        self._bare = _without_trees(self._model)
        self.steps: dict[str, list[float]] = {}

    def run(self, content: bytes) -> bytes:
        """Answer a request, timing each step, and return the answer."""
        request = self._timed("parse", lambda: RankRequest.from_json(content))
        answer = self._timed("rank", lambda: self._server.rank(request))
        written: bytes = self._timed("write", answer.to_json)
        trace = self._timed("open", lambda: self._server.trace(request))
        documents = trace.documents if trace.candidates is None else trace.candidates
        self._timed("score", lambda: score_trace(self._model, trace, documents))
        self._timed("score_without_trees", lambda: score_trace(self._bare, trace, documents))
        phi, scores = np.ones((len(documents), len(self._model.weights))), np.empty(len(documents))
        layer = self._model.weights, self._model.bias
        self._timed("layer", lambda: weighted_sums(phi, *layer, scores))
        return written

    def _timed(self, step: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time_ns()
        made = work()
        self.steps.setdefault(step, []).append((time.process_time_ns() - begin) / 1e6)
        return made


def _without_trees(model: ModelBox) -> ModelBox:
    """Return a model whose forests ask for the same codes and have no tree."""
    none = np.empty(0, np.int32)
    forests = [one._replace(forest=replace(one.forest, roots=none)) for one in model.forests]
    return replace(model, forests=tuple(forests))
