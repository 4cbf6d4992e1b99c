"""Queries against plain Python, and what is claimed of them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.keyed_hash import HashedTerms, SketchShape
from cloister.sketch.naive import Naive
from cloister.sketch.rtk_lists import RtkLists, select_row
from cloister.sketch.rtk_query import ReverseTop, RtkQuery
from cloister.sketch.rtk_sketch import RtkSketch
from cloister.sketch.signed_heap import SignedHeap
from sketch.literal_rtk import (
    KEY,
    VOCABULARY,
    naive,
    shapes,
    signed_heap,
    sketches,
    tables,
    two_sided,
    world,
)


def pairs(found: ReverseTop, line: int = 0) -> list[tuple[int, float]]:
    there = found.documents[line] >= 0
    return list(
        zip(found.documents[line][there].tolist(), found.counts[line][there].tolist(), strict=True)
    )


@settings(max_examples=40)
@given(tables(), shapes(), st.integers(1, 30), st.booleans())
def test_naive_is_algorithm_three(
    table: np.ndarray, shape: SketchShape, k: int, signed: bool
) -> None:
    counts = world(table)
    hashed = KEY.hash_terms(VOCABULARY, shape)
    cells = sketches(counts, hashed)
    found = Naive(counts, hashed).top(hashed, k, signed=signed)
    for term in range(3):
        assert pairs(found, term) == naive(cells, hashed, term, k, signed=signed)


@settings(max_examples=40)
@given(tables(), shapes(), st.integers(1, 30), st.integers(1, 12), st.sampled_from([0, 0.1, 0.5]))
def test_the_signed_heap_is_algorithms_four_and_five(
    table: np.ndarray, shape: SketchShape, k: int, heap_size: int, beta: float
) -> None:
    counts = world(table)
    hashed = KEY.hash_terms(VOCABULARY, shape)
    cells = sketches(counts, hashed)
    found = SignedHeap(counts, hashed, heap_size).top(hashed, k, beta=beta)
    for term in range(3):
        assert pairs(found, term) == signed_heap(cells, hashed, term, k, heap_size, beta)


@settings(max_examples=40)
@given(
    tables(),
    shapes(),
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([0, 0.1, 0.5]),
    st.booleans(),
    st.integers(1, 6),
)
def test_the_query_is_the_literal_one(
    table: np.ndarray, shape: SketchShape, k: int, cell_size: int, beta: float, floor: bool, z1: int
) -> None:
    counts = world(table)
    hashed = KEY.hash_terms(VOCABULARY, shape)
    cells = sketches(counts, hashed)
    z1 = min(z1, shape.n_rows)
    sketch = RtkSketch.build(counts, hashed, cell_size=cell_size, slack=2)
    found = sketch.top(
        hashed, k, n_true_rows=z1, beta=beta, estimator="floor-median" if floor else "median"
    )
    for term in range(3):
        expected, scores = two_sided(
            cells, hashed, term, k, cell_size=cell_size, beta=beta, n_true_rows=z1, floor=floor
        )
        got = pairs(found, term)
        np.testing.assert_allclose([c for _, c in got], [c for _, c in expected], atol=1e-3)
        # Scores that differ in their last bits only may come in either order.
        np.testing.assert_allclose(
            [scores[d] for d, _ in got], [scores[d] for d, _ in expected], atol=1e-12
        )
        assert len({d for d, _ in got}) == len(expected)


@settings(max_examples=40)
@given(tables(), shapes())
def test_lists_that_hold_everything_estimate_as_naive_does(
    table: np.ndarray, shape: SketchShape
) -> None:
    counts = world(table)
    hashed = KEY.hash_terms(VOCABULARY, shape)
    n = counts.n_documents
    dense = Naive(counts, hashed).top(hashed, n)
    sketch = RtkSketch.build(counts, hashed, cell_size=n)
    ours = sketch.top(hashed, n)
    np.testing.assert_array_equal(ours.counts, dense.counts)
    estimates = sketch.term_counts(hashed, np.arange(n))
    for term in range(len(VOCABULARY)):
        by_document = dict(pairs(dense, term))
        expected = [max(by_document[d], 0.0) for d in range(n)]
        np.testing.assert_array_equal(estimates[term], expected)


def test_term_counts_agree_with_top_and_repeat() -> None:
    counts = world(np.random.default_rng(3).geometric(0.4, (60, 12)) - 1)
    shape = SketchShape(n_rows=4, n_columns=20)
    hashed = KEY.hash_terms(VOCABULARY, shape)
    sketch = RtkSketch.build(counts, hashed, cell_size=15)
    found = sketch.top(hashed, 10)
    for term in range(len(VOCABULARY)):
        own = HashedTerms(
            shape, hashed.columns[[term]], hashed.signs[[term]], hashed.key_fingerprint
        )
        twice = np.concatenate([found.documents[term], found.documents[term]])
        np.testing.assert_array_equal(
            sketch.term_counts(own, twice)[0], np.maximum(np.tile(found.counts[term], 2), 0)
        )


def test_sizes_and_settings_that_do_not_fit_are_refused() -> None:
    shape = SketchShape(n_rows=2, n_columns=5)
    lists = RtkLists.empty(shape.n_cells, 3)
    other = KEY.hash_terms(["a"], SketchShape(n_rows=2, n_columns=6))
    own = KEY.hash_terms(["a"], shape)
    query = RtkQuery(lists, shape, 4)
    with pytest.raises(DataError):
        query.top(other)
    with pytest.raises(DataError):
        query.term_counts(own, np.array([4]))
    with pytest.raises(DataError):
        RtkQuery(lists, SketchShape(n_rows=3, n_columns=5), 4)
    for wrong in ({"k": 0}, {"beta": 1.1}, {"n_true_rows": 3}, {"n_true_rows": 0}):
        with pytest.raises(SettingsError):
            query.top(own, **wrong)
    with pytest.raises(SettingsError):
        RtkQuery(lists, shape, 4, sigma=-1)


def _bursty(n: int = 1500, n_terms: int = 400) -> tuple[np.ndarray, tuple[str, ...]]:
    rng = np.random.default_rng(8)
    rates = 30.0 / np.arange(1, n_terms + 1)
    return rng.negative_binomial(0.3, 0.3 / (0.3 + rates), (n, n_terms)), tuple(
        f"w{i}" for i in range(n_terms)
    )


def _cover(found: ReverseTop, table: np.ndarray, terms: np.ndarray, k: int) -> float:
    rates = []
    for line, term in enumerate(terms):
        last = np.sort(table[:, term])[-k]
        rates.append((table[found.documents[line][found.documents[line] >= 0], term] >= last).sum())
    return float(np.mean(rates) / k)


def test_each_mended_fault_pays() -> None:
    table, vocabulary = _bursty()
    counts = world(table, vocabulary)
    shape = SketchShape(n_rows=7, n_columns=60)
    hashed = KEY.hash_terms(vocabulary, shape)
    terms, k = np.arange(5, 105), 20
    some = HashedTerms(shape, hashed.columns[terms], hashed.signs[terms], hashed.key_fingerprint)
    dense = Naive(counts, hashed)
    sketch = RtkSketch.build(counts, hashed, cell_size=100)
    ours = _cover(sketch.top(some, k), table, terms, k)
    floor = _cover(sketch.top(some, k, estimator="floor-median"), table, terms, k)
    printed = _cover(SignedHeap(counts, hashed, 200).top(some, k), table, terms, k)
    signed = _cover(dense.top(some, k), table, terms, k)
    unsigned = _cover(dense.top(some, k, signed=False), table, terms, k)
    assert ours >= floor
    assert floor > printed + 0.1
    assert signed > unsigned + 0.3
    assert ours > 0.95 * signed


def test_under_normal_noise_the_huber_mean_beats_the_median() -> None:
    table, vocabulary = _bursty()
    counts = world(table, vocabulary)
    shape = SketchShape(n_rows=5, n_columns=300)
    hashed = KEY.hash_terms(vocabulary, shape)
    lists = RtkLists.empty(shape.n_cells, 150)
    rng, sigma = np.random.default_rng(1), 6.0
    for row in range(shape.n_rows):
        cells = row_cells(counts, hashed, row)
        noise = np.rint(rng.normal(0, sigma, cells.shape)).astype(cells.dtype)
        select_row(cells + noise, 150, lists, row)
    terms, k = np.arange(0, 100), 20
    some = HashedTerms(shape, hashed.columns[terms], hashed.signs[terms], hashed.key_fingerprint)
    query = RtkQuery(lists, shape, counts.n_documents, sigma=sigma)
    covers = {
        estimator: _cover(query.top(some, k, estimator=estimator), table, terms, k)
        for estimator in ("auto", "huber", "median", "floor-median")
    }
    assert covers["auto"] == covers["huber"]
    assert covers["huber"] > covers["median"]
    assert covers["huber"] > covers["floor-median"]


def test_a_query_is_faster_than_the_scan() -> None:
    rng = np.random.default_rng(2)
    table = rng.poisson(0.4, (20000, 60))
    vocabulary = tuple(f"w{i}" for i in range(60))
    counts = world(table, vocabulary)
    shape = SketchShape(n_rows=5, n_columns=50)
    hashed = KEY.hash_terms(vocabulary, shape)
    dense, sketch = Naive(counts, hashed), RtkSketch.build(counts, hashed, cell_size=400)

    def seconds(reader: Naive | RtkSketch) -> float:
        reader.top(hashed, 150)
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            reader.top(hashed, 150)
            taken.append(time.perf_counter() - begin)
        return min(taken)

    assert seconds(sketch) < seconds(dense)
