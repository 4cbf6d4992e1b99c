"""How a pod stands among the pods of its server, for one reader and one query.

The pods are ranked as `cloister.search.document_ranking.best_pods` does it: by what the reader may
read, with the statistics that came with the query or the reader's own on this server.
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from cloister.index.entity_scoring import Ranked
from cloister.index.entity_weights import SUM, EntityStatistics, query_weights
from cloister.index.reader_view import ReaderView
from cloister.search.node import LevelScore, SubQuery
from cloister.search.score_parts import score_rest, term_parts

__all__ = ["PodRanking"]


class PodRanking:
    """The pods of one view, ranked for one query. One object serves one thread at a time."""

    def __init__(self, view: ReaderView, query: SubQuery) -> None:
        self._view = view
        self._query = query
        self._level = view.level("pod")
        self._statistics: EntityStatistics = query.pod_statistics or self._level
        self._weights = query_weights(query.terms, self._statistics, query.settings)
        self._of = cache(self._explained)

    def of_document(self, number: int) -> LevelScore:
        """Return how the pod stands in which a document lies that holds a term of the query."""
        self._view.doc_id(number)  # raises unless the document may be read
        return self._of(int(self._view.pods[number]))

    def _explained(self, pod: int) -> LevelScore:
        ranked, length = self._ranked, float(self._level.lengths[pod])
        score = float(ranked.scores[np.flatnonzero(ranked.entities == pod)[0]])
        counts = [int(by_pod[pod]) for by_pod in self._counts]
        norm = 0.0 if self._norms is None else float(self._norms[pod])
        return LevelScore(
            score,
            self._rank(pod, score),
            len(ranked.entities),
            int(length),
            term_parts(self._weights, self._statistics, counts, length),
            score_rest(self._weights, self._statistics, self._query.settings, length, norm),
        )

    def _rank(self, pod: int, score: float) -> int:
        """Return a pod's place, from 1; of equal scores the name decides."""
        ranked, name = self._ranked, self._level.name(pod)
        equal = ranked.entities[ranked.scores == score].tolist()
        n_before = sum(self._level.name(other) < name for other in equal)
        return 1 + int(np.count_nonzero(ranked.scores > score)) + n_before

    @cached_property
    def _ranked(self) -> Ranked:
        """All pods that hold a term of the query, with their scores."""
        query = self._query
        n_pods = len(self._level.numbers)
        return self._level.best(query.terms, n_pods, query.settings, self._statistics)

    @cached_property
    def _counts(self) -> list[NDArray[np.int32]]:
        """How often each pod holds each different term, by its number."""
        found = []
        for term in self._weights.terms:
            pods, counts = self._level.matches(term)
            by_pod = np.zeros(len(self._level.lengths), np.int32)
            by_pod[pods] = counts
            found.append(by_pod)
        return found

    @cached_property
    def _norms(self) -> NDArray[np.float64] | None:
        if self._weights.finish == SUM:
            return None
        return self._level.norms(self._statistics, self._query.settings)
