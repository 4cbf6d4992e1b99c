"""Queries of a collection with their candidates, row after row, and nDCG of scores for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.data.ranking_data import RankingData
from cloister.lab.neural.candidates import QueryCandidates
from cloister.lab.neural.collection import RankingCollection
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.rank.neural_batches import JudgedTexts

__all__ = ["CUTOFFS", "QueryRows", "RowMaker", "query_rows"]

CUTOFFS: Final = (1, 3, 10)  # of nDCG, as the slides have them

Floats = NDArray[np.float64]
RowMaker = Callable[[Sequence[str], NDArray[np.int64]], NDArray[Any]]
"""Makes the rows of features for a query's terms and some documents."""


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Some queries with their candidates; rows of one query are adjacent.

    Parameters
    ----------
    terms
        Of each query.
    candidates
        Numbers of documents, their grades and BM25 scores.
    grade_counts
        Judged documents of each query (row) by grade (column), candidates or not: nDCG's ideal
        ranking is made of them.

    Examples
    --------
    >>> one = QueryCandidates(np.array([4, 2]), np.array([0, 1], np.int8), np.array([2.0, 1.5]))
    >>> rows = QueryRows((("cough",),), (one,), np.array([[0, 1]]))
    >>> {k: values.tolist() for k, values in rows.ndcg(rows.bm25).items()}[1]
    [0.0]
    """

    terms: tuple[tuple[str, ...], ...] = field(repr=False)
    candidates: tuple[QueryCandidates, ...] = field(repr=False)
    grade_counts: NDArray[np.int64] = field(repr=False)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.terms)

    @property
    def n_terms(self) -> NDArray[np.int64]:
        """Number of different terms of each query."""
        return np.array([len(set(terms)) for terms in self.terms], np.int64)

    @property
    def documents(self) -> tuple[NDArray[np.int64], ...]:
        """The candidates of each query."""
        return tuple(one.documents for one in self.candidates)

    @property
    def grades(self) -> tuple[NDArray[np.int8], ...]:
        """The grades of each query's candidates."""
        return tuple(one.grades for one in self.candidates)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the rows of each query begin, and the number of rows at the end."""
        sizes = [len(one.documents) for one in self.candidates]
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)

    @cached_property
    def labels(self) -> NDArray[np.int8]:
        """The grade of each row."""
        return np.concatenate([np.empty(0, np.int8), *self.grades]).astype(np.int8)

    @property
    def bm25(self) -> Floats:
        """The BM25 score of each row."""
        return np.concatenate([np.empty(0), *(one.bm25 for one in self.candidates)])

    def data(self, features: NDArray[Any]) -> RankingData:
        """Return a learning-to-rank data set of features, one row a candidate."""
        return RankingData(features, self.labels, self.offsets)

    def made(self, make: RowMaker) -> NDArray[Any]:
        """Return the rows that something makes query by query, one under the other."""
        both = zip(self.terms, self.documents, strict=True)
        return np.concatenate([make(terms, documents) for terms, documents in both])

    def texts(self, documents: Sequence[Sequence[str]]) -> JudgedTexts:
        """Return the same as a neural ranker takes it, given the texts of all documents."""
        numbers = np.concatenate([np.empty(0, np.int64), *self.documents])
        return JudgedTexts(self.terms, documents, numbers, self.labels, self.offsets)

    def spread(self, scores: NDArray[Any]) -> float:
        """Return the standard deviation of scores within queries.

        What differs between queries changes no order.

        Examples
        --------
        >>> one = QueryCandidates(np.array([4, 2]), np.zeros(2, np.int8), np.zeros(2))
        >>> rows = QueryRows((("cough",), ("rash",)), (one, one), np.array([[0, 1], [0, 1]]))
        >>> rows.spread(np.array([5.0, 5.0, 9.0, 9.0])), rows.spread(np.array([0.0, 2.0, 8.0, 6.0]))
        (0.0, 1.0)
        """
        parts = np.split(np.asarray(scores, np.float64), self.offsets[1:-1])
        centred = [part - part.mean() for part in parts if len(part)]
        return float(np.sqrt(np.mean(np.concatenate(centred) ** 2))) if centred else 0.0

    def ndcg(self, scores: NDArray[Any], *, seed: int = 0) -> dict[int, Floats]:
        """Return nDCG@1, 3 and 10 of each query.

        A query with no relevant candidate has 0. Equal scores are put in an order drawn at random:
        were it that of BM25, coarse scores would borrow from it.
        """
        ranked = rank_labels(
            scores,
            self.labels,
            self.offsets,
            depth=max(CUTOFFS),
            ties="random",
            rng=stream(seed, "neural", "ties"),
            grade_counts=self.grade_counts,
        )
        return {k: ndcg(ranked, k=k, nothing_relevant="zero") for k in CUTOFFS}


def query_rows(
    collection: RankingCollection,
    candidates: Sequence[QueryCandidates],
    queries: NDArray[np.int64],
) -> QueryRows:
    """Return some queries of a collection, in the order given."""
    return QueryRows(
        tuple(collection.queries[query].terms for query in queries),
        tuple(candidates[query] for query in queries),
        collection.grade_counts(queries),
    )
