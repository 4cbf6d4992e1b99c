"""Ranking by word vectors (ESPRESSO, algorithm 1, part 2) at document, pod and server level.

The vector of an entity is the mean vector of the words that the user may read in it; that of a
query is the mean over its words. Words without a vector do not count, and an entity in which no
word has one is not ranked. Scores:

- ``w2v-cosine``: cosine of the two vectors;
- ``w2v-euclidean``: 1 / (1 + distance), the inverse of the Euclidean distance, at most 1.

Both depend on the query, on what the user may read of the entity and on the user's vectors, and on
no statistics of a server: scores from different servers are comparable as they are.

Whoever ranks holds the user's vectors, which tell what the user may read anywhere
(:mod:`cloister.search.word_vectors`). A server that is not to know them must not be the one that
ranks: `EntityVectors` can be made and kept on the user's side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, summing_kernel
from cloister.index.entity_scoring import Ranked
from cloister.index.entity_view import EntityView
from cloister.search.word_vector_table import WordVectors

__all__ = ["VECTOR_MODELS", "EntityVectors", "VectorModel", "VectorPart", "similarities"]

Floats = NDArray[np.float64]
VectorModel = Literal["w2v-cosine", "w2v-euclidean"]
VECTOR_MODELS: Final[tuple[VectorModel, ...]] = get_args(VectorModel)


class VectorPart(NamedTuple):
    """What one word of the query adds to the cosine with one entity."""

    term: str
    weight: float


class EntityVectors:
    """Mean vectors of all entities of a level that one user may read.

    Sums run over the words of an entity in the order of their bytes, so that a vector depends, to
    the last bit, on nothing outside its entity.

    Parameters
    ----------
    entities
        What the user may read, as documents, pods or one server.
    vectors
        The user's.

    Examples
    --------
    >>> from cloister.core.ids import AgentId, DocId, PodId
    >>> from cloister.core.rights import Reader, Rights
    >>> from cloister.index.postings import Postings
    >>> from cloister.index.reader_view import ReaderView
    >>> from cloister.index.snapshot import Segment, Snapshot
    >>> from cloister.index.term_counts import count_terms
    >>> one, two = np.ones(2, np.bool_), np.zeros(2, np.int32)
    >>> postings = Postings.build(count_terms(["cough cough fever", "fever"]))
    >>> segment = Segment(postings, (DocId("a"), DocId("b")), two, one, two)
    >>> snapshot = Snapshot(1, (segment,), (PodId("p"),), (Rights(public=True),))
    >>> documents = ReaderView(snapshot, Reader(AgentId("ann"))).level("document")
    >>> vectors = WordVectors(("cough", "fever"), np.eye(2, dtype=np.float32), np.array([2, 2]))
    >>> EntityVectors(documents, vectors).best(["fever"], 1, "w2v-cosine").entities.tolist()
    [1]
    """

    def __init__(self, entities: EntityView, vectors: WordVectors) -> None:
        self.vectors = vectors
        means, n_words = _means(entities, vectors)
        held = np.flatnonzero(n_words)
        self.numbers: NDArray[np.int32] = entities.numbers[held]
        self.means: Floats = means[held]

    def scores(self, terms: Sequence[str], model: VectorModel) -> Floats:
        """Return the score of each entity in `numbers`; all 0 if no word has a vector."""
        if not self.knows_any(terms):
            return np.zeros(len(self.numbers))
        return similarities(self.means, self.vectors.query_mean(terms), model)

    def knows_any(self, terms: Sequence[str]) -> bool:
        """Say whether any word of a query has a vector."""
        return any(term in self.vectors.positions for term in terms)

    def best(
        self,
        terms: Sequence[str],
        k: int,
        model: VectorModel,
        among: NDArray[np.bool_] | None = None,
    ) -> Ranked:
        """Return the best k entities and those equal to the last of them, best first.

        None, if no word of the query has a vector.

        Parameters
        ----------
        among
            Which of `numbers` are ranked; all where not given.
        """
        if k < 1 or not self.knows_any(terms):
            return Ranked(np.empty(0, np.int32), np.empty(0))
        numbers, scores = self.numbers, self.scores(terms, model)
        if among is not None:
            numbers, scores = numbers[among], scores[among]
        if len(scores) > k:
            floor = np.partition(scores, len(scores) - k)[len(scores) - k]
            kept = np.flatnonzero(scores >= floor)
            numbers, scores = numbers[kept], scores[kept]
        order = np.argsort(-scores, kind="stable")
        return Ranked(numbers[order], scores[order])

    def parts(self, terms: Sequence[str], number: int) -> tuple[VectorPart, ...]:
        """Take the cosine with one entity apart: the weights of the words add up to it."""
        place = int(np.searchsorted(self.numbers, number))
        known = [term for term in terms if term in self.vectors.positions]
        query = self.vectors.query_mean(known)
        if place == len(self.numbers) or self.numbers[place] != number or not query.any():
            return ()
        mean = self.means[place]
        below = float(np.linalg.norm(query) * np.linalg.norm(mean)) * len(known)
        return tuple(
            VectorPart(term, float(self.vectors.mean([term]) @ mean) / below if below else 0.0)
            for term in known
        )


def similarities(means: Floats, query: Floats, model: VectorModel) -> Floats:
    """Return the scores of some entities' mean vectors for a query's, as the module says.

    Examples
    --------
    >>> means = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> similarities(means, np.array([1.0, 0.0]), "w2v-cosine").tolist()
    [1.0, 0.6]
    """
    scores = np.empty(len(means))
    if model == "w2v-cosine":
        _cosines(means, query, scores)
    else:
        _inverse_distances(means, query, scores)
    return scores


def _means(entities: EntityView, vectors: WordVectors) -> tuple[Floats, Floats]:
    """Return the mean vectors of the entities, and how many words of each have one."""
    size = int(entities.numbers.max(initial=-1)) + 1
    row_of = np.full(size, -1, np.int64)
    row_of[entities.numbers] = np.arange(len(entities.numbers))
    sums = np.zeros((len(entities.numbers), vectors.size))
    n_words = np.zeros(len(entities.numbers))
    for word in sorted(vectors.words, key=str.encode):
        numbers, counts = entities.matches(word)
        row = vectors.vectors[vectors.positions[word]]
        _add_word(sums, n_words, row_of[numbers], counts, row)
    sums /= np.maximum(n_words, 1.0)[:, None]
    return sums, n_words


@kernel
def _add_word(
    sums: Floats,
    n_words: Floats,
    rows: NDArray[np.int64],
    counts: NDArray[np.int32],
    vector: NDArray[np.float32],
) -> None:
    for i in range(len(rows)):
        n_words[rows[i]] += counts[i]
        for j in range(len(vector)):
            sums[rows[i], j] += counts[i] * np.float64(vector[j])


@summing_kernel
def _cosines(means: Floats, query: Floats, scores: Floats) -> None:
    squared = 0.0
    for j in range(len(query)):
        squared += query[j] * query[j]
    for i in range(len(means)):
        product, own = 0.0, 0.0
        for j in range(len(query)):
            product += means[i, j] * query[j]
            own += means[i, j] * means[i, j]
        below = np.sqrt(squared * own)
        scores[i] = product / below if below > 0 else 0.0


@summing_kernel
def _inverse_distances(means: Floats, query: Floats, scores: Floats) -> None:
    for i in range(len(means)):
        squared = 0.0
        for j in range(len(query)):
            difference = means[i, j] - query[j]
            squared += difference * difference
        scores[i] = 1.0 / (1.0 + np.sqrt(squared))
