"""What publishing statistics safely costs: BM25 with published tables beside the user's own.

A user who may read a share of all pods searches all of it, with no choice of servers, so that the
tables alone make the difference. Two questions: how near is the ranking to BM25 with exact
statistics of what this user may read (the gold standard of ESPRESSO, of which the best documents
count as relevant, all alike), and how good do human judges find it, where there are any.

Noise comes from a seed here: such tables protect nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Reader, Rights
from cloister.core.settings import Settings
from cloister.data.beir import open_beir
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_weights import EntityStatistics
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import TermCounts, count_terms
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import RankedLabels
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.search.noisy_statistics import NoisyStatisticsSettings, noisy_statistics
from cloister.search.published_statistics import (
    PublishedForm,
    PublishedStatistics,
    ServerContents,
    added_published,
    exact_statistics,
    threshold_statistics,
)

__all__ = [
    "SpreadCollection",
    "StatisticsCost",
    "StatisticsCostSettings",
    "published_forms",
    "spread_beir",
    "spread_clinic",
    "statistics_cost",
]

Integers = NDArray[np.int64]
Grades = Mapping[int, int]
READER: Final = Reader(AgentId("reader"))
CUTOFFS: Final = (5, 10)
DEPTH: Final = max(CUTOFFS)  # of the rankings that are compared


class StatisticsCostSettings(Settings):
    """Which tables are tried.

    Parameters
    ----------
    access
        Shares of pods that the user may read, in per cent.
    thresholds, epsilons
        Of the tables with a threshold, and of the noisy ones.
    noisy
        How noisy tables are made; their epsilon is replaced.
    n_gold
        So many of the best documents by the user's own statistics count as relevant; as many as
        are compared (5, 10) where not given.
    """

    access: tuple[int, ...] = (10, 100)
    thresholds: tuple[int, ...] = (2, 5, 10, 20, 50)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    noisy: NoisyStatisticsSettings = NoisyStatisticsSettings(epsilon=1.0)
    n_gold: int | None = Field(default=None, ge=1)
    seed: int = Field(default=1, ge=0)


class SpreadCollection(NamedTuple):
    """Documents in pods on servers, queries as terms, and grades where anybody judged."""

    counts: TermCounts
    doc_ids: Sequence[DocId]
    pods: Integers
    servers: Integers  # of each document
    queries: Sequence[Sequence[str]]
    judged: Sequence[Grades]

    def contents(self) -> list[ServerContents]:
        """Return what each server holds."""
        return [
            ServerContents(ServerId(f"server-{n}"), self.counts.select(here), self.pods[here])
            for n in np.unique(self.servers)
            for here in (np.flatnonzero(self.servers == n),)
        ]

    def view(self, access: int, rng: np.random.Generator) -> ReaderView:
        """Return what somebody reads who may read this share of all pods, drawn at random."""
        n_pods = int(self.pods.max()) + 1
        allowed = np.zeros(n_pods, np.int32)
        allowed[rng.permutation(n_pods)[: round(n_pods * access / 100)]] = 1
        live = np.ones(self.counts.n_documents, np.bool_)
        segment = Segment(
            Postings.build(self.counts),
            self.doc_ids,
            self.pods.astype(np.int32),
            live,
            allowed[self.pods],
        )
        pod_ids = tuple(PodId(f"pod-{n}") for n in range(n_pods))
        rights = (Rights(), Rights(agents=frozenset({READER.agent_id})))
        return ReaderView(Snapshot(1, (segment,), pod_ids, rights), READER)


class StatisticsCost(NamedTuple):
    """How well one form of tables ranks, at one access level.

    ``ndcg`` is agreement with the user's own BM25, ``judged`` nDCG by human grades (NaN where there
    are none), each at 5 and 10; ``listed`` the share of the queries' terms that the table has.
    """

    form: str
    parameter: float
    made: str
    access: int
    ndcg_5: float
    ndcg_10: float
    judged_5: float
    judged_10: float
    listed: float


class PublishedVariant(NamedTuple):
    """Tables, and how they were made."""

    form: PublishedForm
    parameter: float  # threshold or epsilon
    made: Literal["together", "each server", "together, word list", "each server, word list"]
    statistics: PublishedStatistics


def spread_beir(
    folder: str | Path,
    *,
    n_servers: int,
    documents_per_pod: int,
    split: str = "test",
    seed: int = 1,
) -> SpreadCollection:
    """Share a collection with human judgements out to pods at random, and pods to servers."""
    collection = open_beir(folder)
    documents, analysis = collection.documents, TextAnalysis()
    counts = count_terms((f"{one.title} {one.text}" for one in documents), analysis)
    numbers = {one.doc_id: number for number, one in enumerate(documents)}
    pods = stream(seed, "statistics cost", "pods").permutation(len(documents)) // documents_per_pod
    grades: dict[str, dict[int, int]] = {}
    for query_id, doc_id, grade in collection.judgements[split]:
        if grade > 0 and doc_id in numbers:
            grades.setdefault(query_id, {})[numbers[doc_id]] = grade
    queries = [query for query in collection.queries if query.query_id in grades]
    return SpreadCollection(
        counts,
        [one.doc_id for one in documents],
        pods,
        pods % n_servers,
        [analysis.terms(query.text) for query in queries],
        [grades[query.query_id] for query in queries],
    )


def spread_clinic(settings: ClinicSettings) -> SpreadCollection:
    """Take a clinic world as it is: one document a pod; nobody judged its queries by hand."""
    world, analysis = ClinicWorld(settings), TextAnalysis()
    doc_ids = [pod.doc_id for pod in world.pods()]
    servers = [pod.server_id for pod in world.pods()]
    return SpreadCollection(
        count_terms((one.text for one in world.documents()), analysis),
        doc_ids,
        np.arange(len(doc_ids)),
        np.unique(servers, return_inverse=True)[1].astype(np.int64),
        [analysis.terms(query.text) for query in world.queries],
        [{} for _ in world.queries],
    )


def published_forms(
    collection: SpreadCollection,
    settings: StatisticsCostSettings,
    word_list: Sequence[str] | None = None,
) -> Iterator[PublishedVariant]:
    """Make the tables of all servers, in each form: together, or each server for itself."""
    servers = collection.contents()
    yield PublishedVariant("exact", 0, "together", exact_statistics(servers))
    for t in settings.thresholds:
        together = threshold_statistics(servers, threshold=t)
        yield PublishedVariant("threshold", t, "together", together)
        each = added_published([threshold_statistics([one], threshold=t) for one in servers])
        yield PublishedVariant("threshold", t, "each server", each)
    for epsilon in settings.epsilons:
        noisy = NoisyStatisticsSettings(**{**settings.noisy.model_dump(), "epsilon": epsilon})
        yield from _noisy_forms(servers, noisy, word_list, settings.seed)


def _noisy_forms(
    servers: Sequence[ServerContents],
    noisy: NoisyStatisticsSettings,
    word_list: Sequence[str] | None,
    seed: int,
) -> Iterator[PublishedVariant]:
    rng = stream(seed, "statistics cost", "noise")

    def made(some: Sequence[ServerContents], words: Sequence[str] | None) -> PublishedStatistics:
        source = SeededWords(int(rng.integers(2**63)))
        return noisy_statistics(some, noisy, word_list=words, words=source).statistics

    e = noisy.epsilon
    yield PublishedVariant("noisy", e, "together", made(servers, None))
    each = added_published([made([one], None) for one in servers])
    yield PublishedVariant("noisy", e, "each server", each)
    if word_list is not None:
        yield PublishedVariant("noisy", e, "together, word list", made(servers, word_list))
        each = added_published([made([one], word_list) for one in servers])
        yield PublishedVariant("noisy", e, "each server, word list", each)


def statistics_cost(
    collection: SpreadCollection,
    settings: StatisticsCostSettings,
    word_list: Sequence[str] | None = None,
) -> list[StatisticsCost]:
    """Rank with each form of tables at each access level, and compare.

    The first row of a level has the user's own statistics: its ``ndcg`` is 1, and its ``judged``
    what is to be reached.
    """
    variants = list(published_forms(collection, settings, word_list))
    rows = []
    for access in settings.access:
        view = collection.view(access, stream(settings.seed, "statistics cost", access))
        gold = _rankings(collection, view, None, max(settings.n_gold or 0, DEPTH))
        wanted = {
            k: [dict.fromkeys(found[: settings.n_gold or k], 1) for found in gold] for k in CUTOFFS
        }
        rows.append(_row("user", 0, "-", access, collection, view, None, wanted))
        rows += [
            _row(form, parameter, made, access, collection, view, published, wanted)
            for form, parameter, made, published in variants
        ]
    return rows


def _row(
    form: str,
    parameter: float,
    made: str,
    access: int,
    collection: SpreadCollection,
    view: ReaderView,
    published: PublishedStatistics | None,
    wanted: Mapping[int, Sequence[Grades]],
) -> StatisticsCost:
    statistics = None if published is None else published.level("document")
    found = _rankings(collection, view, statistics, DEPTH)
    readable = set(view.documents.tolist())
    judged = [
        {document: grade for document, grade in grades.items() if document in readable}
        for grades in collection.judged
    ]
    terms = [term for query in collection.queries for term in query]
    listed = 1.0 if statistics is None else sum(t in statistics.table for t in terms) / len(terms)
    of_gold = [_mean_ndcg(found, wanted[k], k) for k in CUTOFFS]
    of_judges = [_mean_ndcg(found, judged, k) for k in CUTOFFS]
    return StatisticsCost(
        form, parameter, made, access, of_gold[0], of_gold[1], of_judges[0], of_judges[1], listed
    )


def _rankings(
    collection: SpreadCollection, view: ReaderView, statistics: EntityStatistics | None, k: int
) -> list[list[int]]:
    """Return the best k documents of each query; of equal scores the id decides."""
    documents, ids = view.level("document"), collection.doc_ids
    rankings = []
    for terms in collection.queries:
        numbers, scores = documents.best(terms, k, statistics=statistics)
        listed = zip(numbers.tolist(), scores.tolist(), strict=True)
        best = sorted(listed, key=lambda one: (-one[1], ids[one[0]]))[:k]
        rankings.append([number for number, _ in best])
    return rankings


def _mean_ndcg(rankings: Sequence[Sequence[int]], grades: Sequence[Grades], k: int) -> float:
    """Return the mean nDCG@k of the queries for which anything is relevant; NaN for none."""
    labels = [grade.get(d, 0) for found, grade in zip(rankings, grades, strict=True) for d in found]
    offsets = np.concatenate([[0], np.cumsum([len(found) for found in rankings])])
    counts = np.array([np.bincount(list(grade.values()) or [0], minlength=8) for grade in grades])
    values = ndcg(RankedLabels(np.array(labels, np.int64), offsets, counts), k=k)
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")
