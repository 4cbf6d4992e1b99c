"""Each measure against its formula, read literally; then what must hold of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.core.random import stream
from cloister.measure.average_precision import average_precision
from cloister.measure.err import err
from cloister.measure.mean import mean
from cloister.measure.ndcg import dcg, dcg_of_page, discount, ideal_dcg, ndcg, ndcg_of_page
from cloister.measure.precision import precision
from cloister.measure.ranked import RankedLabels, rank_labels
from cloister.measure.reciprocal_rank import max_rr, reciprocal_rank
from measure import literal

Measure = Callable[..., np.ndarray]
Formula = Callable[[Sequence[int], int], float]

# Each with a cut-off k and the lowest relevant grade g, where it has one.
FAMILY: list[tuple[Measure, dict[str, int], Formula]] = [
    (ndcg, {}, literal.ndcg),
    (err, {"max_grade": 4}, lambda r, k: literal.err(r, k, 4)),
    (err, {"max_grade": 6}, lambda r, k: literal.err(r, k, 6)),
    *(
        (measure, {"relevant_grade": g}, lambda r, k, g=g, formula=formula: formula(r, k, g))
        for g in (1, 2)
        for measure, formula in (
            (precision, literal.precision),
            (average_precision, literal.average_precision),
            (reciprocal_rank, literal.reciprocal_rank),
        )
    ),
]
family = pytest.mark.parametrize(
    ("measure", "options", "formula"),
    FAMILY,
    ids=[f"{m.__name__}-{'-'.join(map(str, o.values()))}" for m, o, _ in FAMILY],
)


@family
@settings(deadline=None, max_examples=60)
@given(drawn=literal.queries(), k=st.one_of(st.none(), st.integers(1, 35)), cut=st.booleans())
def test_values_are_those_of_the_formula(
    measure: Measure,
    options: dict[str, int],
    formula: Formula,
    drawn: list[literal.Query],
    k: int | None,
    cut: bool,
) -> None:
    if measure is precision:
        k = k or 5
    ranked = rank_labels(*literal.flat(drawn), depth=k if cut else None)
    expected = [formula(literal.ranking(*query), k or 10**9) for query in drawn]
    values = measure(ranked, k=k, **options)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    counted = measure(ranked, k=k, **options, nothing_relevant="zero")
    np.testing.assert_array_equal(counted, np.nan_to_num(values))
    assert ((counted >= 0) & (counted <= 1)).all()


@family
@settings(deadline=None, max_examples=30)
@given(drawn=literal.queries())
def test_only_the_order_of_scores_matters(
    measure: Measure, options: dict[str, int], formula: Formula, drawn: list[literal.Query]
) -> None:
    del formula
    scores, labels, offsets = literal.flat(drawn)
    values = measure(rank_labels(scores, labels, offsets), k=3, **options)
    for same_order in (scores * 7 - 100, scores**3, np.exp(scores).astype(np.float32)):
        again = measure(rank_labels(same_order, labels, offsets), k=3, **options)
        np.testing.assert_array_equal(again, values)


@family
def test_random_ties_average_to_the_mean_over_all_orders(
    measure: Measure, options: dict[str, int], formula: Formula
) -> None:
    scores, labels, k, n = [3, 2, 2, 2, 2, 1, 1], [0, 3, 0, 2, 0, 1, 0], 4, 20_000
    orders = [formula(order, k) for order in literal.tied_rankings(scores, labels)]
    ranked = rank_labels(
        np.tile(scores, n),
        np.tile(labels, n),
        np.arange(n + 1) * len(scores),
        depth=k,
        ties="random",
        rng=stream(11, measure.__name__),
    )
    error = np.std(orders) / math.sqrt(n)
    assert error > 0
    assert abs(mean(measure(ranked, k=k, **options)) - np.mean(orders)) < 4.5 * error


@family
def test_a_cut_off_below_one_is_refused(
    measure: Measure, options: dict[str, int], formula: Formula
) -> None:
    del formula
    ranked = rank_labels([1.0, 0.5], [1, 0], [0, 2])
    for k in (0, -1):
        with pytest.raises(SettingsError, match="at least 1"):
            measure(ranked, k=k, **options)


@family
def test_no_measure_looks_further_than_the_ranking(
    measure: Measure, options: dict[str, int], formula: Formula
) -> None:
    del formula
    ranked = rank_labels([1.0, 0.5, 0.1], [1, 0, 1], [0, 3], depth=2)
    for k in (3, None):
        with pytest.raises(SettingsError, match="cut at 2"):
            measure(ranked, k=k, **options)
    measure(ranked, k=2, **options)


@family
def test_an_unknown_convention_is_refused(
    measure: Measure, options: dict[str, int], formula: Formula
) -> None:
    del formula
    ranked = rank_labels([1.0], [1], [0, 1])
    with pytest.raises(SettingsError, match="nothing_relevant"):
        measure(ranked, k=1, **options, nothing_relevant="drop")


@family
def test_relevant_documents_that_were_not_found_count_against_a_ranking(
    measure: Measure, options: dict[str, int], formula: Formula
) -> None:
    shown, missed = [0, 3, 0, 2], [2, 2, 0]
    counts = np.bincount(shown + missed)[None, :]
    ranked = RankedLabels(np.array(shown), np.array([0, 4]), counts)
    # With k = 4 the documents that were missed stand below the cut-off of a full ranking.
    np.testing.assert_allclose(measure(ranked, k=4, **options), formula(shown + missed, 4))


@settings(deadline=None)
@given(drawn=literal.queries(), k=st.one_of(st.none(), st.integers(1, 20)))
def test_a_perfect_ranking_has_an_ndcg_of_exactly_1(
    drawn: list[literal.Query], k: int | None
) -> None:
    _, labels, offsets = literal.flat(drawn)
    values = ndcg(rank_labels(np.maximum(labels, 0), labels, offsets), k=k)
    assert (values[~np.isnan(values)] == 1.0).all()


@settings(deadline=None)
@given(ranked=st.lists(st.integers(0, 4), min_size=2, max_size=15), data=st.data())
def test_moving_a_better_document_up_never_lowers_ndcg_or_err(
    ranked: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(ranked) - 2))
    better = list(ranked)
    better[place : place + 2] = sorted(better[place : place + 2], reverse=True)
    both = RankedLabels(
        np.array(ranked + better),
        np.array([0, len(ranked), 2 * len(ranked)]),
        np.tile(np.bincount(ranked, minlength=5), (2, 1)),
    )
    for values in (
        ndcg(both, k=10, nothing_relevant="zero"),
        err(both, k=10, max_grade=4, nothing_relevant="zero"),
    ):
        assert values[1] >= values[0] - 1e-15


def test_dcg_discounts_ranks_beyond_its_table() -> None:
    n = 3000
    ranked = RankedLabels(np.ones(n, np.int8), np.array([0, n]), np.array([[0, n]]))
    np.testing.assert_allclose(dcg(ranked), literal.dcg([1] * n, n), rtol=1e-12)
    assert discount(5000) == pytest.approx(1 / math.log2(5002), rel=1e-15)


def test_high_grades_gain_what_the_formula_says() -> None:
    ranked = rank_labels([2.0, 1.0], [31, 30], [0, 2])
    np.testing.assert_allclose(dcg(ranked), [2**31 - 1 + (2**30 - 1) / math.log2(3)], rtol=1e-15)


@settings(deadline=None)
@given(drawn=literal.queries(), k=st.integers(1, 12))
def test_the_ndcg_of_a_page_inside_another_kernel_is_that_of_the_batch(
    drawn: list[literal.Query], k: int
) -> None:
    ranked = rank_labels(*literal.flat(drawn))
    _, labels, offsets = literal.flat(drawn)
    ideal = ideal_dcg(labels, offsets, k=k)
    pages = [ranked.labels[a:b] for a, b in zip(ranked.offsets, ranked.offsets[1:], strict=False)]
    values = [_interaction(page, k, i) for page, i in zip(pages, ideal, strict=True)]
    np.testing.assert_array_equal(values, ndcg(ranked, k=k, nothing_relevant="zero"))


@kernel
def _interaction(page: np.ndarray, k: int, ideal: float) -> float:
    return ndcg_of_page(page, len(page), k, ideal)


def test_a_page_may_hold_fewer_labels_than_its_array() -> None:
    page = np.array([1, 0, 4, 4], np.int8)
    assert dcg_of_page(page, 2, 10) == 1.0
    assert dcg_of_page(page, 4, 1) == 1.0


def test_the_ideal_is_over_all_candidates_not_only_those_shown() -> None:
    values = ndcg(rank_labels([3.0, 2.0, 1.0], [1, 0, 2], [0, 3], depth=1), k=1)
    assert values.tolist() == [pytest.approx(1 / 3)]


def test_the_two_conventions_give_two_means() -> None:
    ranked = rank_labels([1.0, 0.5, 1.0, 0.5], [1, 0, 0, 0], [0, 2, 4])
    assert mean(ndcg(ranked, k=10)) == 1.0
    assert mean(ndcg(ranked, k=10, nothing_relevant="zero")) == 0.5


def test_the_mean_of_nothing_is_not_a_number_and_no_warning() -> None:
    assert math.isnan(mean([]))
    assert math.isnan(mean([math.nan, math.nan]))


@settings(deadline=None)
@given(pages=st.lists(st.lists(st.booleans(), max_size=10), max_size=8))
def test_max_rr_is_the_reciprocal_rank_of_the_highest_click(pages: list[list[bool]]) -> None:
    clicks = [click for page in pages for click in page]
    offsets = np.cumsum([0, *map(len, pages)])
    expected = [1 / (page.index(True) + 1) if any(page) else 0.0 for page in pages]
    assert max_rr(clicks, offsets).tolist() == expected


def test_max_rr_over_ten_results_takes_eleven_values() -> None:
    clicks = np.eye(11, 10, dtype=np.int8)  # one click on each rank, then none
    values = max_rr(clicks.ravel(), np.arange(12) * 10)
    assert sorted(values) == sorted([0.0, *(1 / rank for rank in range(1, 11))])


@pytest.mark.parametrize("clicks", [np.eye(2, 10), np.zeros((0, 10)), np.array(1)])
def test_max_rr_refuses_clicks_that_are_not_one_list(clicks: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"clicks: .* shape"):
        max_rr(clicks, [0, 10, 20])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[2, 1, 0], [1, 0, 1]], "query 0 shows 1 documents of grade 2"),
        ([[1, 0, 1], [1, 0, 1]], "query 0 shows 1 documents of grade 1"),
        ([[1, 1, 1], [2, 0, 0]], "query 1 shows 1 documents of grade 2"),
        ([[1, 1], [1, 1]], "query 0 shows 1 documents of grade 2"),  # no column for it
        ([[3], [2]], "query 0 shows 1 documents of grade 1"),
        ([[], []], "query 0 shows 1 documents of grade 1"),
    ],
)
def test_a_ranking_that_shows_more_than_was_counted_is_refused(
    counts: list[list[int]], message: str
) -> None:
    scores, labels, offsets = [3, 2, 1, 2, 1], [2, 1, 0, 2, 0], [0, 3, 5]
    wrong = np.array(counts, np.int64)
    with pytest.raises(DataError, match=f"grade_counts: {message}"):
        rank_labels(scores, labels, offsets, grade_counts=wrong)
    with pytest.raises(DataError, match=f"grade_counts: {message}"):
        RankedLabels(np.array(labels), np.array(offsets), wrong)


def test_a_ranking_may_show_documents_that_nobody_judged() -> None:
    ranked = RankedLabels(np.array([0, 1, -1, 0]), np.array([0, 4]), np.array([[0, 1, 0, 0]]))
    np.testing.assert_allclose(ndcg(ranked), 1 / math.log2(3))


def test_err_wants_a_scale_that_holds_the_labels() -> None:
    ranked = rank_labels([1.0, 0.5], [3, 0], [0, 2])
    with pytest.raises(SettingsError, match="ends at grade 2, the labels at 3"):
        err(ranked, max_grade=2)
    with pytest.raises(SettingsError, match="max_grade"):
        err(rank_labels([1.0], [0], [0, 1]), max_grade=0)


def test_a_relevant_grade_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="relevant_grade"):
        precision(rank_labels([1.0], [0], [0, 1]), k=1, relevant_grade=0)
