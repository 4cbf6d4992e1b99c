"""The texts behind an experiment: documents with their party, queries, judgements.

How each collection is shared out is fixed here, and does not depend on a seed.

MedQuAD: twelve sources in four groups (`MEDQUAD_GROUPS`). NFCorpus, MS MARCO 5k and other folders:
by topics or at random. Clinic world: its organisations.

Queries of their own are few in MedQuAD (104) and MS MARCO 5k (50), where the paper has 200 a party.
MedQuAD gets more from the questions that its authors publish without answers, one a subject, so
that no subject is in training and test. MS MARCO 5k gets known-item queries: the four most telling
terms (by TF-IDF) of documents drawn at random. Nobody judged those; their labels come from the
full-text ranking alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.core.records import Judgement, Query
from cloister.data.beir import open_beir
from cloister.data.json_lines import read_json_lines
from cloister.data.text_collection import TextCollection
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.term_counts import TermCounts, count_terms
from cloister.lab.reproduce.collection import data_folder
from cloister.lab.silos.settings import CollectionSettings

__all__ = ["MEDQUAD_GROUPS", "Texts", "read_texts"]

# Encyclopaedia; drugs and topics of MedlinePlus; rare and genetic conditions; institutes.
# LiveQA's best answers lie in the groups 56, 26, 9 and 5 times.
MEDQUAD_GROUPS: Final = (
    ("ADAM",),
    ("MPlusDrugs", "MPlusHerbsSupplements", "MPlusHealthTopics"),
    ("GHR", "GARD"),
    ("NIDDK", "NINDS", "NIHSeniorHealth", "CancerGov", "NHLBI", "CDC"),
)
FOLDERS: Final = {
    "medquad": "text/medquad",
    "nfcorpus": "text/nfcorpus",
    "msmarco-5k": "text/trecdl-msmarco-5k",
}
MOST_FURTHER_QUERIES: Final = 6_000
KNOWN_ITEM_TERMS: Final = 4
CLINIC: Final = "servers={n}&organisations={n}&pods=500&queries=1200&document_bytes=2000"


class Texts(NamedTuple):
    """Documents by number, with the party of each; queries; grades by query id and document."""

    titles: list[str]
    bodies: list[str]
    party: NDArray[np.int64]
    queries: list[Query]
    judged: Mapping[str, Mapping[int, int]]


def read_texts(settings: CollectionSettings) -> Texts:
    """Read a collection and share it out."""
    if settings.collection == "clinic":
        return _clinic(settings)
    folder = settings.data or str(data_folder() / _folder(settings.collection))
    collection = open_beir(folder)
    documents = collection.documents
    numbers = {str(document.doc_id): i for i, document in enumerate(documents)}
    titles = [document.title for document in documents]
    bodies = [document.text for document in documents]
    queries = list(collection.queries)
    if settings.collection == "medquad":
        party = _by_source(collection, settings)
        queries += _unanswered(Path(folder))
    else:
        counts = count_terms(bodies)
        party = _shared_out(counts, settings)
        if settings.collection == "msmarco-5k":
            queries += _known_items(counts)
    judgements = (one for split in collection.judgements.values() for one in split)
    return Texts(titles, bodies, party, queries, _grades(judgements, numbers))


def _folder(name: str) -> str:
    """Return where a collection lies that is found by name."""
    if name not in FOLDERS:
        raise SettingsError("a collection of this kind needs a folder", where=f"data of {name}")
    return FOLDERS[name]


def _clinic(settings: CollectionSettings) -> Texts:
    address = settings.data.partition("?")[2] or CLINIC.format(n=settings.n_parties)
    world = ClinicWorld(ClinicSettings.from_text(address))
    documents = list(world.documents())
    organisations = {one: i for i, one in enumerate(sorted({p.organisation for p in world.pods()}))}
    if len(organisations) != settings.n_parties:
        raise SettingsError(
            f"the world has {len(organisations)} organisations, not {settings.n_parties}",
            where="n_parties",
        )
    numbers = {str(document.doc_id): i for i, document in enumerate(documents)}
    return Texts(
        [document.title for document in documents],
        [document.text for document in documents],
        np.array([organisations[pod.organisation] for pod in world.pods()], np.int64),
        [Query(query.query_id, query.text) for query in world.queries],
        _grades(world.judgements(), numbers),
    )


def _grades(
    judgements: Iterator[Judgement], numbers: Mapping[str, int]
) -> dict[str, dict[int, int]]:
    grades: dict[str, dict[int, int]] = {}
    for query_id, doc_id, grade in judgements:
        if doc_id in numbers and grade > 0:
            grades.setdefault(query_id, {})[numbers[doc_id]] = grade
    return grades


def _by_source(collection: TextCollection, settings: CollectionSettings) -> NDArray[np.int64]:
    if settings.n_parties != len(MEDQUAD_GROUPS):
        raise SettingsError(
            f"MedQuAD's sources are put into {len(MEDQUAD_GROUPS)} groups", where="n_parties"
        )
    group = {source: i for i, sources in enumerate(MEDQUAD_GROUPS) for source in sources}
    fields = collection.fields
    sources = [fields[document.doc_id]["source"] for document in collection.documents]
    return np.array([group[source] for source in sources], np.int64)


def _unanswered(folder: Path) -> list[Query]:
    """Return questions published without answers: one a subject, subjects in random order."""
    by_focus: dict[str, list[tuple[str, str]]] = {}
    for line in read_json_lines(folder / "questions_without_answer.jsonl.gz"):
        by_focus.setdefault(line.text("focus").casefold(), []).append(
            (line.identifier("_id"), line.text("title"))
        )
    rng = stream(0, "silos", "unanswered")
    subjects = [by_focus[focus] for focus in sorted(by_focus)]
    chosen = [subjects[i] for i in rng.permutation(len(subjects))[:MOST_FURTHER_QUERIES]]
    drawn = [questions[int(rng.integers(len(questions)))] for questions in chosen]
    return [Query(f"unanswered-{name}", text) for name, text in drawn]  # type: ignore[arg-type]


def _known_items(counts: TermCounts) -> list[Query]:
    """Make queries of the most telling terms of documents drawn at random."""
    rng = stream(0, "silos", "known items")
    idf = np.log(counts.n_documents / np.maximum(_frequencies(counts), 1.0))
    queries = []
    for document in rng.permutation(counts.n_documents)[: MOST_FURTHER_QUERIES // 2].tolist():
        here = slice(counts.starts[document], counts.starts[document + 1])
        terms = counts.terms[here]
        common = _frequencies(counts)[terms] >= 3  # a term of one document alone asks for nothing
        telling = np.argsort(-counts.counts[here] * idf[terms] * common, kind="stable")
        words = [counts.vocabulary[terms[i]] for i in telling[:KNOWN_ITEM_TERMS]]
        queries.append(Query(f"known-item-{document}", " ".join(words)))  # type: ignore[arg-type]
    return queries


def _frequencies(counts: TermCounts) -> NDArray[np.float64]:
    return np.bincount(counts.terms, minlength=counts.n_terms).astype(np.float64)


def _shared_out(counts: TermCounts, settings: CollectionSettings) -> NDArray[np.int64]:
    if counts.n_documents < settings.n_parties:
        raise SettingsError(
            f"the collection has {counts.n_documents} documents for {settings.n_parties} parties",
            where="n_parties",
            remedy="lower it, or name a larger collection",
        )
    rng = stream(0, "silos", "sharing", settings.sharing)
    if settings.sharing == "random":
        return rng.permutation(counts.n_documents) % settings.n_parties
    return by_topics(counts, settings.n_parties, rng)


N_DIRECTIONS: Final = 128  # of the random projection in which topics are looked for
N_ITERATIONS: Final = 20
LARGEST_SHARE: Final = 1.6  # times an even share: no party takes nearly everything


def by_topics(counts: TermCounts, n_parties: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Share documents out by spherical k-means of their TF-IDF, randomly projected.

    Documents that fit their cluster best choose first; a cluster takes at most 1.6 times an even
    share.
    """
    idf = np.log(counts.n_documents / np.maximum(_frequencies(counts), 1.0))
    directions = rng.standard_normal((counts.n_terms, N_DIRECTIONS))
    document = np.repeat(np.arange(counts.n_documents), np.diff(counts.starts))
    weights = np.log1p(counts.counts) * idf[counts.terms]
    places = np.zeros((counts.n_documents, N_DIRECTIONS))
    np.add.at(places, document, weights[:, None] * directions[counts.terms])
    places /= np.maximum(np.linalg.norm(places, axis=1, keepdims=True), 1e-12)
    centres = places[rng.choice(counts.n_documents, n_parties, replace=False)]
    for _ in range(N_ITERATIONS):
        nearest = np.argmax(places @ centres.T, axis=1)
        centres = np.stack([places[nearest == i].sum(axis=0) for i in range(n_parties)])
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return _with_room(places @ centres.T)


def _with_room(likeness: NDArray[np.float64]) -> NDArray[np.int64]:
    n_documents, n_parties = likeness.shape
    room = np.full(n_parties, int(LARGEST_SHARE * n_documents / n_parties) + 1)
    party = np.empty(n_documents, np.int64)
    for document in np.argsort(-likeness.max(axis=1), kind="stable").tolist():
        for choice in np.argsort(-likeness[document], kind="stable").tolist():
            if room[choice]:
                party[document] = choice
                room[choice] -= 1
                break
    return party
