"""Ranks what one reader may read on one server by the reader's word vectors: pods, then documents.

As `cloister.search.document_ranking` does with sparse models. All documents are ranked in which any
word has a vector, whether they hold a word of the query or not.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import PodId
from cloister.index.entity_view import Level
from cloister.index.reader_view import ReaderView
from cloister.search.document_ranking import ScoredDocument, pods_but, scored_documents
from cloister.search.node import Hit, SubQuery, VectorScore
from cloister.search.word_vector_ranking import EntityVectors, VectorModel
from cloister.search.word_vector_table import WordVectors

__all__ = ["VectorDocumentRanking", "ViewVectors"]


class ViewVectors:
    """The mean vectors of one view at each level, made when they are first needed."""

    def __init__(self, view: ReaderView, vectors: WordVectors) -> None:
        self.view = view
        self.vectors = vectors
        self._levels: dict[Level, EntityVectors] = {}

    def level(self, level: Level) -> EntityVectors:
        """Return those of documents, of pods, or of the server."""
        if level not in self._levels:
            self._levels[level] = EntityVectors(self.view.level(level), self.vectors)
        return self._levels[level]

    @property
    def mean(self) -> tuple[float, ...]:
        """The server's mean vector; empty where no readable word has a vector."""
        means = self.level("server").means
        return tuple(means[0].tolist()) if len(means) else ()


class VectorDocumentRanking:
    """The documents of one view, ranked for one query by word vectors; some pods' are left out."""

    def __init__(
        self,
        known: ViewVectors,
        query: SubQuery,
        model: VectorModel,
        without: frozenset[PodId] = frozenset(),
    ) -> None:
        self._without = without
        self.view = known.view
        self.query = query
        self.model = model
        self._known = known
        self._documents = known.level("document")

    def best(self, k: int) -> list[ScoredDocument]:
        """Return the best k documents; of equal scores the id decides."""
        ranked = self._documents.best(self.query.terms, k, self.model, self._among)
        return scored_documents(self.view, ranked, k)

    def explained(self, found: ScoredDocument, hit: Hit) -> Hit:
        """Return a document's hit with its score taken apart."""
        entities, terms = self._documents, self.query.terms
        place = int(np.searchsorted(entities.numbers, found.number))
        difference = entities.means[place] - entities.vectors.query_mean(terms)
        parts = entities.parts(terms, found.number)
        known = entities.vectors.positions
        score = VectorScore(
            self.model,
            parts,
            tuple(dict.fromkeys(term for term in terms if term not in known)),
            found.score if self.model == "w2v-cosine" else sum(part.weight for part in parts),
            float(np.linalg.norm(difference)),
        )
        return hit._replace(vector_score=score)

    @cached_property
    def _among(self) -> NDArray[np.bool_] | None:
        """Which of the documents lie in the best pods, or not in some; None for all."""
        if self.query.n_pods is None and not self._without:
            return None
        chosen = pods_but(self.view, self._without)
        if self.query.n_pods is not None:
            chosen[:] = False
            chosen[self._best_pods(self.query.n_pods)] = True
        return chosen[self.view.pods[self._documents.numbers]]

    def _best_pods(self, n_pods: int) -> NDArray[np.int32]:
        """Return the numbers of the best pods; of equal scores the name decides."""
        n_ranked = n_pods + len(self._without)
        ranked = self._known.level("pod").best(self.query.terms, n_ranked, self.model)
        pods = self.view.level("pod")
        listed = sorted(
            (-score, pods.name(number), number)
            for number, score in zip(ranked.entities.tolist(), ranked.scores.tolist(), strict=True)
        )
        kept = [number for _, name, number in listed if name not in self._without]
        return np.array(kept[:n_pods], np.int32)
