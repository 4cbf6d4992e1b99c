"""A collection shared out to pods on servers, and what one reader may read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Reader, Rights
from cloister.data.beir import open_beir
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.analysis import TextAnalysis
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import TermCounts, count_terms
from cloister.search.server_contents import ServerContents

__all__ = ["SpreadCollection", "beir_words", "spread_beir", "spread_clinic"]

Integers = NDArray[np.int64]
Grades = Mapping[int, int]
READER: Final = Reader(AgentId("reader"))


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


def beir_words(folder: str | Path) -> tuple[str, ...]:
    """Return the different words of a collection, sorted: a word list that is not made of pods."""
    texts = (f"{one.title} {one.text}" for one in open_beir(folder).documents)
    return tuple(sorted(count_terms(texts, TextAnalysis()).vocabulary))
