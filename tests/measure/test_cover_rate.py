"""Cover rate against a search through every possible true top K."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.measure.cover_rate import cover_rate
from cloister.measure.ranking import RankedRows, rank_rows


def _literal(found: list[int], counts: list[int], k: int, above: float) -> float:
    """Overlap with the true top K that suits best, over its size."""
    able = [row for row, count in enumerate(counts) if count > above]
    size = min(k, len(able))
    if not size:
        return math.nan
    best = sum(sorted((counts[row] for row in able), reverse=True)[:size])
    tops = [top for top in combinations(able, size) if sum(counts[row] for row in top) == best]
    return max(len(set(found[:k]) & set(top)) for top in tops) / size


lists = st.lists(st.integers(0, 4), max_size=9).flatmap(
    lambda counts: st.tuples(
        st.just(counts), st.lists(st.integers(-1, len(counts) - 1), max_size=12)
    )
)


@settings(deadline=None)
@given(
    drawn=st.lists(lists, max_size=5), k=st.integers(1, 6), above=st.sampled_from([-math.inf, 0])
)
def test_cover_is_the_overlap_with_the_true_top_that_suits_best(
    drawn: list[tuple[list[int], list[int]]], k: int, above: float
) -> None:
    offsets = np.cumsum([0, *(len(counts) for counts, _ in drawn)])
    rows = [
        row + first if row >= 0 else -1
        for first, (_, found) in zip(offsets, drawn, strict=False)
        for row in found
    ]
    found = RankedRows(
        np.array(rows, np.int64), np.cumsum([0, *(len(found) for _, found in drawn)])
    )
    counts = [count for counts, _ in drawn for count in counts]
    expected = [_literal(found, counts, k, above) for counts, found in drawn]
    np.testing.assert_allclose(cover_rate(found, counts, offsets, k=k, above=above), expected)


def test_cover_of_distinct_scores_is_the_share_in_both_lists() -> None:
    rng = stream(31)
    truth, estimates = rng.normal(size=1000), rng.normal(size=1000)
    k = 150
    both = np.intersect1d(np.argsort(-truth)[:k], np.argsort(-estimates)[:k])
    found = rank_rows(estimates, [0, 1000], depth=k)
    assert cover_rate(found, truth, [0, 1000], k=k).tolist() == [len(both) / k]


def test_documents_tied_for_the_last_places_do_not_stand_for_a_better_one() -> None:
    counts, offsets = [5, 1, 1, 1, 1], [0, 5]
    found = RankedRows(np.array([1, 2, 3]), np.array([0, 3]))
    assert cover_rate(found, counts, offsets, k=3).tolist() == [pytest.approx(2 / 3)]


def test_a_term_that_no_document_holds_is_skipped_or_counts_0() -> None:
    found = RankedRows(np.array([0]), np.array([0, 1]))
    assert np.isnan(cover_rate(found, [0, 0], [0, 2], k=1, above=0)).all()
    zero = cover_rate(found, [0, 0], [0, 2], k=1, above=0, nothing_relevant="zero")
    assert zero.tolist() == [0.0]


def test_lists_that_do_not_fit_are_refused() -> None:
    counts, offsets = [3, 2, 1], [0, 2, 3]
    with pytest.raises(DataError, match="1 lists for 2 queries"):
        cover_rate(RankedRows(np.array([0]), np.array([0, 1])), counts, offsets, k=1)
    with pytest.raises(DataError, match="row 2 is not one of query 0"):
        cover_rate(RankedRows(np.array([2, 2]), np.array([0, 1, 2])), counts, offsets, k=1)
    with pytest.raises(SettingsError, match="at least 1"):
        cover_rate(rank_rows(counts, offsets), counts, offsets, k=0)
    with pytest.raises(DataError, match="not a number"):
        cover_rate(rank_rows(counts, offsets), [1.0, np.nan, 1.0], offsets, k=1)
