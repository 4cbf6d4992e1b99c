"""What one reader may read, as documents, as pods or as one server, with exact statistics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import AccessDenied
from cloister.core.kernel import kernel
from cloister.index.entity_scoring import EntityScorer, Ranked
from cloister.index.entity_weights import (
    SUM,
    EntityStatistics,
    ModelSettings,
    inverse_frequencies,
    query_weights,
)
from cloister.index.postings import TermMajor, TermPostings

if TYPE_CHECKING:
    from cloister.index.reader_view import ReaderView

__all__ = ["LEVELS", "EntityView", "Level"]

Floats = NDArray[np.float64]
Level = Literal["document", "pod", "server"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
KEPT_NORMS: Final = 8  # statistics and forms that lengths of vectors are kept for


class EntityView(EntityStatistics):
    """The readable part of an index at one level, and its exact statistics.

    Entities have numbers: a document's own, the place of a pod in the snapshot, 0 for the server.
    An entity in which nothing may be read does not exist.
    """

    def __init__(self, view: ReaderView, level: Level) -> None:
        self.view = view
        self.level = level
        self._scorer: EntityScorer | None = None
        self._norms: list[tuple[EntityStatistics, str, Floats]] = []

    @cached_property
    def entity_of(self) -> NDArray[np.int32] | None:
        """The entity of each document; None where it is the document itself."""
        if self.level == "document":
            return None
        if self.level == "pod":
            return self.view.pods
        return np.zeros(len(self.view.lengths), np.int32)

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """The entities in which anything may be read, rising."""
        documents = self.view.documents
        return documents if self.entity_of is None else np.unique(self.entity_of[documents])

    @cached_property
    def lengths(self) -> Floats:
        """Number of readable tokens by entity number."""
        if self.entity_of is None:
            return self.view.lengths
        size = len(self.view.snapshot.pod_ids) if self.level == "pod" else 1
        sums: Floats = np.bincount(self.entity_of, self.view.lengths, size).astype(np.float64)
        return sums

    @cached_property
    def n_entities(self) -> float:
        """Number of entities in which anything may be read."""
        return float(len(self.numbers))

    @cached_property
    def mean_length(self) -> float:
        """Mean number of readable tokens; 0 where nothing may be read."""
        return float(self.lengths.sum() / self.n_entities) if self.n_entities else 0.0

    @cached_property
    def n_pairs(self) -> float:
        """Sum over all terms of the number of entities that hold it."""
        if self.level == "document" or len(self.numbers) == len(self.view.documents):
            return self.view.n_distinct()
        flat = self.view.term_major()
        if self.entity_of is None or self.level == "server":
            return float(len(flat.terms))
        return float(_count_pairs(flat.starts, flat.documents, self.entity_of, len(self.lengths)))

    def frequencies(self, terms: Sequence[str]) -> Floats:
        """Return in how many entities each term is."""
        return np.array([len(self.matches(term).documents) for term in terms], np.float64)

    def occurrences(self, terms: Sequence[str]) -> Floats:
        """Return how often each term occurs in all entities together."""
        return np.array([self.view.postings(term).n_occurrences for term in terms], np.float64)

    def matches(self, term: str) -> TermPostings:
        """Return the entities that hold a term, rising, and how often."""
        found = self.view.postings(term)
        if self.entity_of is None:
            return found
        sums = np.zeros(len(self.lengths), np.int32)
        _add_counts(found.documents, found.counts, self.entity_of, sums)
        entities = np.flatnonzero(sums).astype(np.int32)
        return TermPostings(entities, sums[entities])

    def name(self, number: int) -> str:
        """Return the id of a readable document or pod; the server's is not known here."""
        if self.level == "document":
            return self.view.doc_id(number)
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self.numbers) or self.numbers[place] != number:
            raise AccessDenied("not allowed, or no such resource")
        return self.view.snapshot.pod_ids[number] if self.level == "pod" else ""

    def top(
        self,
        terms: Sequence[str],
        k: int,
        settings: ModelSettings | None = None,
        statistics: EntityStatistics | None = None,
    ) -> list[tuple[str, float, int]]:
        """Return name, score and number of the best k entities; of equal scores the name decides.

        The parameters are those of `best`. The numbers are for further calls to this view: they
        tell of other documents, and of when something was added.
        """
        entities, scores = self.best(terms, k, settings, statistics)
        listed = [
            (-score, self.name(entity), entity)
            for entity, score in zip(entities.tolist(), scores.tolist(), strict=True)
        ]
        return [(name, -loss, entity) for loss, name, entity in sorted(listed)[:k]]

    def best(
        self,
        terms: Sequence[str],
        k: int,
        settings: ModelSettings | None = None,
        statistics: EntityStatistics | None = None,
    ) -> Ranked:
        """Return the best k entities and those equal to the last of them, best first.

        Parameters
        ----------
        terms
            The query's, analysed as the documents were.
        statistics
            Of which N, df and mean length are taken; the reader's own where not given.
        """
        settings = settings or ModelSettings()
        statistics = statistics or self
        query = query_weights(terms, statistics, settings)
        norms = None if query.finish == SUM else self.norms(statistics, settings)
        with self.view.lock:
            if self._scorer is None:
                self._scorer = EntityScorer(self.lengths)
            return self._scorer.best(query, self.matches, k, norms)

    def norms(self, statistics: EntityStatistics, settings: ModelSettings) -> Floats:
        """Return the lengths of the TF-IDF vectors of all entities, by number.

        Kept for the statistics that were asked for last, as long as they are the same object.
        """
        kept = self._norms
        for known, form, norms in kept:
            if known is statistics and form == settings.idf:
                return norms
        flat = self.view.term_major()
        terms = [term.decode("utf-8") for term in flat.terms]
        idf = inverse_frequencies(
            statistics.frequencies(terms), statistics.n_entities, settings.idf
        )
        norms = self._make_norms(flat, idf)
        self._norms = [(statistics, settings.idf, norms), *kept[: KEPT_NORMS - 1]]
        return norms

    def _make_norms(self, flat: TermMajor, idf: Floats) -> Floats:
        size = len(self.lengths)
        entity_of = np.arange(size, dtype=np.int32) if self.entity_of is None else self.entity_of
        squares = np.zeros(size)
        _add_squares(flat.starts, flat.documents, flat.counts, entity_of, idf, squares)
        return np.sqrt(squares)


