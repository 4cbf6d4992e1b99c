"""Labels in ranked order: what every measure of ranking quality reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import parallel_kernel
from cloister.measure.ragged import checked_cutoff, checked_offsets
from cloister.measure.ranking import Ties, rank_rows

__all__ = ["Labelled", "RankedLabels", "count_grades", "rank_labels"]

MAX_GRADE: Final = 31  # the gain 2^31 - 1 is still exact; grades in use end at 4 or 5
NO_CUTOFF: Final = int(np.iinfo(np.int64).max)


class Labelled(Protocol):
    """Anything with a label a row and offsets a query."""

    @property
    def labels(self) -> NDArray[Any]:
        """Relevance grade of each row."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each query's rows begin, and the number of rows at the end."""


@dataclass(frozen=True)
class RankedLabels:
    """The grades of each query's documents, best-ranked first.

    Parameters
    ----------
    labels
        Relevance grades in ranked order, query after query; a negative one counts as 0.
    offsets
        Where each query's labels begin, and the number of labels at the end.
    grade_counts
        How many documents of each grade (column) a query (row) has. They cover everything that
        a perfect ranking could show, also documents that this ranking does not hold: ideal
        rankings and numbers of relevant documents come from here. No ranking may show more
        relevant documents of a grade than are counted.
    depth
        Where rankings were cut; None if they were not. Measures refuse to look further.

    Examples
    --------
    >>> found = RankedLabels(np.array([1, 0]), np.array([0, 2]), np.array([[1, 3]]))
    >>> found.n_queries, found.n_relevant().tolist()
    (1, [3])
    """

    labels: NDArray[Any]
    offsets: NDArray[np.int64]
    grade_counts: NDArray[np.int64]
    depth: int | None = None

    def __post_init__(self) -> None:
        checked_offsets(self.offsets, len(self.labels))
        if self.grade_counts.ndim != 2 or len(self.grade_counts) != self.n_queries:
            raise DataError(
                f"{self.n_queries} queries need as many rows of counts, not an array of the shape "
                f"{self.grade_counts.shape}",
                where="grade_counts",
                remedy="make them by count_grades(labels, offsets)",
            )
        self._check_counts()

    def _check_counts(self) -> None:
        """Raise if the ranking shows more relevant documents of a grade than there are.

        Grade 0 is left out: a ranking may show documents that nobody judged.
        """
        shown = count_grades(self.labels, self.offsets)
        n_known = self.grade_counts.shape[1]
        too_many = shown[:, 1:n_known] > self.grade_counts[:, 1 : shown.shape[1]]
        unknown = shown[:, max(n_known, 1) :] > 0
        wrong = np.argwhere(np.hstack([too_many, unknown]))
        if len(wrong):
            query, grade = int(wrong[0, 0]), int(wrong[0, 1]) + 1
            raise DataError(
                f"query {query} shows {shown[query, grade]} documents of grade {grade}, more than "
                "are counted",
                where="grade_counts",
                remedy="count the grades of the same labels: count_grades(labels, offsets)",
            )

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def max_grade(self) -> int:
        """The highest grade that occurs."""
        present = np.flatnonzero(self.grade_counts.any(axis=0))
        return int(present[-1]) if len(present) else 0

    def n_relevant(self, relevant_grade: int = 1) -> NDArray[np.int64]:
        """Count each query's documents with a grade of ``relevant_grade`` or more."""
        if relevant_grade < 1:
            raise SettingsError(
                f"the lowest relevant grade is at least 1 (given: {relevant_grade})",
                where="relevant_grade",
            )
        counts: NDArray[np.int64] = self.grade_counts[:, relevant_grade:].sum(axis=1)
        return counts

    def cutoff(self, k: int | None) -> int:
        """Return how far down a measure looks; None is all the way."""
        if k is not None and checked_cutoff(k) <= (self.depth or k):
            return int(k)
        if self.depth is None:
            return NO_CUTOFF
        raise SettingsError(
            f"the measure looks further than the ranking, which was cut at {self.depth}",
            where=f"k={k}",
            remedy="rank with a larger depth, or depth=None",
        )


def rank_labels(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    depth: int | None = None,
    ties: Ties = "input",
    rng: np.random.Generator | None = None,
    grade_counts: NDArray[np.int64] | None = None,
) -> RankedLabels:
    """Put the labels of every query in the order of falling scores.

    Parameters
    ----------
    scores, offsets, depth, ties, rng
        As for `cloister.measure.ranking.rank_rows`.
    labels
        Relevance grade of each row: an integer, where a negative one counts as 0.
    grade_counts
        The outcome of `count_grades`, for one who ranks the same labels again and again.

    Examples
    --------
    >>> rank_labels([0.1, 0.9, 0.5], [2, 0, 1], [0, 3], depth=2).labels
    array([0, 1], dtype=int8)
    """
    labels = _checked_labels(labels)
    if np.size(scores) != len(labels):
        raise DataError(f"{np.size(scores)} scores for {len(labels)} labels", where="scores")
    ranked = rank_rows(scores, offsets, depth=depth, ties=ties, rng=rng)
    if grade_counts is None:
        grade_counts = count_grades(labels, offsets)
    return RankedLabels(labels[ranked.rows], ranked.offsets, grade_counts, depth)


def count_grades(labels: ArrayLike, offsets: ArrayLike) -> NDArray[np.int64]:
    """Count each query's documents of each grade, from grade 0 to the highest label.

    Examples
    --------
    >>> count_grades([2, 0, 2, 1], [0, 3, 4])
    array([[1, 0, 2],
           [0, 1, 0]])
    """
    labels = _checked_labels(labels)
    offsets = checked_offsets(offsets, len(labels))
    n_grades = max(int(labels.max(initial=0)), 0) + 1
    counts = np.zeros((len(offsets) - 1, n_grades), np.int64)
    _count_grades(labels, offsets, counts)
    return counts


def _checked_labels(labels: ArrayLike) -> NDArray[np.int8]:
    """Return one-dimensional labels as small integers: one type, one compilation."""
    array: NDArray[Any] = np.asarray(labels)
    if array.size == 0:
        array = array.astype(np.int8)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise DataError(
            f"labels are whole numbers, one a row, not {array.dtype} of the shape {array.shape}",
            where="labels",
            remedy="convert them with astype(np.int8)",
        )
    if array.max(initial=0) > MAX_GRADE:
        raise DataError(
            f"the highest label is {array.max()}",
            where="labels",
            remedy=f"map grades to 0 .. {MAX_GRADE}; the gain doubles with each",
        )
    return array if array.dtype == np.int8 else np.maximum(array, 0).astype(np.int8)


@parallel_kernel
def _count_grades(
    labels: NDArray[Any], offsets: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Compare once for each grade: many times faster than counting up one row after another."""
    for query in numba.prange(len(offsets) - 1):
        own = labels[offsets[query] : offsets[query + 1]]
        counts[query, 0] = len(own)  # less all others: negative labels count as 0
        for grade in range(1, counts.shape[1]):
            n = 0
            for label in own:
                n += label == grade
            counts[query, grade] = n
            counts[query, 0] -= n
