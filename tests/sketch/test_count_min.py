"""What is special to Count-Min; test_count_sketch tests what both sketches share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.sketch.count_min import CountMin
from cloister.sketch.keyed_hash import HashKey, SketchShape

KEY = HashKey(b"count min".ljust(32))
WORDS = [f"word{number}" for number in range(15)]
COUNTS = np.array([50, 20, 10, 5, 5, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0])
natural_counts = st.lists(st.integers(0, 1000), min_size=15, max_size=15).map(np.array)
shapes = st.builds(SketchShape, n_rows=st.integers(1, 6), n_columns=st.integers(1, 12))


@given(counts=natural_counts, shape=shapes)
def test_an_estimate_is_the_least_of_its_cells_and_never_below_the_truth(
    counts: Any, shape: SketchShape
) -> None:
    hashed = KEY.hash_terms(WORDS, shape)
    estimates = CountMin.empty(shape, KEY.fingerprint).add(hashed, counts).estimate(hashed)
    for term in range(15):
        cells = [
            sum(int(c) for other, c in enumerate(counts) if same(hashed.columns, row, term, other))
            for row in range(shape.n_rows)
        ]
        assert estimates[term] == min(cells) >= counts[term]


def same(columns: Any, row: int, term: int, other: int) -> bool:
    return bool(columns[term, row] == columns[other, row])


def test_the_excess_stays_below_the_bound_as_often_as_promised() -> None:
    shape = SketchShape(n_rows=2, n_columns=20)
    n_keys, beyond = 500, 0
    for number in range(n_keys):
        key = HashKey(number.to_bytes(32, "little"))
        hashed = key.hash_terms(WORDS, shape)
        estimates = CountMin.empty(shape, key.fingerprint).add(hashed, COUNTS).estimate(hashed)
        beyond += int((estimates - COUNTS > np.e * COUNTS.sum() / 20).sum())
    assert beyond / (15 * n_keys) < np.exp(-2)


def test_the_mean_is_the_formula_row_by_row() -> None:
    shape = SketchShape(n_rows=4, n_columns=6)
    hashed = KEY.hash_terms(WORDS, shape)
    rng = stream(5, "count-min")
    table = rng.integers(-100, 100, (4, 6))
    found = CountMin(shape, KEY.fingerprint, table).estimate_mean(hashed)
    for term in range(15):
        rows = [
            (table[row, hashed.columns[term, row]] - table[row].sum() / 6) * 6 / 5
            for row in range(4)
        ]
        assert found[term] == pytest.approx(np.mean(rows), rel=1e-12, abs=1e-9)


def test_the_mean_is_unbiased_over_keys_with_noise_in_the_cells() -> None:
    shape = SketchShape(n_rows=3, n_columns=8)
    rng = stream(6, "count-min-noise")
    errors, least = [], []
    for number in range(3000):
        key = HashKey(number.to_bytes(32, "little"))
        hashed = key.hash_terms(WORDS, shape)
        exact = CountMin.empty(shape, key.fingerprint).add(hashed, COUNTS)
        noise = np.rint(rng.normal(0, 20, (3, 8))).astype(np.int64)
        noisy = CountMin(shape, key.fingerprint, exact.table + noise)
        errors.append(noisy.estimate_mean(hashed) - COUNTS)
        least.append(noisy.estimate(hashed) - COUNTS)
    found = np.array(errors)
    assert (np.abs(found.mean(axis=0)) < 5 * found.std(axis=0) / np.sqrt(3000)).all()
    assert (np.array(least).mean(axis=0) < 0).any()  # the minimum picks negative noise


def test_one_column_has_no_mean() -> None:
    shape = SketchShape(n_rows=3, n_columns=1)
    with pytest.raises(DataError, match="one column"):
        CountMin.empty(shape, KEY.fingerprint).estimate_mean(KEY.hash_terms(WORDS, shape))
