"""Who learns which term was asked for: an owner with the hash key, a server without it.

An owner hashes every term of a vocabulary and takes the one that agrees with the query in most
rows: decoys agree by chance in one row of n_columns. A server without the key cannot hash, but two
queries for the same term agree in more columns than two others. Sealed queries show it no columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.adversary.guesses import Guesses, count_guesses
from cloister.core.kernel import parallel_kernel
from cloister.sketch.keyed_hash import HashedTerms

__all__ = ["Identified", "identify_terms", "link_repeats"]

Integers = NDArray[np.int64]


class Identified(NamedTuple):
    """What an owner finds.

    Parameters
    ----------
    found
        How often the term alone agrees with the query in most rows.
    n_candidates
        Median number of terms that agree in as many rows as the true one, or more.
    """

    found: Guesses
    n_candidates: float


def identify_terms(
    hashed: HashedTerms, n_true_rows: int, *, n_trials: int, rng: np.random.Generator
) -> Identified:
    """Let an owner look for the terms of single-term queries among a whole vocabulary.

    Examples
    --------
    >>> from cloister.sketch.keyed_hash import HashKey, SketchShape
    >>> words = [f"term{i}" for i in range(2000)]
    >>> hashed = HashKey(bytes(32)).hash_terms(words, SketchShape())
    >>> found = identify_terms(hashed, 15, n_trials=20, rng=np.random.default_rng(1))
    >>> found.found.accuracy, found.n_candidates
    (1.0, 1.0)
    """
    terms = rng.integers(hashed.n_terms, size=n_trials)
    columns = _queries(hashed, terms, n_true_rows, rng)
    n_better = _as_good(hashed.columns, columns, terms)
    return Identified(count_guesses(n_better == 1), float(np.median(n_better)))


def link_repeats(
    hashed: HashedTerms, n_true_rows: int, *, n_trials: int, rng: np.random.Generator
) -> Guesses:
    """Let a server without the key say whether two queries are for the same term.

    Half of the pairs are. The threshold on agreeing columns is chosen on one half of the trials
    and tried on the other.
    """
    same = rng.integers(2, size=2 * n_trials).astype(np.bool_)
    first = rng.integers(hashed.n_terms, size=2 * n_trials)
    second = np.where(same, first, rng.integers(hashed.n_terms, size=2 * n_trials))
    agreeing = (
        _queries(hashed, first, n_true_rows, rng) == _queries(hashed, second, n_true_rows, rng)
    ).sum(1)
    thresholds = np.arange(1, hashed.shape.n_rows + 1)
    guesses = agreeing[:n_trials, None] >= thresholds
    best = thresholds[(guesses == same[:n_trials, None]).mean(0).argmax()]
    return count_guesses((agreeing[n_trials:] >= best) == same[n_trials:])


def _queries(
    hashed: HashedTerms, terms: Integers, n_true_rows: int, rng: np.random.Generator
) -> NDArray[np.uint32]:
    """Return obfuscated queries, one a term, each with rows and decoys of its own (eq. 4)."""
    n_rows = hashed.shape.n_rows
    true_rows = rng.permuted(np.arange(n_rows) < np.full((len(terms), 1), n_true_rows), axis=1)
    decoys = rng.integers(hashed.n_terms, size=true_rows.shape)
    return np.where(true_rows, hashed.columns[terms], hashed.columns[decoys, np.arange(n_rows)])


@parallel_kernel
def _as_good(columns: NDArray[np.uint32], queries: NDArray[np.uint32], truth: Integers) -> Integers:
    """Count the terms that agree with a query in as many rows as the true one, or more."""
    n_terms, n_rows = columns.shape
    counted = np.zeros(len(queries), np.int64)
    for trial in numba.prange(len(queries)):
        wanted = 0
        for row in range(n_rows):
            wanted += columns[truth[trial], row] == queries[trial, row]
        for term in range(n_terms):
            agreeing = 0
            for row in range(n_rows):
                agreeing += columns[term, row] == queries[trial, row]
            counted[trial] += agreeing >= wanted
    return counted
