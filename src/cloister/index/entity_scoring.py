"""Scores entities from lists of matches, and keeps the best k.

Scores of equal entities are equal to the last bit, whatever else the index holds: an entity's
weights are added up in the order of the query's terms. Where scores are equal, all are given out
that could be among the best k; the caller decides by name, since numbers say when something was
added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel
from cloister.index.best_k import keep_best, sort_best
from cloister.index.entity_weights import (
    COSINE,
    DISTANCE,
    SUM,
    QueryWeights,
    SparseModel,
    TermParameters,
)
from cloister.index.postings import TermPostings

__all__ = ["EntityScorer", "Ranked", "term_weight"]

Floats = NDArray[np.float64]

BM25: Final = 0
LM: Final = 1
TFIDF: Final = 2
_MOST_QUERIES: Final = 2**31 - 1  # then counting begins anew
_FORMS: Final[dict[SparseModel, int]] = {
    "bm25": BM25,
    "lm": LM,
    "tfidf-cosine": TFIDF,
    "tfidf-euclidean": TFIDF,
}


class Ranked(NamedTuple):
    """Entities and their scores, best first; of equal scores all, so perhaps more than k."""

    entities: NDArray[np.int32]
    scores: Floats


class EntityScorer:
    """Scores entities by number. One object serves one thread: it holds scratch memory.

    Parameters
    ----------
    lengths
        Number of tokens of each entity, as the user sees it.

    Examples
    --------
    >>> from cloister.index.entity_statistics import StatisticsTable
    >>> from cloister.index.entity_weights import ModelSettings, query_weights
    >>> statistics = StatisticsTable(3, 2.0, 3, {"cough": 2})
    >>> query = query_weights(["cough"], statistics, ModelSettings())
    >>> matches = TermPostings(np.array([0, 2], np.int32), np.array([2, 1], np.int32))
    >>> scorer = EntityScorer(np.array([3.0, 1.0, 1.0]))
    >>> scorer.best(query, lambda term: matches, 1)
    Ranked(entities=array([2], dtype=int32), scores=array([0.59086171]))
    """

    def __init__(self, lengths: Floats) -> None:
        self.lengths = lengths
        self._sums = np.zeros(len(lengths))
        self._last = np.zeros(len(lengths), np.int32)  # in which query an entity was touched last
        self._touched = np.empty(len(lengths), np.int32)
        self._n_queries = 0

    def best(
        self,
        query: QueryWeights,
        matches: Callable[[str], TermPostings],
        k: int,
        norms: Floats | None = None,
    ) -> Ranked:
        """Return the best k entities, and those that are equal to the last of them.

        Parameters
        ----------
        query
            The weights of its terms.
        matches
            Gives the entities that hold a term, and how often.
        k
            How many; none where that is less than 1.
        norms
            Lengths of the entities' vectors; for TF-IDF.
        """
        n = self._add_up(query, matches)
        if k < 1 or not n:
            return Ranked(np.empty(0, np.int32), np.empty(0))
        touched = self._touched[:n]
        norms = _NONE if norms is None else norms
        _finish(self._sums, touched, norms, query.norm, query.finish, query.constant)
        places, scores = np.empty(min(k, n), np.int32), np.empty(min(k, n))
        n_equal = _take_best(self._sums, touched, places, scores)
        if n_equal > len(places):  # ties with the last one: give all of them
            places = touched[self._sums[touched] >= scores[-1]]
            scores = self._sums[places]
            order = np.argsort(-scores, kind="stable")
            places, scores = places[order], scores[order]
        return Ranked(places, scores)

    def _add_up(self, query: QueryWeights, matches: Callable[[str], TermPostings]) -> int:
        if self._n_queries == _MOST_QUERIES:
            self._last[:] = self._n_queries = 0
        self._n_queries += 1
        form, n = _FORMS[query.model], 0
        for term, (scale, at_zero, by_length) in zip(query.terms, query.parameters, strict=True):
            entities, counts = matches(term)
            n = _add_term(
                form, scale, at_zero, by_length, entities, counts,
                self.lengths, self._sums, self._last, self._n_queries, self._touched, n,
            )  # fmt: skip
        return n


def term_weight(
    model: SparseModel, parameters: TermParameters, count: float, length: float
) -> float:
    """Return what one term adds to the sum of an entity: the part shown in an explanation."""
    return float(_weight_of(_FORMS[model], *parameters, count, length))


@inline_kernel
def _weight(
    form: int, scale: float, at_zero: float, by_length: float, count: float, length: float
) -> Any:
    if form == BM25:
        return scale * (count / (count + at_zero + by_length * length))
    if form == LM:
        return scale * np.log1p(by_length * (count / length))
    return scale * count


@kernel
def _weight_of(
    form: int, scale: float, at_zero: float, by_length: float, count: float, length: float
) -> Any:
    return _weight(form, scale, at_zero, by_length, count, length)


@kernel
def _add_term(
    form: int,
    scale: float,
    at_zero: float,
    by_length: float,
    entities: NDArray[np.int32],
    counts: NDArray[np.int32],
    lengths: Floats,
    sums: Floats,
    last: NDArray[np.int32],
    n_queries: int,
    touched: NDArray[np.int32],
    n: int,
) -> int:
    """Add a term's weights; return how many entities were touched so far."""
    for i in range(len(entities)):
        entity = entities[i]
        weight = _weight(form, scale, at_zero, by_length, float(counts[i]), lengths[entity])
        if last[entity] == n_queries:
            sums[entity] += weight
        else:
            last[entity] = n_queries
            sums[entity] = weight
            touched[n] = entity
            n += 1
    return n


@kernel
def _finish(
    sums: Floats,
    entities: NDArray[np.int32],
    norms: Floats,
    norm: float,
    finish: int,
    constant: float,
) -> None:
    """Turn sums into scores."""
    if finish == SUM and constant == 0.0:
        return
    for entity in entities:
        if finish == COSINE:
            below = norm * norms[entity]
            sums[entity] = sums[entity] / below if below > 0 else 0.0
        elif finish == DISTANCE:
            squared = norm * norm + norms[entity] ** 2 - 2 * sums[entity]
            sums[entity] = -np.sqrt(max(squared, 0.0))
        else:
            sums[entity] += constant


@kernel
def _take_best(
    sums: Floats, entities: NDArray[np.int32], found: NDArray[np.int32], scores: Floats
) -> int:
    """Write the best, best first; return how many are as good as the last of them or better.

    Those that are equal to the worst kept so far are counted as they are left out or pushed out.
    """
    n_found, k, n_equal = 0, len(found), 0
    for entity in entities:
        score = sums[entity]
        if n_found < k:
            n_found = keep_best(found, scores, n_found, entity, score)
        elif score > scores[0]:
            worst = scores[0]
            keep_best(found, scores, n_found, entity, score)
            n_equal = n_equal + 1 if scores[0] == worst else 0
        elif score == scores[0]:
            n_equal += 1
    sort_best(found, scores, n_found)
    return n_found + n_equal


_NONE: Final = np.empty(0)