@kernel
def _count_pairs(
    starts: NDArray[np.int64],
    documents: NDArray[np.int32],
    entity_of: NDArray[np.int32],
    n_entities: int,
) -> int:
    """Return the sum over all terms of the number of entities that hold it."""
    last = np.full(n_entities, -1, np.int64)
    n = 0
    for term in range(len(starts) - 1):
        for i in range(starts[term], starts[term + 1]):
            entity = entity_of[documents[i]]
            n += last[entity] != term
            last[entity] = term
    return n


@kernel
def _add_squares(
    starts: NDArray[np.int64],
    documents: NDArray[np.int32],
    counts: NDArray[np.int32],
    entity_of: NDArray[np.int32],
    weights: Floats,
    squares: Floats,
) -> None:
    """Add the square of each term's weight times its count to each entity, in order of terms."""
    sums = np.zeros(len(squares), np.int64)
    for term in range(len(starts) - 1):
        for i in range(starts[term], starts[term + 1]):
            sums[entity_of[documents[i]]] += counts[i]
        for i in range(starts[term], starts[term + 1]):
            entity = entity_of[documents[i]]
            if sums[entity]:  # the first document of this entity
                squares[entity] += (weights[term] * sums[entity]) ** 2
                sums[entity] = 0


@kernel
def _add_counts(
    documents: NDArray[np.int32],
    counts: NDArray[np.int32],
    entity_of: NDArray[np.int32],
    sums: NDArray[np.int32],
) -> None:
    for i in range(len(documents)):
        sums[entity_of[documents[i]]] += counts[i]
