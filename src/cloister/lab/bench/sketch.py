"""Sketches at CS-F-LTR's size: building, the noisy release, queries, memory and cover rates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.lab.bench import Advance, Figures, timed
from cloister.lab.silos.zipf_corpus import ZipfCorpus, ZipfCorpusSettings, make_corpus
from cloister.measure.cover_rate import cover_rate
from cloister.measure.ranking import RankedRows
from cloister.privacy.mechanisms.aes_noise import AesWords
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.naive import Naive
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.release_planner import PlanFacts, dense_bytes, plan_release
from cloister.sketch.rtk_query import ReverseTop, RtkQuery
from cloister.sketch.rtk_sketch import RtkSketch
from cloister.sketch.sketched_counts import SketchedCounts

__all__ = ["measure", "run"]

K: Final = 150
N_QUERIES: Final = 1000
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0)
PAPER: Final = SketchShape(n_rows=30, n_columns=200)
PLAIN: Final = SketchShape(n_rows=5, n_columns=1200)
CELL_SIZE: Final = 750  # alpha 5 times K
TEXT_LIKE: Final = 0.3  # share of topical tokens with about as many distinct terms as in text


def run(advance: Advance) -> Figures:
    """Measure at 36,400 documents of about 1,000 tokens, bursty ones and such as text has."""
    bursty = ZipfCorpusSettings()
    n = _n_steps(EPSILONS)
    figures = measure(bursty, lambda done, _: advance(done, 2 * n))
    text_like = bursty.model_copy(update={"burst_share": TEXT_LIKE})
    other = measure(text_like, lambda done, _: advance(n + done, 2 * n))
    kept = {name: value for name, value in other.items() if _tells_of_the_corpus(name)}
    return figures | {f"text_like_{name}": value for name, value in kept.items()}


def _tells_of_the_corpus(name: str) -> bool:
    return name.endswith("_cover") or name.startswith(("distinct", "median", "share"))


def _n_steps(epsilons: tuple[float, ...]) -> int:
    return 2 + 2 * len(epsilons)


def measure(
    settings: ZipfCorpusSettings,
    advance: Advance,
    *,
    k: int = K,
    n_queries: int = N_QUERIES,
    epsilons: tuple[float, ...] = EPSILONS,
) -> Figures:
    """Measure on one corpus, of any size."""
    _compile()
    corpus = make_corpus(settings)
    key = HashKey(bytes(range(32)))
    bench = _Bench(corpus, key, corpus.query_terms(n_queries, distinct=False), k)
    n_steps, figures = _n_steps(epsilons), bench.corpus_figures()
    advance(1, n_steps)
    for name, shape in (("paper_shape", PAPER), ("plain_shape", PLAIN)):
        figures |= bench.without_noise(name, shape)
    done = 2
    advance(done, n_steps)
    for epsilon in epsilons:
        facts = PlanFacts(
            epsilon=epsilon,
            documents=settings.documents,
            mean_length=settings.mean_length,
            memory_bytes=dense_bytes(settings.documents) // 8,
            k=k,
        )
        planned = plan_release(facts).settings
        paper = planned.model_copy(
            update={
                "n_rows": PAPER.n_rows,
                "n_columns": PAPER.n_columns,
                "cell_size": min(CELL_SIZE, settings.documents),
                "family": "narrowest",
            }
        )
        for name, one in (("planned", planned), ("paper_shape", paper)):
            figures |= bench.with_noise(f"{name}_epsilon_{epsilon:g}", one)
            done += 1
            advance(done, n_steps)
    return figures


class _Bench:
    """One corpus, its queries and their exact answers."""

    def __init__(self, corpus: ZipfCorpus, key: HashKey, terms: list[str], k: int) -> None:
        self.corpus, self.key, self.terms, self.k = corpus, key, terms, k
        self.exact = {term: corpus.exact_counts(term) for term in terms}

    def corpus_figures(self) -> Figures:
        counts = self.corpus.counts
        kth = [float(np.partition(self.exact[term], -self.k)[-self.k]) for term in self.terms]
        return {
            "documents": counts.n_documents,
            "tokens_per_document": counts.n_tokens / counts.n_documents,
            "distinct_terms_per_document": len(counts.terms) / counts.n_documents,
            "median_count_at_rank_k": float(np.median(kth)),
            "share_of_queries_with_count_at_rank_k_below_3": float(np.mean(np.array(kth) < 3)),
        }

    def without_noise(self, name: str, shape: SketchShape) -> Figures:
        """Build and query, beside NAIVE."""
        counts = self.corpus.counts
        with timed() as hashing:
            hashed = self.key.hash_terms(counts.vocabulary, shape)
        with timed() as building:
            sketch = RtkSketch.build(counts, hashed, cell_size=min(CELL_SIZE, counts.n_documents))
        naive = Naive(counts, hashed)
        asked = self.key.hash_terms(self.terms, shape)
        query = RtkQuery(sketch.lists, shape, counts.n_documents)
        alone = [
            asked._replace(columns=asked.columns[i : i + 1], signs=asked.signs[i : i + 1])
            for i in range(asked.n_terms)
        ]
        found, times = _asked(lambda term: query.top(alone[term], self.k), asked.n_terms)
        scanned, scans = _asked(lambda term: naive.top(alone[term], self.k), asked.n_terms)
        return {
            f"{name}_hash_s": hashing.cpu_s,
            f"{name}_build_s": building.cpu_s,
            f"{name}_build_wall_s": building.wall_s,
            f"{name}_bytes": sketch.size_bytes,
            f"{name}_dense_bytes": naive.size_bytes,
            f"{name}_query_ms": float(np.median(times)) * 1e3,
            f"{name}_naive_query_ms": float(np.median(scans)) * 1e3,
            f"{name}_times_faster_than_naive": float(np.median(scans) / np.median(times)),
            f"{name}_cover": self._cover(found),
            f"{name}_naive_cover": self._cover(scanned),
        }

    def with_noise(self, name: str, settings: NoisyReleaseSettings) -> Figures:
        """Make a release with noise from AES, and query it."""
        with timed() as making:
            release = make_release(self.corpus.counts, self.key, settings, words=AesWords())
        source = SketchedCounts(release, self.key)
        found, times = _asked(lambda term: source.top(self.terms[term], self.k), len(self.terms))
        return {
            f"{name}_rows": settings.n_rows,
            f"{name}_columns": settings.n_columns,
            f"{name}_lists": settings.cell_size,
            f"{name}_laplace": float(release.cells.family == "discrete-laplace"),
            f"{name}_sigma": release.cells.sigma,
            f"{name}_true_epsilon": release.epsilon(),
            f"{name}_release_s": making.cpu_s,
            f"{name}_release_wall_s": making.wall_s,
            f"{name}_bytes": release.size_bytes,
            f"{name}_query_ms": float(np.median(times)) * 1e3,
            f"{name}_cover": self._cover(found),
        }

    def _cover(self, found: NDArray[np.int32]) -> float:
        """Return the mean cover rate; documents that tie for the last places count as covered."""
        n = self.corpus.counts.n_documents
        rates = []
        for term, documents in zip(self.terms, found, strict=True):
            rows = RankedRows(documents.astype(np.int64), np.array([0, len(documents)]))
            rates.append(cover_rate(rows, self.exact[term], [0, n], k=self.k)[0])
        return float(np.mean(rates))


def _asked(
    top: Callable[[int], ReverseTop], n_terms: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Ask for one term after the other; return what was found and the seconds of each."""
    found = []
    seconds = np.empty(n_terms)
    for term in range(n_terms):
        begin = time.perf_counter()
        answer = top(term)
        seconds[term] = time.perf_counter() - begin
        found.append(answer.documents[0])
    return np.array(found, np.int32), seconds


def _compile() -> None:
    """Compile the kernels before anything is timed."""
    tiny = ZipfCorpusSettings(documents=20, mean_length=10, vocabulary=300)
    corpus = make_corpus(tiny)
    bench = _Bench(corpus, HashKey(bytes(32)), corpus.query_terms(2), 2)
    bench.without_noise("tiny", SketchShape(n_rows=3, n_columns=10))
    bench.with_noise("tiny", NoisyReleaseSettings(n_rows=2, n_columns=10, cell_size=5, epsilon=1.0))
