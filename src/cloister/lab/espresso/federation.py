"""A federation of servers with pods, indexed on disk: the setting of ESPRESSO's experiments.

The clinic world has the paper's form: one document a pod, search parties that may read a share of
all pods. Other collections (NFCorpus, MedQuAD, Synthea) are spread at random over servers and pods,
and readers are made who may read a share of their documents, drawn at random.
"""

from __future__ import annotations

import fcntl
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
from pydantic import Field

from cloister.core.errors import NotFound
from cloister.core.ids import AgentId, DocId, PodId, QueryId, ServerId
from cloister.core.random import stream
from cloister.core.records import Document
from cloister.core.rights import Reader, Rights
from cloister.core.settings import Settings
from cloister.data.beir import open_beir
from cloister.data.cache import cache_folder
from cloister.data.synthea import open_synthea
from cloister.data.text_collection import TextCollection
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from cloister.lab.reproduce.collection import data_folder

__all__ = [
    "ACCESS",
    "ANALYSIS",
    "FOLDERS",
    "Federation",
    "FederationSettings",
    "build_federation",
    "clinic_world",
    "federation_folder",
    "human_grades",
    "n_servers_there",
    "open_federation",
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


class Federation(NamedTuple):
    """The servers' indexes, and who may read 5 to 100 per cent of all."""

    settings: FederationSettings
    shards: Sequence[Shard]
    readers: Mapping[int, Reader]

    @property
    def n_documents(self) -> int:
        """Number of documents on all servers."""
        return sum(shard.n_documents for shard in self.shards)

    def close(self) -> None:
        """Let go of all files."""
        for shard in self.shards:
            shard.close()


def server_name(number: int) -> ServerId:
    """Return the id of a server.

    Examples
    --------
    >>> server_name(3)
    'server-0003'
    """
    return ServerId(f"server-{number:04}")


def federation_folder(settings: FederationSettings) -> Path:
    """Return where a federation is kept unless somebody says otherwise: in the cache."""
    return cache_folder() / "espresso" / settings.digest()[:32]


def build_federation(
    settings: FederationSettings,
    folder: Path,
    *,
    workers: int = 2,
    advance: Callable[[int, int], None] | None = None,
) -> None:
    """Index all servers that are not indexed yet.

    A build that was stopped goes on where it was: a server is there as a whole or not at all.
    Several processes may build one federation together, each taking servers that no other has.

    Parameters
    ----------
    workers
        Processes; with one, this process does it.
    advance
        Is told how many servers are there.
    """
    (folder / "incoming").mkdir(parents=True, exist_ok=True)
    left = [n for n in range(settings.servers) if not _is_there(folder, n)]
    done = settings.servers - len(left)
    for _ in _built(settings, folder, left, workers):
        done += 1
        if advance is not None:
            advance(done, settings.servers)


def _built(
    settings: FederationSettings, folder: Path, left: Sequence[int], workers: int
) -> Iterator[int]:
    """Build servers, and give the number of each that is there."""
    if workers > 1 and len(left) > 1:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(left)), context) as pool:
            jobs = {pool.submit(_build_alone, settings, folder, n): n for n in left}
            for job in as_completed(jobs):
                job.result()
                yield jobs[job]
        return
    taken = []
    for number in left:
        if _build(settings, folder, number, wait=False):
            yield number
        else:
            taken.append(number)
    for number in taken:  # which another process was at
        _build(settings, folder, number, wait=True)
        yield number


def n_servers_there(settings: FederationSettings, folder: Path) -> int:
    """Return how many servers are indexed."""
    return sum(_is_there(folder, number) for number in range(settings.servers))


def open_federation(settings: FederationSettings, folder: Path) -> Federation:
    """Open what `build_federation` made."""
    shards = [
        Shard.open(folder / server_name(n), server_id=server_name(n), create=False)
        for n in range(settings.servers)
    ]
    return Federation(settings, shards, _readers(settings))


def _is_there(folder: Path, number: int) -> bool:
    name = server_name(number)
    try:
        with Shard.open(folder / name, server_id=name, create=False) as shard:
            return shard.version > 0
    except NotFound:
        return False


def _build_alone(settings: FederationSettings, folder: Path, number: int) -> None:
    """Index one server in a process that does nothing else."""
    import numba

    numba.set_num_threads(1)  # each server has a process
    _build(settings, folder, number, wait=True)


def _build(settings: FederationSettings, folder: Path, number: int, *, wait: bool) -> bool:
    """Index one server, in one commit: a stopped build leaves it empty.

    Returns whether the server is there; False where another process is at it.
    """
    name = server_name(number)
    with _reserved(folder / f"{name}.lock", wait=wait) as reserved:
        if reserved and not _is_there(folder, number):
            with Shard.open(folder / name, server_id=name, analysis=ANALYSIS) as shard:
                shard.add(_documents(settings, number))
                shard.commit()
    return reserved


@contextmanager
def _reserved(path: Path, *, wait: bool) -> Iterator[bool]:
    """Keep other processes from something meanwhile; say whether it is free."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def _documents(settings: FederationSettings, number: int) -> Iterator[IndexedDocument]:
    if settings.source == "clinic":
        return _clinic_documents(settings, number)
    return _spread_documents(settings, number)


def clinic_world(settings: FederationSettings) -> ClinicWorld:
    """Return the world behind a federation."""
    return ClinicWorld(
        ClinicSettings(
            servers=settings.servers, pods=settings.pods, seed=settings.seed, access=ACCESS
        )
    )


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


def _readers(settings: FederationSettings) -> dict[int, Reader]:
    if settings.source == "clinic":
        parties = clinic_world(settings).search_parties
        return {party.access_percent: party.reader for party in parties}
    return {level: Reader(_reader_id(level)) for level in ACCESS}


def _reader_id(level: int) -> AgentId:
    return AgentId(f"reader-{level}")
