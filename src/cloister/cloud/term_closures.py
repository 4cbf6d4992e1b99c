"""Term closures: every term of a vocabulary in one group of similar terms.

A closed soft match map holds a document for all terms of a closure or for none, so that it does not
say which of them occurs. What a closure hides depends on its size: it should have p terms at least.
`cloister.cloud.fixed_threshold_clustering` and `cloister.cloud.adaptive_clustering` make closures
from word vectors. Terms without a vector are similar to nothing; they are put together by a hash.

**What holds.** The map's keys are the same for any non-empty choice of terms of the closure that
may occur in the document. **What does not.** Who knows the vocabulary and the vectors can compute
the closures themselves. A rare term in a closure with common ones is hardly the one that occurs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError

__all__ = ["ClosureSizes", "TermClosures", "hashed_groups", "unit_vectors"]

Integers = NDArray[np.int64]


class ClosureSizes(NamedTuple):
    """How large closures are."""

    n_closures: int
    smallest: int
    mean: float
    largest: int
    share_below: float  # share of terms in closures smaller than asked for


@dataclass(frozen=True, eq=False)
class TermClosures:
    """Which closure each term belongs to: exactly one.

    Parameters
    ----------
    labels
        The closure of each term, numbered from 0 without gaps.

    Examples
    --------
    >>> closures = TermClosures(np.array([0, 1, 0]))
    >>> closures.members(0).tolist(), closures.sizes.tolist()
    ([0, 2], [2, 1])
    >>> closures.report(2)
    ClosureSizes(n_closures=2, smallest=1, mean=1.5, largest=2, share_below=0.3333333333333333)
    """

    labels: Integers

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels, np.int64)
        if labels.ndim != 1 or (len(labels) and int(labels.min()) < 0):
            raise DataError("one label of at least 0 is needed a term", where="TermClosures")
        if len(labels) and not np.bincount(labels).all():
            raise DataError("a closure has no terms", where="TermClosures")
        object.__setattr__(self, "labels", labels)

    @classmethod
    def numbered(cls, roots: NDArray[Any]) -> TermClosures:
        """Return groups, given by any one number each, in the order of their first terms."""
        _, first, which = np.unique(roots, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return cls(rank[which.reshape(-1)])

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self.labels)

    @property
    def n_closures(self) -> int:
        """Number of closures."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> Integers:
        """Terms of each closure."""
        return np.bincount(self.labels).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """Where the terms of each closure begin in `terms`."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def terms(self) -> Integers:
        """All terms, closure after closure, rising within each."""
        return np.argsort(self.labels, kind="stable").astype(np.int64)

    def members(self, closure: int) -> Integers:
        """Return the terms of a closure, rising."""
        return self.terms[self.starts[closure] : self.starts[closure + 1]]

    def report(self, min_size: int) -> ClosureSizes:
        """Return how large closures are, and the share of terms in those below a size."""
        if not self.n_terms:
            return ClosureSizes(0, 0, 0.0, 0, 0.0)
        sizes = self.sizes
        below = float(sizes[sizes < min_size].sum() / self.n_terms)
        return ClosureSizes(
            len(sizes), int(sizes.min()), float(sizes.mean()), int(sizes.max()), below
        )


def unit_vectors(terms: Sequence[str], vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return vectors of length 1; a row of zeros, a term without a vector, stays.

    Raises
    ------
    DataError
        If there is not one finite row for each term.

    Examples
    --------
    >>> unit_vectors(["a", "b"], np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = np.ascontiguousarray(vectors, np.float32)
    if rows.ndim != 2 or len(rows) != len(terms) or not bool(np.isfinite(rows).all()):
        raise DataError(f"{len(terms)} finite vectors are needed", where="vectors")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    lengths[lengths == 0] = 1.0
    return np.asarray(rows / lengths, np.float32)


def hashed_groups(terms: Sequence[str], min_size: int, *, salt: bytes = b"") -> Integers:
    """Return a group for each term: sizes from ``min_size`` to under twice that.

    Terms are sorted by a hash and cut into groups as equal as can be; fewer than ``min_size`` terms
    make one group.

    Parameters
    ----------
    salt
        A secret of the client (up to 64 bytes) keeps others from computing the groups.

    Examples
    --------
    >>> np.bincount(hashed_groups(["a", "b", "c", "d", "e"], 2)).tolist()
    [3, 2]
    """
    digests = [hashlib.blake2b(t.encode(), key=salt, digest_size=16).digest() for t in terms]
    order = np.array(sorted(range(len(terms)), key=lambda i: (digests[i], terms[i])), np.int64)
    n_groups = max(1, len(terms) // min_size)
    groups = np.empty(len(terms), np.int64)
    for group, part in enumerate(np.array_split(order, n_groups)):
        groups[part] = group
    return groups
