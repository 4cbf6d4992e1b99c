"""Queries with candidates, and nDCG of scores for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.lab.neural.candidates import QueryCandidates
from cloister.lab.neural.layers import Features, side_by_side
from cloister.lab.neural.query_rows import CUTOFFS, QueryRows


def rows_of(*graded: list[int], missed: int = 0) -> QueryRows:
    """Return queries whose candidates have some grades, and relevant ones that are none."""
    candidates = tuple(
        QueryCandidates(
            np.arange(len(grades), dtype=np.int64),
            np.array(grades, np.int8),
            np.arange(len(grades), 0, -1).astype(np.float64),
        )
        for grades in graded
    )
    counts = [np.bincount([*grades, *[1] * missed], minlength=4)[:4] for grades in graded]
    return QueryRows((("cough",),) * len(graded), candidates, np.array(counts))


def literal_ndcg(ranked: list[int], judged: list[int], k: int) -> float:
    """Return nDCG@k as it is written down."""

    def dcg(grades: list[int]) -> float:
        return sum((2**g - 1) / math.log2(i + 2) for i, g in enumerate(grades[:k]))

    ideal = dcg(sorted(judged, reverse=True))
    return dcg(ranked) / ideal if ideal else 0.0


@given(st.lists(st.integers(0, 3), max_size=14), st.integers(0, 3), st.integers(0, 99))
def test_ndcg_is_the_formula_with_all_that_was_judged(
    grades: list[int], missed: int, seed: int
) -> None:
    rows = rows_of(grades, missed=missed)
    scores = np.random.default_rng(seed).permutation(len(grades)).astype(float)
    ranked = [grades[i] for i in np.argsort(-scores)]
    found = rows.ndcg(scores)
    for k in CUTOFFS:
        expected = literal_ndcg(ranked, [*grades, *[1] * missed], k)
        assert found[k].tolist() == pytest.approx([expected])


def test_a_query_without_candidates_counts_as_nothing() -> None:
    found = rows_of([1, 0], [], missed=1).ndcg(np.array([2.0, 1.0]))
    assert found[1].tolist() == [1.0, 0.0]


def test_equal_scores_are_ordered_by_lot_and_not_by_bm25() -> None:
    rows = rows_of(*[[1, 0]] * 400)  # BM25 has the relevant one first
    assert rows.ndcg(rows.bm25)[1].mean() == 1.0
    drawn = rows.ndcg(np.zeros(800))[1]
    assert 0.4 < drawn.mean() < 0.6
    assert drawn.tolist() == rows.ndcg(np.zeros(800))[1].tolist()
    assert drawn.tolist() != rows.ndcg(np.zeros(800), seed=1)[1].tolist()


def test_rows_are_made_query_by_query() -> None:
    rows = rows_of([1, 0], [2])
    made = rows.made(lambda terms, documents: documents[:, None] * 10.0)
    assert made.tolist() == [[0.0], [10.0], [0.0]]
    assert rows.data(made).offsets.tolist() == [0, 2, 3]
    texts = rows.texts([["cough"], ["rash"]])
    assert (texts.candidates.tolist(), texts.labels.tolist()) == ([0, 1, 0], [1, 0, 2])


def test_features_stand_beside_one_another_part_by_part() -> None:
    one = Features(*(np.full((n, 2), float(n)) for n in (3, 2, 1)))
    joined = side_by_side(one, tuple(np.zeros(n) for n in (3, 2, 1)))
    assert [part.shape for part in joined] == [(3, 3), (2, 3), (1, 3)]
    assert joined.test.tolist() == [[1.0, 1.0, 0.0]]
