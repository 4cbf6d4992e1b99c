"""How near search across servers comes to the same user's centralised BM25: one trial.

A trial is one federation, one access level and one set of queries. The user's centralised BM25
ranks all that the user may read on all servers with exact statistics over just that; its 50 best
documents (fewer where fewer hold a term of the query) are what should be found, all alike: the
gold standard of ESPRESSO. This is agreement with one ranking, not relevance.

The paper's way is then measured for the best S servers and the best five pods of each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.random import stream
from cloister.core.rights import Reader
from cloister.index.entity_weights import ModelSettings, SparseModel
from cloister.index.reader_view import ReaderView
from cloister.index.shard import Shard
from cloister.lab.espresso.federation import (
    Federation,
    build_federation,
    federation_folder,
    open_federation,
)
from cloister.lab.espresso.federation_contents import ANALYSIS, FederationSettings, sample_texts
from cloister.lab.espresso.topic_queries import LENGTHS, TopicQuery, topic_queries
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.run_files import write_aside
from cloister.measure.average_precision import average_precision
from cloister.measure.ndcg import ndcg
from cloister.measure.precision import precision
from cloister.measure.ranked import RankedLabels
from cloister.search.node import SearchNode
from cloister.search.published_statistics import (
    PublishedStatistics,
    added_published,
    exact_statistics,
)
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.server_contents import contents_of
from cloister.search.shard_node import ShardNode

__all__ = [
    "CUTOFFS",
    "SYSTEMS",
    "AgreementSettings",
    "SparseSystem",
    "Trial",
    "at",
    "measure",
    "measured",
    "opened",
    "published_statistics",
    "rankings_by_servers",
    "trial_queries",
]

CUTOFFS: Final = (5, 10, 20)
Floats = NDArray[np.float64]
Ranking = Sequence[str]  # ids of documents, best first


class SparseSystem(NamedTuple):
    """A model, whose statistics it takes, and which IDF."""

    model: SparseModel
    statistics: Literal["user", "global"]
    idf: Literal["non_negative", "printed"] = "non_negative"


# The names of the paper's tables stand for global statistics (TF-IDF: equation 13).
SYSTEMS: Final[dict[str, SparseSystem]] = {
    "BM25 global": SparseSystem("bm25", "global"),
    "BM25 user": SparseSystem("bm25", "user"),
    "LM global": SparseSystem("lm", "global"),
    "LM user": SparseSystem("lm", "user"),
    "BM25 global, printed IDF": SparseSystem("bm25", "global", "printed"),
    "BM25 user, printed IDF": SparseSystem("bm25", "user", "printed"),
    "TF-IDF cosine": SparseSystem("tfidf-cosine", "global"),
    "TF-IDF Euclidean": SparseSystem("tfidf-euclidean", "global"),
    "TF-IDF cosine, user": SparseSystem("tfidf-cosine", "user"),
    "TF-IDF Euclidean, user": SparseSystem("tfidf-euclidean", "user"),
}


class AgreementSettings(StudySettings):
    """One trial.

    Parameters
    ----------
    data, seed
        Where the documents come from; the seed is that of the queries.
    federation
        The servers.
    access
        What the user may read, in per cent.
    systems
        Names among `SYSTEMS`.
    n_queries, n_sample
        Queries, and documents from which their topics are made.
    n_gold
        How many documents of the centralised ranking should be found.
    n_servers, n_pods
        Figures are for 1 to so many servers, with so many pods of each.
    """

    federation: FederationSettings
    access: int
    systems: tuple[str, ...] = ()
    n_queries: int = Field(default=30, ge=1)
    n_sample: int = Field(default=1_000, ge=1)
    n_gold: int = Field(default=50, ge=1)
    n_servers: int = Field(default=5, ge=1)
    n_pods: int = Field(default=5, ge=1)


class Trial(NamedTuple):
    """Servers as one user reaches them, queries, and what should be found."""

    federation: Federation
    reader: Reader
    nodes: Sequence[SearchNode]
    queries: Sequence[TopicQuery]
    gold: Sequence[Ranking]

    def close(self) -> None:
        """Let go of all files."""
        self.federation.close()


def at(system: str, n_servers: int) -> str:
    """Return the name of a system that asks so many servers.

    Examples
    --------
    >>> at("LM user", 3)
    'LM user, S=3'
    """
    return f"{system}, S={n_servers}"


def measure(settings: AgreementSettings, advance: Advance) -> Figures:
    """Return the figures of each system at each number of servers."""
    trial = opened(settings)
    published = None
    if any(SYSTEMS[name].statistics == "global" for name in settings.systems):
        published = published_statistics(trial.federation)
    figures: Figures = {}
    for done, name in enumerate(settings.systems, 1):
        searcher = _searcher(trial, SYSTEMS[name], settings, published)
        rank = partial(rankings_by_servers, searcher, n_servers=settings.n_servers)
        figures |= measured(name, trial, rank)
        advance(done, len(settings.systems))
    trial.close()
    return figures


def opened(settings: AgreementSettings) -> Trial:
    """Build the federation where that was not done yet, make queries, and find the gold."""
    folder = federation_folder(settings.federation)
    build_federation(settings.federation, folder, workers=1)
    federation = open_federation(settings.federation, folder)
    reader = federation.readers[settings.access]
    nodes = [ShardNode(one.server_id, _view_of(one, reader)) for one in federation.shards]
    queries = trial_queries(settings, settings.seed, settings.n_queries)
    whole = Searcher(nodes, ANALYSIS, SearchSettings(selection="all"))
    gold = [
        [one.doc_id for one in whole.search(query.text, k=settings.n_gold).results]
        for query in queries
    ]
    return Trial(federation, reader, nodes, queries, gold)


def trial_queries(settings: AgreementSettings, seed: int, n_queries: int) -> list[TopicQuery]:
    """Return queries from topics; they are made once and kept beside the federation."""
    folder = federation_folder(settings.federation)
    path = folder / f"queries-{seed}-{n_queries}-{settings.n_sample}.json"
    if not path.exists():
        rng = stream(seed, "espresso", "sample")
        texts = sample_texts(settings.federation, settings.n_sample, rng)
        made = topic_queries(texts, n_queries=n_queries, analysis=ANALYSIS, seed=seed)
        write_aside(folder, path, json.dumps([(one.terms, one.group) for one in made]).encode())
    return [TopicQuery(tuple(terms), group) for terms, group in json.loads(path.read_bytes())]


def published_statistics(federation: Federation) -> PublishedStatistics:
    """Return exact statistics of all documents, the paper's global ones; they protect nobody.

    They are made once, server by server, and kept beside the federation.
    """
    folder = federation_folder(federation.settings)
    path = folder / "published.json"
    if path.exists():
        return PublishedStatistics.from_bytes(path.read_bytes())
    made = added_published(
        [
            exact_statistics([contents_of(one.snapshot(), one.server_id)])
            for one in federation.shards
        ]
    )
    write_aside(folder, path, made.to_bytes())
    return made


def rankings_by_servers(searcher: Searcher, query: TopicQuery, n_servers: int) -> list[Ranking]:
    """Return what the best 1, 2, … servers give together.

    Scores do not depend on how many servers are asked, so that one search has all of them.
    """
    found = searcher.search(query.text, k=max(CUTOFFS) * n_servers)
    rankings: list[Ranking] = []
    for n in range(1, n_servers + 1):
        asked = set(found.servers_asked[:n])
        rankings.append([one.doc_id for one in found.results if one.server_id in asked])
    return rankings


def measured(name: str, trial: Trial, rank: Callable[[TopicQuery], Sequence[Ranking]]) -> Figures:
    """Return the figures of a system that gives a ranking for each number of servers."""
    rankings = [rank(query) for query in trial.queries]
    figures: Figures = {}
    for place in range(len(rankings[0])):
        values = _values([one[place] for one in rankings], trial.gold)
        figures[at(name, place + 1)] = dict(_means(values, trial.queries))
    return figures


def _searcher(
    trial: Trial,
    system: SparseSystem,
    settings: AgreementSettings,
    published: PublishedStatistics | None,
) -> Searcher:
    chosen = SearchSettings(
        model=ModelSettings(model=system.model, idf=system.idf),
        statistics=system.statistics,
        selection="entity",
        n_servers=settings.n_servers,
        n_pods=settings.n_pods,
    )
    return Searcher(trial.nodes, ANALYSIS, chosen, published=published)


def _view_of(shard: Shard, reader: Reader) -> Callable[[], ReaderView]:
    return lambda: shard.view(reader)


def _values(rankings: Sequence[Ranking], gold: Sequence[Ranking]) -> dict[str, Floats]:
    """Return each measure of each query; NaN where there is nothing to find."""
    wanted = [set(one) for one in gold]
    labels = [
        int(doc_id in found)
        for ranking, found in zip(rankings, wanted, strict=True)
        for doc_id in ranking
    ]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in rankings])]).astype(np.int64)
    counts = np.array([[0, len(one)] for one in wanted], np.int64)
    ranked = RankedLabels(np.array(labels, np.int8), offsets, counts)
    values = {f"ndcg@{k}": ndcg(ranked, k=k) for k in CUTOFFS}
    values |= {f"p@{k}": precision(ranked, k=k) for k in CUTOFFS}
    values |= {f"overlap@{k}": _overlaps(rankings, gold, k) for k in CUTOFFS}
    return values | {"map": average_precision(ranked)}


def _overlaps(rankings: Sequence[Ranking], gold: Sequence[Ranking], k: int) -> Floats:
    """Return which share of the centralised first k is among the first k shown.

    With 50 gold documents on 50 servers nearly any five servers hold five of them; this asks for
    the best ones.
    """
    shares = [
        len({*one[:k]} & {*best[:k]}) / len(best[:k]) if best else np.nan
        for one, best in zip(rankings, gold, strict=True)
    ]
    return np.array(shares, np.float64)


def _means(
    values: Mapping[str, Floats], queries: Sequence[TopicQuery]
) -> Iterator[tuple[str, float]]:
    """Give the mean of each measure over all queries, and over those of each length."""
    groups = np.array([one.group for one in queries])
    for name, found in values.items():
        known = np.isfinite(found)
        yield name, _mean(found[known])
        for group in LENGTHS:
            yield f"{name} {group}", _mean(found[known & (groups == group)])
    yield "n_queries", float(np.isfinite(values["map"]).sum())


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
