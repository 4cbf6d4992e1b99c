"""What a federation holds: its documents, who may read them, and what people judged of them.

The clinic world has the paper's form: one document a pod, search parties that may read a share of
all pods. Other collections (NFCorpus, MedQuAD, Synthea) are spread at random over servers and pods,
and readers are made who may read a share of their documents, drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import Field

from cloister.core.ids import AgentId, DocId, PodId, QueryId, ServerId
from cloister.core.random import stream
from cloister.core.records import Document
from cloister.core.rights import Reader, Rights
from cloister.core.settings import Settings
from cloister.data.beir import open_beir
from cloister.data.synthea import open_synthea
from cloister.data.text_collection import TextCollection
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument
from cloister.lab.reproduce.collection import data_folder

__all__ = [
    "ACCESS",
    "ANALYSIS",
    "FOLDERS",
    "FederationSettings",
    "clinic_world",
    "collection",
    "documents_of_server",
    "human_grades",
    "readers_of",
    "sample_texts",
    "server_name",
    "texts_of",
]

ACCESS: Final = (5, 10, 25, 50, 100)  # what readers may read, in per cent
ANALYSIS: Final = TextAnalysis.espresso()
FOLDERS: Final = {
    "nfcorpus": "text/nfcorpus",
    "medquad": "text/medquad",
    "synthea": "records/synthea-ma-1462",
}


class FederationSettings(Settings):
    """Which documents, on how many servers.

    Parameters
    ----------
    source
        The clinic world, or a collection that is spread over pods.
    servers, pods
        How many servers, and pods on each; the clinic world only for the latter.
    documents_a_pod
        Of a collection that is spread.
    data
        The collection's folder; where collections lie by default if not given.
    seed
        Of the world, or of how a collection is spread and who may read what.
    """

    source: Literal["clinic", "nfcorpus", "medquad", "synthea"] = "clinic"
    servers: int = Field(default=50, ge=1)
    pods: int = Field(default=9_500, ge=1)
    documents_a_pod: int = Field(default=1, ge=1)
    data: str = ""
    seed: int = Field(default=1, ge=0)


def server_name(number: int) -> ServerId:
    """Return the id of a server.

    Examples
    --------
    >>> server_name(3)
    'server-0003'
    """
    return ServerId(f"server-{number:04}")


def documents_of_server(settings: FederationSettings, number: int) -> Iterator[IndexedDocument]:
    """Give the documents of one server, each with its pod and who may read it."""
    if settings.source == "clinic":
        return _clinic_documents(settings, number)
    return _spread_documents(settings, number)


def _clinic_documents(settings: FederationSettings, number: int) -> Iterator[IndexedDocument]:
    world = clinic_world(settings)
    first, last = number * settings.pods, (number + 1) * settings.pods
    for pod, document in zip(world.pods(first, last), world.documents(first, last), strict=True):
        yield IndexedDocument(pod.doc_id, pod.pod_id, document.text, pod.rights)


def _spread_documents(settings: FederationSettings, number: int) -> Iterator[IndexedDocument]:
    """Give each document a server, a pod there, and readers; the same in each process."""
    documents = collection(settings).documents
    rng = stream(settings.seed, "spread", settings.source)
    places = rng.permutation(len(documents))
    drawn = rng.random(len(documents))
    for place in np.flatnonzero(places % settings.servers == number).tolist():
        document = documents[place]
        pod = int(places[place]) // settings.servers // settings.documents_a_pod
        agents = [_reader_id(level) for level in ACCESS if drawn[place] * 100 < level]
        yield IndexedDocument(
            DocId(document.doc_id),
            PodId(f"{server_name(number)}-pod-{pod:05}"),
            _whole_text(document),
            Rights(owner=AgentId(f"owner-{number}-{pod}")).grant(*agents),
        )


def _whole_text(document: Document) -> str:
    return f"{document.title}\n{document.text}" if document.title else document.text


def clinic_world(settings: FederationSettings) -> ClinicWorld:
    """Return the world behind a federation."""
    return ClinicWorld(
        ClinicSettings(
            servers=settings.servers, pods=settings.pods, seed=settings.seed, access=ACCESS
        )
    )


def collection(settings: FederationSettings) -> TextCollection:
    """Return the collection that is spread."""
    folder = Path(settings.data or data_folder() / FOLDERS[settings.source])
    if settings.source == "synthea":
        return open_synthea(folder).text_collection()
    return open_beir(folder)


def human_grades(settings: FederationSettings) -> Mapping[QueryId, Mapping[str, int]]:
    """Return people's judgements above 0 by query and document; none for the clinic world."""
    if settings.source in ("clinic", "synthea"):
        return {}
    grades: dict[QueryId, dict[str, int]] = {}
    splits = collection(settings).judgements
    for one in splits.get("test", next(iter(splits.values()))):
        if one.grade > 0:
            grades.setdefault(one.query_id, {})[one.doc_id] = one.grade
    return grades


def sample_texts(
    settings: FederationSettings, n_documents: int, rng: np.random.Generator
) -> list[str]:
    """Return the texts of some documents of all servers, drawn at random."""
    if settings.source == "clinic":
        world = clinic_world(settings)
        n = min(n_documents, world.n_pods)
        drawn = np.sort(rng.choice(world.n_pods, n, replace=False))
        return [world.document(number).text for number in drawn.tolist()]
    documents = collection(settings).documents
    n = min(n_documents, len(documents))
    drawn = np.sort(rng.choice(len(documents), n, replace=False))
    return [_whole_text(documents[number]) for number in drawn.tolist()]


def texts_of(settings: FederationSettings, doc_ids: Iterable[DocId]) -> list[str]:
    """Return the texts of documents; whoever calls this has asked for the rights."""
    if settings.source == "clinic":
        world = clinic_world(settings)
        return [world.document(int(one.rpartition("-")[2])).text for one in doc_ids]
    texts = {one.doc_id: _whole_text(one) for one in collection(settings).documents}
    return [texts[one] for one in doc_ids]


def readers_of(settings: FederationSettings) -> dict[int, Reader]:
    """Return who may read 5 to 100 per cent of all documents."""
    if settings.source == "clinic":
        parties = clinic_world(settings).search_parties
        return {party.access_percent: party.reader for party in parties}
    return {level: Reader(_reader_id(level)) for level in ACCESS}


def _reader_id(level: int) -> AgentId:
    return AgentId(f"reader-{level}")
