"""Search over one index: building, size, and queries with rights and exact user statistics.

100,000 documents of about 200 words, three-term queries, readers who may read 10 and 50 per cent of
the documents, drawn at random. The peer is tantivy with a filter for the reader, on the same texts
in the same run. tantivy's scores are made with the statistics of all documents: df and N tell its
readers of what they may not read. Ours are exact over what may be read.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Reader, Rights
from cloister.index.reader_view import ReaderView
from cloister.index.shard import IndexedDocument, Shard
from cloister.lab.bench import Advance, Figures, timed
from cloister.lab.bench.search_corpus import SearchCorpus, make_search_corpus
from cloister.lab.bench.tantivy_index import TantivyIndex

__all__ = ["measure", "run"]

N_DOCUMENTS: Final = 100_000
N_QUERIES: Final = 1_000
SHARES: Final = {"reader_10": 0.1, "reader_50": 0.5}
K: Final = 10
N_ROUNDS: Final = 3  # of all queries; the median counts
SERVER: Final = ServerId("bench")

Queries = Sequence[tuple[str, ...]]
Masks = dict[str, NDArray[np.bool_]]


def run(advance: Advance) -> Figures:
    """Measure at the full size."""
    return measure(N_DOCUMENTS, N_QUERIES, advance)


def measure(n_documents: int, n_queries: int, advance: Advance) -> Figures:
    """Build both indexes, ask both the same queries."""
    corpus = make_search_corpus(n_documents, n_queries)
    rng = stream(7, "bench-search-rights")
    masks = {name: rng.random(n_documents) < share for name, share in SHARES.items()}
    _compile()
    advance(1, 4)
    with tempfile.TemporaryDirectory() as folder:
        figures = _ours(corpus, masks, Path(folder) / "ours")
        advance(3, 4)
        figures |= _tantivy(corpus, masks, Path(folder) / "tantivy")
    for name in SHARES:
        ours, peer = figures[f"{name}_queries_per_s"], figures[f"tantivy_{name}_queries_per_s"]
        figures[f"{name}_times_tantivy"] = ours / peer
    advance(4, 4)
    return {"documents": n_documents, "queries": n_queries} | figures


def _ours(corpus: SearchCorpus, masks: Masks, folder: Path) -> Figures:
    documents = [
        IndexedDocument(
            DocId(f"document-{number:06}"),
            PodId("pod"),
            text,
            Rights().grant(*(name for name, mask in masks.items() if mask[number])),
        )
        for number, text in enumerate(corpus.texts)
    ]
    with timed() as build, Shard.open(folder, server_id=SERVER) as shard:
        shard.add(documents)
        shard.commit()
    figures: Figures = {
        "build_documents_per_wall_s": len(documents) / build.wall_s,
        "build_cpu_s": build.cpu_s,
        "disk_mb": _size(folder) / 1e6,
    }
    with Shard.open(folder, server_id=SERVER) as shard:
        sizes = [segment.postings.size_bytes for segment in shard.snapshot().segments]
        figures["postings_and_lengths_mb"] = sum(sizes) / 1e6
        for name in masks:
            with timed() as opening:
                view = shard.view(Reader(AgentId(name))).level("document")
                view.best(("absent",), K)
            ask = partial(view.best, k=K)
            cold, warm = _speed(ask, corpus.queries, rounds=1), _speed(ask, corpus.queries)
            figures |= {
                f"{name}_view_wall_s": opening.wall_s,
                f"{name}_queries_per_s": warm.per_s,
                f"{name}_cold_queries_per_s": cold.per_s,
                f"{name}_median_ms": warm.median_ms,
                f"{name}_p95_ms": warm.p95_ms,
            }
        return figures | _hidden(shard)


def _hidden(shard: Shard) -> Figures:
    """How long a term takes that only others' documents hold, and one that nobody's do."""
    stranger = Reader(AgentId("stranger"))  # may read nothing, so every term is hidden
    snapshot = shard.snapshot()
    terms = {"hidden": snapshot.segments[0].postings.term(_most_common(shard)), "absent": "qqqq"}
    found = {}
    for kind, term in terms.items():
        times = []
        for _ in range(200):
            view = ReaderView(snapshot, stranger).level("document")
            _ = view.lengths
            start = time.perf_counter()
            view.best((term,), K)
            times.append(time.perf_counter() - start)
        found[f"first_query_{kind}_term_ms"] = float(np.median(times)) * 1e3
    return found


def _most_common(shard: Shard) -> int:
    return int(np.argmax(shard.snapshot().segments[0].postings.frequencies))


def _tantivy(corpus: SearchCorpus, masks: Masks, folder: Path) -> Figures:
    folder.mkdir()
    readers = [
        [name for name, mask in masks.items() if mask[number]]
        for number in range(len(corpus.texts))
    ]
    index = TantivyIndex(folder)
    with timed() as build:
        index.build(corpus.texts, readers)
    figures: Figures = {
        "tantivy_build_documents_per_wall_s": len(corpus.texts) / build.wall_s,
        "tantivy_disk_mb": _size(folder) / 1e6,
    }
    for name in masks:
        speed = _speed(partial(index.top, reader=name, k=K), corpus.queries)
        figures[f"tantivy_{name}_queries_per_s"] = speed.per_s
        figures[f"tantivy_{name}_median_ms"] = speed.median_ms
    return figures


class _Speed(NamedTuple):
    per_s: float
    median_ms: float
    p95_ms: float


def _speed(
    ask: Callable[[tuple[str, ...]], object], queries: Queries, *, rounds: int = N_ROUNDS
) -> _Speed:
    """Ask all queries one after the other on one thread, several times; take the median round."""
    totals, singles = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        for query in queries:
            start = time.perf_counter()
            ask(query)
            singles.append(time.perf_counter() - start)
        totals.append(time.perf_counter() - begin)
    return _Speed(
        len(queries) / float(np.median(totals)),
        float(np.median(singles)) * 1e3,
        float(np.quantile(singles, 0.95)) * 1e3,
    )


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _compile() -> None:
    """Build and ask a tiny index, so that compiling is not measured."""
    texts = ("cough fever", "fever rash")
    documents = [
        IndexedDocument(DocId(f"d{n}"), PodId("p"), text, Rights(public=True))
        for n, text in enumerate(texts)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Shard.open(Path(folder) / "tiny", server_id=SERVER) as shard,
    ):
        shard.add(documents)
        shard.commit()
        shard.view(Reader(AgentId("a"))).level("document").best(("fever",), 1)
    os.sync()
