"""Private neural ranking: the server's time, the index's size, closures, private trees, building.

Queries are of three terms, with the 100 documents that BM25 ranks first. The server is a fresh
process on one core that imports neither torch nor LightGBM; its times are CPU milliseconds, and
the kernels are compiled and the file is in the system's cache. The peer ranks the same documents in
the clear: kernel features from the documents' vectors, tree features, LightGBM. Where others share
the cores, times grow: the load is among the figures.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.rank_request import RankAnswer
from cloister.cloud.served_features import ServedFeatures, served_scores
from cloister.lab.bench import Advance, Figures
from cloister.lab.bench.neural_closures import closure_figures
from cloister.lab.bench.neural_http import search_over_http
from cloister.lab.bench.neural_index import (
    BuiltScene,
    NeuralSize,
    RankedScene,
    ReRankedQuery,
    build,
    prepare,
)
from cloister.lab.bench.neural_serving import serve_fresh
from cloister.lab.bench.neural_storage import storage
from cloister.lab.bench.neural_trees import tree_figures
from cloister.rank.c_knrm_star import DocumentKernels
from cloister.rank.kernel_pooling import N_SOFT
from cloister.rank.query_kernels import QueryKernels
from cloister.rank.query_length_forests import TreeSignal
from cloister.rank.tree_features import TreeFeatures

__all__ = ["measure", "run"]

SAME: Final = 1e-9  # of the largest score of a query: floats are added up in two orders

Floats = NDArray[np.float64]


def run(advance: Advance) -> Figures:
    """Measure at the full size."""
    return measure(NeuralSize(), advance)


def measure(size: NeuralSize, advance: Advance) -> Figures:
    """Build an index, rank with it in every way, and measure closures and trees."""
    load = os.getloadavg()[0]
    closures = closure_figures(size.n_closed)
    advance(1, 6)
    scene = prepare(size)
    trees = tree_figures(scene.forests.common, size.n_random_rows)
    advance(2, 6)
    built, building = build(scene, lambda done, total: advance(2 * total + done, 6 * total))
    with TemporaryDirectory(prefix="cloister-bench-") as folder:
        index = Path(folder) / "index"
        built.index.write(index)
        serving = _served(built, index, size.n_rounds)
        advance(4, 6)
        over_http = search_over_http(built, index, n_rounds=size.n_rounds)
    advance(5, 6)
    figures = _described(scene) | serving | over_http | _peer(scene, size.n_rounds)
    figures |= storage(built) | building | closures | trees
    advance(6, 6)
    return figures | {"load_1_min_at_start": load, "load_1_min_at_end": os.getloadavg()[0]}


def _described(scene: RankedScene) -> Figures:
    texts = scene.collection.texts
    return {
        "collection": scene.collection.name,
        "vectors": scene.vectors,
        "filters": "untrained",
        "documents": texts.n_documents,
        "words": len(texts.vocabulary),
        "tokens_per_document": len(texts.terms) / texts.n_documents,
        "queries": len(scene.queries),
        "candidates": len(scene.queries[0].documents),
    }


def _served(built: BuiltScene, index: Path, n_rounds: int) -> Figures:
    """Time the server in its own process, and compare its scores with plain ones."""
    requests = [built.request(query) for query in built.scene.queries]
    warming = built.request(built.scene.warming)
    times = serve_fresh(index, requests, warming, n_rounds)
    later = slice(min(1, n_rounds - 1), None)  # all, where there is one round alone
    rank = times.steps["rank"]
    whole = rank + times.steps["parse"] + times.steps["write"]
    return {
        **_median_p95("server_rank", rank[later]),
        "server_rank_first_time_median_ms": float(np.median(rank[0])),
        **{f"server_{name}_median_ms": float(np.median(part[later]))
           for name, part in times.parts.items()},
        **_median_p95("server_with_json", whole[later]),
        "server_opens_index_wall_ms": times.index_opening_ms,
        "server_imports_torch_or_lightgbm": False,  # else there were no times
        "queries_with_other_scores": _differing(built, times.answers),
    }  # fmt: skip


def _median_p95(name: str, times: Floats) -> Figures:
    median, high = np.quantile(times, (0.5, 0.95))
    return {f"{name}_median_ms": float(median), f"{name}_p95_ms": float(high)}


def _differing(built: BuiltScene, answers: list[RankAnswer]) -> int:
    """Count queries with a score other than that of the plain ranker on what is served."""
    scene = built.scene
    texts, settings = scene.collection.texts, scene.ranker.settings
    trees = TreeFeatures(texts, scene.collection.priors, settings.features)
    served = ServedFeatures(_kernels(scene), trees, built.keys, settings)
    n_differ = 0
    for query, answer in zip(scene.queries, answers, strict=True):
        scores = served_scores(scene.ranker, served, query.terms, query.documents)
        wanted = np.full(texts.n_documents, np.nan)  # near nothing
        wanted[built.numbers[query.documents]] = scores
        off = np.abs(wanted[list(answer.documents)] - answer.scores)
        near = bool((off <= SAME * (1 + np.abs(scores).max())).all())
        n_differ += not near or set(answer.documents) != set(built.candidates(query))
    return n_differ


def _kernels(scene: RankedScene) -> DocumentKernels:
    texts = scene.collection.texts
    documents = [texts.document(number) for number in range(texts.n_documents)]
    return DocumentKernels.of(scene.ranker.neural, documents)


def _peer(scene: RankedScene, n_rounds: int) -> Figures:
    """Rank the same documents in the clear, in this process: nothing is hidden or made coarse."""
    texts, priors, ranker = scene.collection.texts, scene.collection.priors, scene.ranker
    kernels = QueryKernels(_kernels(scene))
    signal = TreeSignal(TreeFeatures(texts, priors, ranker.settings.features), scene.forests)

    def rank(query: ReRankedQuery) -> Floats:
        """Return the milliseconds of the three parts."""
        clock = [time.process_time()]
        soft = kernels.values(*query).features(N_SOFT)
        clock.append(time.process_time())
        trees = signal.exact_match_signal(*query)
        clock.append(time.process_time())
        ranker.layer.linear(np.column_stack([soft, trees]))
        clock.append(time.process_time())
        return np.diff(clock) * 1e3

    rank(scene.warming)
    times = np.array([rank(query) for query in scene.queries * n_rounds])
    medians = np.median(times, axis=0).tolist()
    parts = dict(zip(("kernels", "trees", "layer"), medians, strict=True))
    return _median_p95("peer_plain_rank", times.sum(axis=1)) | {
        f"peer_plain_{name}_median_ms": median for name, median in parts.items()
    }
