"""Simulated interactions a second: FPDGD with linear and neural rankers, against a NumPy loop.

Everything is included but evaluation: drawing queries, scoring, drawing pages, clicks, gradients,
local steps, and the mean over clients. Data sets are larger than the processor's caches at
136 x 125, so the limit there is how fast memory can be read; it is measured in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import summing_kernel
from cloister.core.random import stream
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.data.ranking_data import RankingData
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.population import Population, Precision
from cloister.lab.bench import Advance, Figures, peak_memory_mb, timed
from cloister.lab.bench.numpy_pdgd import train_by_numpy_loop
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["run", "train_a_million"]

N_QUERIES: Final = 2_000
N_CLIENTS: Final = 1_000
SIZES: Final = ((46, 40), (136, 125))  # features x documents of a query, as MQ2007 and MSLR-WEB
N_LINEAR, N_MLP = 20, 4  # queries of a client in a round, by ranker
REPEATS: Final = 10  # the fastest counts: other programs can only slow a run down
A_MILLION: Final = 1_000_000


def run(advance: Advance) -> Figures:
    """Measure both sizes, threads, and a round of a million clients."""
    figures: Figures = {}
    n_steps = len(SIZES) + 1
    for done, (n_features, n_documents) in enumerate(SIZES, 1):
        figures |= _at_size(n_features, n_documents)
        advance(done, n_steps)
    figures |= _million()
    advance(n_steps, n_steps)
    return figures


def _at_size(n_features: int, n_documents: int) -> Figures:
    data = _data(n_features, n_documents)
    size = f"{n_features}x{n_documents}"
    linear = _per_core_s(data, "linear", N_LINEAR)
    half = _per_core_s(data, "linear", N_LINEAR, precision="half")
    mlp = _per_core_s(data, "mlp", N_MLP)
    numpy_loop = _numpy_per_core_s(data)
    limit = _reads_per_core_s(data)
    return {
        f"{size}_linear_interactions_per_core_s": linear,
        f"{size}_linear_half_precision_interactions_per_core_s": half,
        f"{size}_mlp64_interactions_per_core_s": mlp,
        f"{size}_numpy_loop_interactions_per_core_s": numpy_loop,
        f"{size}_linear_times_numpy_loop": linear / numpy_loop,
        f"{size}_memory_limit_interactions_per_core_s": limit,
        f"{size}_linear_share_of_memory_limit": linear / limit,
        f"{size}_half_precision_share_of_memory_limit": half / limit,
        f"{size}_linear_two_threads_times_one_wall": _speed_up(data, "linear", N_LINEAR),
        f"{size}_mlp64_two_threads_times_one_wall": _speed_up(data, "mlp", N_MLP),
    }


def _data(n_features: int, n_documents: int) -> RankingData:
    """Draw normal features and labels cut from a linear function of them."""
    rng = stream(1, "bench pdgd", n_features, n_documents)
    shape = (N_QUERIES * n_documents, n_features)
    features = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.5)
    signal = features @ rng.standard_normal(n_features, dtype=np.float32)
    labels = np.digitize(signal, np.quantile(signal, [0.5, 0.75, 0.9, 0.97])).astype(np.int8)
    return RankingData(features, labels, np.arange(N_QUERIES + 1) * n_documents)


def _first_round(
    data: RankingData, kind: str, n_queries: int, precision: Precision = "single"
) -> Callable[[], object]:
    """Return the first round of training as a function: every call begins untrained."""
    population = Population(
        iid(data, N_CLIENTS), click_model("navigational", 5), precision=precision
    )
    ranker = Ranker.initial(
        RankerSettings(kind="mlp" if kind == "mlp" else "linear", n_features=data.n_features),
        seed=1,
    )
    settings = FpdgdSettings(queries_per_round=n_queries)

    def work() -> object:
        return FPDGD(population, ranker, settings=settings, seed=1).step()

    work()  # compile, or load what was compiled
    return work


def _per_core_s(
    data: RankingData, kind: str, n_queries: int, precision: Precision = "single"
) -> float:
    work = _first_round(data, kind, n_queries, precision)
    return N_CLIENTS * n_queries / _fastest(work, threads=1, wall=False)


def _speed_up(data: RankingData, kind: str, n_queries: int) -> float:
    """Return the time of one thread over that of two, of the clock."""
    if vars(numba.config)["NUMBA_NUM_THREADS"] < 2:
        return float("nan")
    work = _first_round(data, kind, n_queries)
    one = _fastest(work, threads=1, wall=True)
    return one / _fastest(work, threads=2, wall=True)


def _fastest(work: Callable[[], object], *, threads: int, wall: bool) -> float:
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    seconds = []
    try:
        for _ in range(REPEATS):
            with timed() as timing:
                work()
            seconds.append(timing.wall_s if wall else timing.cpu_s)
    finally:
        numba.set_num_threads(before)
    return min(seconds)


def _numpy_per_core_s(data: RankingData) -> float:
    rng = stream(1, "bench pdgd", "numpy")
    table = click_model("navigational", 5).table(10)

    def work() -> None:
        train_by_numpy_loop(data, table, 250, 4, 0.1, rng)

    return 1000 / _fastest(work, threads=1, wall=False)


def _reads_per_core_s(data: RankingData) -> float:
    """Return how many queries' features one core can read a second, in random order."""
    queries = stream(1, "bench pdgd", "reads").integers(N_QUERIES, size=10_000)
    _read(data.features, data.offsets, queries[:1])
    return len(queries) / _fastest(
        lambda: _read(data.features, data.offsets, queries), threads=1, wall=False
    )


@summing_kernel
def _read(
    features: NDArray[np.float32], offsets: NDArray[np.int64], queries: NDArray[np.int64]
) -> float:
    total = np.float32(0.0)
    for query in queries:
        for row in range(offsets[query], offsets[query + 1]):
            x = features[row]
            for f in range(len(x)):
                total += x[f]
    return float(total)


def _million() -> Figures:
    """Compare a round of a million clients with one of ten thousand, each in a fresh process."""
    few, many = _in_fresh_process(10_000), _in_fresh_process(A_MILLION)
    return {
        "million_clients_one_query_peak_memory_mb": many["peak_mb"],
        "million_clients_one_query_interactions_per_core_s": many["per_core_s"],
        "ten_thousand_clients_peak_memory_mb": few["peak_mb"],
        "ten_thousand_clients_interactions_per_core_s": few["per_core_s"],
    }


def train_a_million(n_clients: int) -> None:
    """Train rounds of one query a client at 46 x 40; print speed and the most memory used."""
    data = _data(46, 40)
    population = Population(iid(data, n_clients), click_model("navigational", 5))
    ranker = Ranker.initial(RankerSettings(n_features=46))
    learner = FPDGD(population, ranker, settings=FpdgdSettings(queries_per_round=1), seed=1)
    learner.step()
    seconds = _fastest(learner.step, threads=1, wall=False)
    figures = {
        "per_core_s": n_clients / seconds,
        "peak_mb": peak_memory_mb(),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def _in_fresh_process(n_clients: int) -> dict[str, Any]:
    code = f"from cloister.lab.bench.pdgd import train_a_million; train_a_million({n_clients})"
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    figures: dict[str, Any] = json.loads(outcome.stdout)
    return figures
