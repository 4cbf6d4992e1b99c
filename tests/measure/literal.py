"""Every measure as its formula says, slowly, one query at a time: what the kernels must equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, permutations, product

import numpy as np
from hypothesis import strategies as st

Labels = Sequence[int]


def ranking(scores: Sequence[float], labels: Labels) -> list[int]:
    """Labels by falling score; Python's sort is stable."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return [max(labels[i], 0) for i in order]


def dcg(labels: Labels, k: int) -> float:
    return sum((2**r - 1) / math.log2(i + 1) for i, r in enumerate(labels[:k], 1))


def ndcg(ranked: Labels, k: int) -> float:
    ideal = dcg(sorted(ranked, reverse=True), k)
    return dcg(ranked, k) / ideal if ideal else math.nan


def err(ranked: Labels, k: int, max_grade: int) -> float:
    if not any(ranked):
        return math.nan
    stop = [(2**r - 1) / 2**max_grade for r in ranked[:k]]
    return sum(
        stop[i] * math.prod(1 - stop[j] for j in range(i)) / (i + 1) for i in range(len(stop))
    )


def precision(ranked: Labels, k: int, grade: int) -> float:
    if not any(r >= grade for r in ranked):
        return math.nan
    return sum(r >= grade for r in ranked[:k]) / k


def average_precision(ranked: Labels, k: int, grade: int) -> float:
    n_relevant = sum(r >= grade for r in ranked)
    if not n_relevant:
        return math.nan
    ranks = [i for i, r in enumerate(ranked[:k], 1) if r >= grade]
    return sum(sum(r >= grade for r in ranked[:i]) / i for i in ranks) / n_relevant


def reciprocal_rank(ranked: Labels, k: int, grade: int) -> float:
    if not any(r >= grade for r in ranked):
        return math.nan
    return max((1 / i for i, r in enumerate(ranked[:k], 1) if r >= grade), default=0.0)


def tied_rankings(scores: Sequence[float], labels: Labels) -> list[list[int]]:
    """All rankings that agree with the scores, each as likely as any other."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    runs = [[labels[i] for i in run] for _, run in groupby(order, key=lambda i: scores[i])]
    return [
        [label for run in choice for label in run]
        for choice in product(*(list(permutations(run)) for run in runs))
    ]


Query = tuple[list[int], list[int]]  # scores and labels


def queries(*, min_documents: int = 0, lowest_label: int = -1) -> st.SearchStrategy[list[Query]]:
    """Draw ragged queries; scores come from few values, so that most queries have ties."""
    document = st.tuples(st.integers(-3, 3), st.integers(lowest_label, 4))
    query = st.lists(document, min_size=min_documents, max_size=30).map(
        lambda rows: ([score for score, _ in rows], [label for _, label in rows])
    )
    return st.lists(query, max_size=6)


def flat(
    drawn: Sequence[Query],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels and offsets as the measures take them."""
    scores = np.array([s for scores, _ in drawn for s in scores], np.float64)
    labels = np.array([r for _, labels in drawn for r in labels], np.int8)
    offsets = np.cumsum([0, *(len(labels) for _, labels in drawn)])
    return scores, labels, offsets
