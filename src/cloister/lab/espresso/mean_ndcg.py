"""Mean nDCG of rankings by grades, over the queries for which there is anything to find."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import RankedLabels

__all__ = ["mean_ndcg"]

Name = TypeVar("Name", bound=Hashable)  # what a document goes by


def mean_ndcg(
    rankings: Sequence[Sequence[Name]], grades: Sequence[Mapping[Name, int]], k: int
) -> float:
    """Return the mean nDCG@k; NaN where nothing is relevant for any query.

    Parameters
    ----------
    rankings
        The documents of each query, best first.
    grades
        The relevant documents of each query; others have the grade 0.

    Examples
    --------
    >>> mean_ndcg([["a", "b"], ["c"], ["d"]], [{"a": 2}, {"c": 1, "e": 1}, {}], k=1)
    1.0
    """
    cut = [ranking[:k] for ranking in rankings]
    labels = [grade.get(name, 0) for one, grade in zip(cut, grades, strict=True) for name in one]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in cut])]).astype(np.int64)
    highest = max((grade for one in grades for grade in one.values()), default=0)
    counts = np.zeros((len(cut), highest + 1), np.int64)
    for row, one in enumerate(grades):
        for grade in one.values():
            counts[row, grade] += 1
    values = ndcg(RankedLabels(np.array(labels, np.int64), offsets, counts), k=k)
    found = values[np.isfinite(values)]
    return float(found.mean()) if len(found) else float("nan")
