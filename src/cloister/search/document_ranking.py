"""Ranks what one reader may read on one server: first the pods, then the documents of the best.

Equal scores are put into the order of names, which says nothing of what else the index holds.
"""

from __future__ import annotations

import heapq
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import DocId, PodId
from cloister.index.entity_scoring import EntityScorer, Ranked
from cloister.index.entity_weights import SUM, EntityStatistics, query_weights
from cloister.index.postings import TermPostings
from cloister.index.reader_view import ReaderView
from cloister.search.node import Hit, ScoreRest, SubQuery, TermPart
from cloister.search.pod_explanation import PodRanking
from cloister.search.score_parts import score_rest, term_parts

__all__ = ["DocumentRanking", "ScoredDocument", "best_pods", "pods_but", "scored_documents"]


class ScoredDocument(NamedTuple):
    """A document that was found."""

    doc_id: DocId
    pod_id: PodId
    score: float
    length: int
    number: int  # in the view


def best_pods(
    view: ReaderView, query: SubQuery, n_pods: int, without: frozenset[PodId] = frozenset()
) -> NDArray[np.int32]:
    """Return the numbers of the best pods, by the query's model with a pod as the entity."""
    if n_pods < 1:
        return np.empty(0, np.int32)
    n_listed = n_pods + len(without)
    listed = view.level("pod").top(query.terms, n_listed, query.settings, query.pod_statistics)
    names = view.snapshot.pod_ids
    kept = [pod for _, _, pod in listed if names[pod] not in without]
    return np.array(kept[:n_pods], np.int32)


def pods_but(view: ReaderView, without: frozenset[PodId]) -> NDArray[np.bool_]:
    """Return which pods of a snapshot are not among those to be left out."""
    names = view.snapshot.pod_ids
    if not without:
        return np.ones(len(names), np.bool_)
    return np.array([name not in without for name in names], np.bool_)


def scored_documents(view: ReaderView, ranked: Ranked, k: int) -> list[ScoredDocument]:
    """Return the best k of some ranked documents; of equal scores the id decides."""
    lengths = view.level("document").lengths
    rising = np.argsort(ranked.entities)
    numbers = ranked.entities[rising]
    losses, names = (-ranked.scores[rising]).tolist(), view.doc_ids(numbers)
    best = heapq.nsmallest(k, zip(losses, names, numbers.tolist(), strict=True))
    return [
        ScoredDocument(doc_id, view.pod_id(number), -loss, int(lengths[number]), number)
        for loss, doc_id, number in best
    ]


class DocumentRanking:
    """The documents of one view, ranked for one query.

    Parameters
    ----------
    without
        Pods whose documents are left out. Statistics are those of all documents.
    """

    def __init__(
        self, view: ReaderView, query: SubQuery, without: frozenset[PodId] = frozenset()
    ) -> None:
        self.view = view
        self.query = query
        self._without = without
        self.level = view.level("document")
        self.statistics: EntityStatistics = query.document_statistics or self.level
        self.weights = query_weights(query.terms, self.statistics, query.settings)

    def best(self, k: int) -> list[ScoredDocument]:
        """Return the best k documents; of equal scores the id decides."""
        if k < 1:
            return []
        return scored_documents(self.view, self._ranked(k), k)

    def explained(self, found: ScoredDocument, hit: Hit) -> Hit:
        """Return a document's hit with its score taken apart, and its pod's where asked for."""
        parts, rest = self.parts(found)
        pod = self._pods.of_document(found.number) if self.query.explain_pods else None
        return hit._replace(parts=parts, rest=rest, pod=pod)

    def parts(self, found: ScoredDocument) -> tuple[tuple[TermPart, ...], ScoreRest]:
        """Take a score apart; `cloister.search.explanation.added_up` puts it together again."""
        weights, statistics = self.weights, self.statistics
        counts = [_count(self.view.postings(term), found.number) for term in weights.terms]
        norm = 0.0 if self._norms is None else float(self._norms[found.number])
        rest = score_rest(weights, statistics, self.query.settings, found.length, norm)
        return term_parts(weights, statistics, counts, found.length), rest

    @cached_property
    def _pods(self) -> PodRanking:
        return PodRanking(self.view, self.query)

    @cached_property
    def _norms(self) -> NDArray[np.float64] | None:
        if self.weights.finish == SUM:
            return None
        return self.level.norms(self.statistics, self.query.settings)

    @cached_property
    def _members(self) -> NDArray[np.int32]:
        """The documents of the best pods, or of all but some, rising."""
        n_pods = self.query.n_pods
        if n_pods is None:
            chosen = pods_but(self.view, self._without)
        else:
            chosen = np.zeros(len(self.view.snapshot.pod_ids), np.bool_)
            chosen[best_pods(self.view, self.query, n_pods, self._without)] = True
        documents = self.view.documents
        return documents[chosen[self.view.pods[documents]]]

    def _ranked(self, k: int) -> Ranked:
        if self.query.n_pods is None and not self._without:
            return self.level.best(self.query.terms, k, self.query.settings, self.statistics)
        members = self._members
        norms = None if self._norms is None else self._norms[members]
        scorer = EntityScorer(self.level.lengths[members])
        places, scores = scorer.best(
            self.weights, lambda term: _among(self.view.postings(term), members), k, norms
        )
        return Ranked(members[places], scores)


def _among(found: TermPostings, members: NDArray[np.int32]) -> TermPostings:
    """Return which of some documents hold a term, by their places, and how often."""
    if not len(found.documents):
        return found
    at = np.minimum(np.searchsorted(found.documents, members), len(found.documents) - 1)
    places = np.flatnonzero(found.documents[at] == members).astype(np.int32)
    return TermPostings(places, found.counts[at[places]])


def _count(found: TermPostings, number: int) -> int:
    at = int(np.searchsorted(found.documents, number))
    holds = at < len(found.documents) and found.documents[at] == number
    return int(found.counts[at]) if holds else 0
