"""Collections to re-rank, as one record each: documents, queries, grades, splits.

NFCorpus and MS MARCO 5k (43 judged queries of TREC Deep Learning over 5,000 passages) are searched:
candidates are retrieved. MEDIQA 2019 and WikiQA are question answering: each question comes with
its candidate answers. All grades are those of the collection; for MEDIQA the score less 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Document, Query
from cloister.core.settings import Settings
from cloister.data.text_collection import TextCollection
from cloister.data.text_layout import open_text_collection
from cloister.index.analysis import TextAnalysis
from cloister.lab.reproduce.collection import data_folder
from cloister.rank.document_priors import document_priors
from cloister.rank.proximity_features import TermSequences
from cloister.rank.tree_features import distinct_terms

__all__ = [
    "COLLECTIONS",
    "JudgedQuery",
    "RankingCollection",
    "RankingCollectionName",
    "RankingCollectionSettings",
    "open_ranking_collection",
    "ranking_collection",
]

RankingCollectionName = Literal["nfcorpus", "mediqa", "wikiqa", "msmarco-5k"]
COLLECTIONS: Final[Mapping[RankingCollectionName, str]] = {
    "nfcorpus": "text/nfcorpus",
    "mediqa": "text/mediqa2019-qa",
    "wikiqa": "text/wikiqa",
    "msmarco-5k": "text/trecdl-msmarco-5k",
}
GIVEN_CANDIDATES: Final = ("mediqa", "wikiqa")  # kinds of layout
_ROLES: Final = ("training", "validation", "test")
_ROLE_OF_SPLIT: Final = {"train": "training", "dev": "validation", "validation": "validation"}


class RankingCollectionSettings(Settings):
    """Which collection, and how its texts are cut into terms.

    Parameters
    ----------
    name
        One of four.
    data
        Its folder; found by name where empty.
    most_terms
        Of a query: only so many of its first different terms are kept. MEDIQA's questions are
        letters of up to some hundred words.
    analysis
        Of documents and queries alike. No stems: word vectors are of whole words.
    """

    name: RankingCollectionName = "nfcorpus"
    data: str = ""
    most_terms: int = Field(default=32, ge=1)
    analysis: TextAnalysis = TextAnalysis()


class JudgedQuery(NamedTuple):
    """A query with at least one relevant document.

    ``documents`` are all that were judged, by number, with their grades; the role is empty where
    the collection has no split of its own.
    """

    query_id: QueryId
    terms: tuple[str, ...]
    documents: NDArray[np.int64]
    grades: NDArray[np.int8]
    role: Literal["training", "validation", "test", ""]


@dataclass(frozen=True, eq=False)
class RankingCollection:
    """A collection to re-rank.

    Parameters
    ----------
    name
        What it is called.
    texts
        Documents as terms in their order.
    doc_ids
        Names of the documents.
    priors
        Figures of the documents' texts, see `cloister.rank.document_priors`.
    sources
        Where each document comes from; empty where the collection does not say.
    queries
        Those with a relevant document, in the collection's order.
    given
        Whether the judged documents of a query are its candidates.
    """

    name: str
    texts: TermSequences
    doc_ids: tuple[DocId, ...]
    priors: NDArray[np.float32]
    sources: tuple[str, ...]
    queries: tuple[JudgedQuery, ...]
    given: bool

    @property
    def has_split(self) -> bool:
        """Whether the collection has training, validation and test queries of its own."""
        return {query.role for query in self.queries} == set(_ROLES)

    def grade_counts(self, queries: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the judged documents of each grade for some queries, candidates or not.

        With it, nDCG's ideal ranking is that of all judged documents.
        """
        chosen = [self.queries[query].grades for query in queries]
        highest = max((int(query.grades.max()) for query in self.queries), default=0)
        return np.array([np.bincount(grades, minlength=highest + 1) for grades in chosen], np.int64)


@lru_cache(maxsize=4)
def open_ranking_collection(settings: RankingCollectionSettings) -> RankingCollection:
    """Read a collection; the last four are kept in memory."""
    folder = Path(settings.data) if settings.data else data_folder() / COLLECTIONS[settings.name]
    return ranking_collection(settings.name, open_text_collection(folder), settings)


def ranking_collection(
    name: str, collection: TextCollection, settings: RankingCollectionSettings | None = None
) -> RankingCollection:
    """Make the record of a collection that is at hand.

    Judgements of documents or queries that it does not have are left out, as are queries with no
    relevant document or no term.
    """
    settings = settings or RankingCollectionSettings()
    analysis = settings.analysis
    documents = collection.documents
    return RankingCollection(
        name,
        TermSequences.of(analysis.terms(_whole(document)) for document in documents),
        tuple(document.doc_id for document in documents),
        document_priors(documents),
        _sources(collection),
        tuple(_queries(collection, settings)),
        given=collection.kind in GIVEN_CANDIDATES,
    )


def _whole(document: Document) -> str:
    return f"{document.title}\n{document.text}" if document.title else document.text


def _sources(collection: TextCollection) -> tuple[str, ...]:
    """Return the source that each document names, or the host of its address."""
    fields = collection.fields
    found = []
    for document in collection.documents:
        about = fields.get(document.doc_id, {})
        found.append(str(about.get("source") or urlsplit(str(about.get("url", ""))).hostname or ""))
    return tuple(found) if any(found) else ()


def _queries(collection: TextCollection, settings: RankingCollectionSettings) -> list[JudgedQuery]:
    numbers = {document.doc_id: i for i, document in enumerate(collection.documents)}
    judged: dict[QueryId, dict[int, int]] = {}
    role_of: dict[QueryId, str] = {}
    for split, judgements in collection.judgements.items():
        for query_id, doc_id, grade in judgements:
            role_of[query_id] = _role(split, collection)
            if doc_id in numbers:
                judged.setdefault(query_id, {})[numbers[doc_id]] = max(grade, 0)
    queries = []
    for query in collection.queries:
        grades = judged.get(query.query_id, {})
        terms = distinct_terms(settings.analysis.terms(query.text))[: settings.most_terms]
        if terms and any(grades.values()):
            queries.append(_judged_query(query, terms, grades, role_of[query.query_id]))
    if not queries:
        raise DataError("no query has a relevant document", where=collection.name)
    return queries


def _role(split: str, collection: TextCollection) -> str:
    """Return what the queries of a split are for; nothing where there is one split alone."""
    if len(collection.judgements) == 1:
        return ""
    return _ROLE_OF_SPLIT.get(split.partition("-")[0], "test")


def _judged_query(
    query: Query, terms: tuple[str, ...], grades: Mapping[int, int], role: str
) -> JudgedQuery:
    documents = np.array(sorted(grades), np.int64)
    values = np.array([grades[document] for document in documents.tolist()], np.int8)
    return JudgedQuery(query.query_id, terms, documents, values, role)  # type: ignore[arg-type]
