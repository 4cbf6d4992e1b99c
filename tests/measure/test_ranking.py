"""Rankings: order, depth, ties, threads, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.measure.ranked import RankedLabels, count_grades, rank_labels
from cloister.measure.ranking import SELECT_AT_MOST, rank_rows
from measure import literal

LONG = SELECT_AT_MOST * 3


def _sorted_rows(scores: np.ndarray, offsets: np.ndarray, depth: int | None) -> list[int]:
    rows: list[int] = []
    for first, last in pairwise(offsets):
        order = np.argsort(-scores[first:last], kind="stable")[:depth]
        rows += (first + order).tolist()
    return rows


@settings(deadline=None)
@given(drawn=literal.queries(), depth=st.one_of(st.none(), st.integers(1, 40)))
def test_rows_are_those_of_a_stable_sort(drawn: list[literal.Query], depth: int | None) -> None:
    scores, _, offsets = literal.flat(drawn)
    ranked = rank_rows(scores, offsets, depth=depth)
    assert ranked.rows.tolist() == _sorted_rows(scores, offsets, depth)
    lengths = np.diff(offsets)
    assert np.diff(ranked.offsets).tolist() == np.minimum(lengths, depth or 10**9).tolist()


@pytest.mark.parametrize("n_values", [2, 40, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_queries_are_ranked_like_a_stable_sort(n_values: int, dtype: type) -> None:
    rng = stream(1, "long", n_values)
    offsets = np.array([0, 0, 1, 1 + LONG, 1 + 3 * LONG])
    scores = rng.integers(n_values, size=offsets[-1]).astype(dtype)
    for depth in (1, SELECT_AT_MOST, SELECT_AT_MOST + 1, LONG, None):
        assert rank_rows(scores, offsets, depth=depth).rows.tolist() == _sorted_rows(
            scores, offsets, depth
        )


@pytest.mark.parametrize("n_values", [1, 7, 10**6])
def test_a_shallow_ranking_is_the_top_of_the_deep_one_also_with_random_ties(n_values: int) -> None:
    offsets = np.array([0, LONG, 2 * LONG])
    scores = stream(2, n_values).integers(n_values, size=2 * LONG).astype(float)
    deep = rank_rows(scores, offsets, ties="random", rng=stream(3)).rows.reshape(2, LONG)
    shallow = rank_rows(scores, offsets, depth=10, ties="random", rng=stream(3))
    assert (shallow.rows.reshape(2, 10) == deep[:, :10]).all()


@pytest.mark.parametrize("n_below", [0, LONG])  # selected, and sorted
def test_every_order_of_a_tie_is_equally_likely(n_below: int) -> None:
    n_queries = 6000
    query = np.concatenate([np.full(4, 5.0), -np.arange(n_below, dtype=float)])
    offsets = np.arange(n_queries + 1) * len(query)
    ranked = rank_rows(np.tile(query, n_queries), offsets, ties="random", rng=stream(4))
    best = ranked.rows.reshape(n_queries, -1)[:, :4] - offsets[:-1, None]
    counts = Counter(map(tuple, best.tolist()))
    expected = n_queries / 24
    chi_square = sum((n - expected) ** 2 / expected for n in counts.values())
    assert len(counts) == 24
    assert chi_square < 54  # 23 degrees of freedom: exceeded once in 3,000 times by chance


def test_random_ties_do_not_touch_what_is_not_tied() -> None:
    scores = stream(5).permutation(LONG).astype(float)
    random = rank_rows(scores, [0, LONG], ties="random", rng=stream(6))
    assert (random.rows == rank_rows(scores, [0, LONG]).rows).all()


def test_the_generator_decides_the_ties() -> None:
    def draw(seed: int) -> list[int]:
        rng = stream(seed)
        return rank_rows(np.zeros(40), [0, 40], ties="random", rng=rng).rows.tolist()

    assert draw(1) == draw(1) != draw(2)


@pytest.mark.parametrize("depth", [10, None])
@pytest.mark.parametrize("ties", ["input", "random"])
def test_the_number_of_threads_changes_nothing(depth: int | None, ties: str) -> None:
    rng = stream(7)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, LONG, size=200))])
    scores = rng.integers(30, size=offsets[-1]).astype(np.float32)
    labels = rng.integers(5, size=offsets[-1]).astype(np.int8)
    before = numba.get_num_threads()
    outcomes = []
    try:
        for n_threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
            numba.set_num_threads(n_threads)
            outcomes.append(
                rank_labels(scores, labels, offsets, depth=depth, ties=ties, rng=stream(8))
            )
    finally:
        numba.set_num_threads(before)
    for other in outcomes[1:]:
        assert (other.labels == outcomes[0].labels).all()
        assert (other.grade_counts == outcomes[0].grade_counts).all()


@pytest.mark.parametrize(("n", "depth"), [(3, None), (30, 2), (LONG, None)])
def test_a_score_that_is_no_number_is_refused_wherever_it_stands(n: int, depth: int | None) -> None:
    for row in range(n):
        scores = np.arange(n, dtype=float)
        scores[row] = np.nan
        with pytest.raises(DataError, match=rf"scores\[{row + 1}\], query 1"):
            rank_rows(np.concatenate([[0.0], scores]), [0, 1, n + 1], depth=depth)


def test_infinite_scores_are_ordered() -> None:
    assert rank_rows([0.0, -np.inf, np.inf], [0, 3]).rows.tolist() == [2, 0, 1]


def test_nothing_at_all_is_ranked_without_fuss() -> None:
    for offsets in ([0], [0, 0, 0]):
        ranked = rank_labels([], [], offsets, depth=10)
        assert ranked.n_queries == len(offsets) - 1
        assert ranked.labels.size == 0
        assert not ranked.n_relevant().any()
        assert ranked.max_grade == 0


@pytest.mark.parametrize("offsets", [[], [0], [0, 2], [1, 3], [0, 2, 1, 3], [0.0, 3.0], [[0, 3]]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with pytest.raises(DataError, match="offsets"):
        rank_rows([1.0, 2.0, 3.0], offsets)


def test_wrong_settings_and_shapes_are_refused() -> None:
    for depth in (0, -3):
        with pytest.raises(SettingsError, match="depth"):
            rank_rows([1.0], [0, 1], depth=depth)
    with pytest.raises(SettingsError, match="rng"):
        rank_rows([1.0], [0, 1], ties="random")
    with pytest.raises(SettingsError, match="ties"):
        rank_rows([1.0], [0, 1], ties="alphabetical")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="shape"):
        rank_rows(np.zeros((2, 2)), [0, 4])
    with pytest.raises(DataError, match="2 scores for 3 labels"):
        rank_labels([1.0, 2.0], [1, 2, 3], [0, 3])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, bool])
def test_scores_of_any_kind_of_number_are_ranked(dtype: type) -> None:
    scores = np.array([0, 1, 0, 1], dtype)
    assert rank_rows(scores, [0, 4]).rows.tolist() == [1, 3, 0, 2]


def test_read_only_and_mapped_arrays_are_ranked(tmp_path: Path) -> None:
    np.save(tmp_path / "scores.npy", np.array([1.0, 3.0, 2.0], np.float32))
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2], np.int8))
    scores = np.load(tmp_path / "scores.npy", mmap_mode="r")
    labels = np.load(tmp_path / "labels.npy", mmap_mode="r")
    assert rank_labels(scores, labels, [0, 3]).labels.tolist() == [1, 2, 0]


@settings(deadline=None)
@given(drawn=literal.queries(lowest_label=-3))
def test_grades_are_counted_and_negative_ones_are_0(drawn: list[literal.Query]) -> None:
    _, labels, offsets = literal.flat(drawn)
    counts = count_grades(labels, offsets)
    assert counts.shape == (len(drawn), max([0, *labels.tolist()]) + 1)
    for row, (_, own) in zip(counts, drawn, strict=True):
        assert row.tolist() == [
            sum(max(label, 0) == grade for label in own) for grade in range(counts.shape[1])
        ]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.int16])
def test_labels_of_any_integer_type_give_the_same(dtype: type) -> None:
    labels = np.array([-100, 4, 0, 2], dtype)
    ranked = rank_labels([4.0, 3.0, 2.0, 1.0], labels, [0, 4])
    assert np.maximum(ranked.labels, 0).tolist() == [0, 4, 0, 2]
    assert ranked.grade_counts.tolist() == [[2, 0, 1, 0, 1]]


@pytest.mark.parametrize("labels", [[0.5, 1.0], [32, 0], [[1], [0]]])
def test_labels_that_are_no_grades_are_refused(labels: list[float]) -> None:
    with pytest.raises(DataError, match="labels"):
        count_grades(labels, [0, 2])


def test_counts_must_have_a_row_a_query() -> None:
    with pytest.raises(DataError, match="grade_counts"):
        RankedLabels(np.array([1]), np.array([0, 1]), np.zeros((2, 2), np.int64))
