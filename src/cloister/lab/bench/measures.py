"""nDCG@10 of many queries: ours against a plain NumPy loop and against ir_measures."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.data.ranking_data import RankingData
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.lab.bench import Advance, Figures, timed
from cloister.measure.named import evaluate

__all__ = ["run"]

N_QUERIES: Final = 10_000
N_PEER_QUERIES: Final = 1_000  # ir_measures takes minutes for all of them
REPEATS: Final = 10
NAME: Final = "nDCG@10"


def run(advance: Advance) -> Figures:
    """Score 10,000 queries of 125 documents on one thread."""
    data = FeaturesWorld(
        FeaturesSettings(queries=N_QUERIES, documents=125, features=2, spread=0)
    ).data()
    scores = stream(1, "bench measures").random(data.n_rows)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        evaluate(scores, data, [NAME])
        advance(1, 4)
        with timed() as ours:
            for _ in range(REPEATS):
                values = evaluate(scores, data, [NAME])[NAME]
    finally:
        numba.set_num_threads(threads)
    advance(2, 4)
    part = data.query_range(0, N_PEER_QUERIES)
    part_scores = scores[: part.n_rows]
    with timed() as loop:
        plain = _plain_loop(part_scores, part)
    advance(3, 4)
    run_, qrels = _as_dicts(part_scores, part)
    evaluator = _ir_measures_evaluator(qrels)
    with timed() as peer:
        found_values = {found.query_id: found.value for found in evaluator.iter_calc(run_)}
    theirs = np.array([found_values[query] for query in sorted(found_values)])
    advance(4, 4)
    found = ~np.isnan(values[:N_PEER_QUERIES])
    difference = np.abs(values[:N_PEER_QUERIES] - theirs)[found].max()
    ours_rate = REPEATS * N_QUERIES / ours.cpu_s
    return {
        "cloister_queries_per_core_s": ours_rate,
        "numpy_loop_queries_per_core_s": N_PEER_QUERIES / loop.cpu_s,
        "ir_measures_queries_per_core_s": N_PEER_QUERIES / peer.cpu_s,
        "times_faster_than_numpy_loop": ours_rate * loop.cpu_s / N_PEER_QUERIES,
        "times_faster_than_ir_measures": ours_rate * peer.cpu_s / N_PEER_QUERIES,
        "largest_difference_from_ir_measures": float(difference),
        "largest_difference_from_numpy_loop": float(
            np.nanmax(np.abs(values[:N_PEER_QUERIES] - plain))
        ),
    }


def _plain_loop(scores: NDArray[np.float64], data: RankingData) -> NDArray[np.float64]:
    values = np.full(data.n_queries, np.nan)
    discount = 1 / np.log2(np.arange(2, 12))
    for query in range(data.n_queries):
        rows = data.rows(query)
        gains = 2.0 ** data.labels[rows] - 1
        ideal = np.sort(gains)[::-1][:10]
        if ideal[0] > 0:
            best = gains[np.argsort(-scores[rows], kind="stable")[:10]]
            values[query] = best @ discount[: len(best)] / (ideal @ discount[: len(ideal)])
    return values


def _as_dicts(scores: NDArray[np.float64], data: RankingData) -> tuple[Any, Any]:
    run_: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for query in range(data.n_queries):
        rows = data.rows(query)
        names = [f"d{row}" for row in range(rows.start, rows.stop)]
        run_[f"{query:06}"] = dict(zip(names, scores[rows].tolist(), strict=True))
        qrels[f"{query:06}"] = dict(zip(names, data.labels[rows].tolist(), strict=True))
    return run_, qrels


def _ir_measures_evaluator(qrels: Any) -> Any:
    import ir_measures

    gains = {grade: 2**grade - 1 for grade in range(5)}
    return ir_measures.evaluator([ir_measures.nDCG(gains=gains) @ 10], qrels)
