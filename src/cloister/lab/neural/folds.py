"""Which queries train, validate and test: the collection's own split, or five folds."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.lab.neural.collection import RankingCollection

__all__ = ["N_FOLDS", "QueryFold", "cross_validation", "query_folds"]

N_FOLDS: Final = 5


class QueryFold(NamedTuple):
    """Numbers of queries, rising; no query is in two of the three."""

    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def query_folds(collection: RankingCollection, *, seed: int = 0) -> tuple[QueryFold, ...]:
    """Return the collection's own split as one fold, or five folds drawn by a seed."""
    if not collection.has_split:
        return cross_validation(len(collection.queries), seed=seed)
    roles = np.array([query.role for query in collection.queries])
    return (QueryFold(*(np.flatnonzero(roles == r) for r in ("training", "validation", "test"))),)


def cross_validation(
    n_queries: int, *, seed: int = 0, n_folds: int = N_FOLDS
) -> tuple[QueryFold, ...]:
    """Draw folds: each part of the queries tests once and validates once, as in LETOR.

    Examples
    --------
    >>> folds = cross_validation(10, seed=1)
    >>> [len(part) for part in folds[0]], sorted(np.concatenate([f.test for f in folds]).tolist())
    ([6, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if not 3 <= n_folds <= n_queries:
        raise DataError(
            f"{n_queries} queries cannot be cut into {n_folds} folds",
            where="n_folds",
            remedy="take at least 3 folds, and at least as many queries",
        )
    part = stream(seed, "neural", "folds").permutation(n_queries) % n_folds
    folds = []
    for test in range(n_folds):
        validation = (test - 1) % n_folds
        folds.append(
            QueryFold(
                np.flatnonzero((part != test) & (part != validation)),
                np.flatnonzero(part == validation),
                np.flatnonzero(part == test),
            )
        )
    return tuple(folds)
