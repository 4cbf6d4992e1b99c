"""Candidates to re-rank: the first of a BM25 ranking, or the answers that a question came with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings
from cloister.lab.neural.collection import JudgedQuery, RankingCollection
from cloister.lab.silos.reference_ranking import FullTextRanking

__all__ = ["CandidateSettings", "CandidateStatistics", "QueryCandidates", "find_candidates"]

Floats = NDArray[np.float64]


class CandidateSettings(Settings):
    """Which documents are re-ranked.

    Parameters
    ----------
    depth
        The first so many of the BM25 ranking (k1 = 1.2, b = 0.75) over all documents.
    given
        Where queries come with candidates: these ``alone``, which is the task as its authors set
        it, or ``joined`` with the retrieved ones, which nobody judged.
    """

    depth: int = Field(default=100, ge=1)
    given: Literal["alone", "joined"] = "alone"


class QueryCandidates(NamedTuple):
    """Candidates of one query by number, best BM25 first; grade 0 where nobody judged."""

    documents: NDArray[np.int64]
    grades: NDArray[np.int8]
    bm25: Floats


def find_candidates(
    collection: RankingCollection, settings: CandidateSettings | None = None
) -> tuple[QueryCandidates, ...]:
    """Return the candidates of each query of a collection.

    A retrieved candidate holds a term of the query; a relevant document with none of them, or
    below the depth, is no candidate, and counts against every ranking (see
    `RankingCollection.grade_counts`).
    """
    settings = settings or CandidateSettings()
    ranking = FullTextRanking(collection.texts.counts)
    return tuple(
        _candidates(query, ranking.scores(query.terms), collection.given, settings)
        for query in collection.queries
    )


def _candidates(
    query: JudgedQuery, scores: Floats, given: bool, settings: CandidateSettings
) -> QueryCandidates:
    documents = query.documents
    if not given or settings.given == "joined":
        best = np.argsort(-scores, kind="stable")[: settings.depth]
        documents = best[scores[best] > 0]
        if given:
            documents = np.union1d(documents, query.documents)
    order = documents[np.lexsort((documents, -scores[documents]))]
    grades = np.zeros(len(scores), np.int8)
    grades[query.documents] = query.grades
    return QueryCandidates(order, grades[order], scores[order])


@dataclass(frozen=True)
class CandidateStatistics:
    """Means over the queries of a collection; ``recall`` is of relevant documents."""

    collection: str
    documents: int
    terms_a_document: float
    queries: int
    terms_a_query: float
    candidates_a_query: float
    relevant_a_query: float
    relevant_candidates_a_query: float
    recall: float
    sources: int

    @classmethod
    def of(
        cls, collection: RankingCollection, candidates: tuple[QueryCandidates, ...]
    ) -> CandidateStatistics:
        """Count what a collection and its candidates hold."""
        relevant = np.array([(query.grades > 0).sum() for query in collection.queries])
        found = np.array([(one.grades > 0).sum() for one in candidates])
        return cls(
            collection=collection.name,
            documents=collection.texts.n_documents,
            terms_a_document=len(collection.texts.terms) / max(collection.texts.n_documents, 1),
            queries=len(collection.queries),
            terms_a_query=float(np.mean([len(query.terms) for query in collection.queries])),
            candidates_a_query=float(np.mean([len(one.documents) for one in candidates])),
            relevant_a_query=float(relevant.mean()),
            relevant_candidates_a_query=float(found.mean()),
            recall=float((found / relevant).mean()),
            sources=len(set(collection.sources) - {""}),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        return asdict(self)
