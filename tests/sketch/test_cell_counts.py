"""A row of all documents' sketches, against counters."""

from __future__ import annotations

from collections import Counter

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.index.term_counts import TermCounts, count_terms
from cloister.sketch.cell_counts import cell_type, row_cells
from cloister.sketch.keyed_hash import HashKey, SketchShape

KEY = HashKey(b"cells".ljust(32))
WORDS = [f"word{number}" for number in range(12)]
texts_of_words = st.lists(st.lists(st.sampled_from(WORDS)).map(" ".join), max_size=6)


@given(texts_of_words, st.integers(1, 9), st.booleans())
def test_cells_are_the_sums_of_signed_occurrences(
    texts: list[str], n_columns: int, signed: bool
) -> None:
    counts = count_terms(texts)
    shape = SketchShape(n_rows=3, n_columns=n_columns)
    hashed = KEY.hash_terms(counts.vocabulary, shape)
    for row in range(3):
        expected: Counter[tuple[int, int]] = Counter()
        for document, text in enumerate(texts):
            for word in text.split():
                term = counts.positions[word]
                sign = int(hashed.signs[term, row]) if signed else 1
                expected[int(hashed.columns[term, row]), document] += sign
        cells = row_cells(counts, hashed, row, signed=signed)
        assert cells.shape == (n_columns, len(texts))
        for column in range(n_columns):
            for document in range(len(texts)):
                assert cells[column, document] == expected[column, document]


def _corpus(n_documents: int) -> TermCounts:
    rng = stream(1, "test-cells")
    picks = rng.integers(0, 300, (n_documents, 40))
    return count_terms(" ".join(f"t{term}" for term in line) for line in picks)


def test_rows_are_the_same_for_any_number_of_threads() -> None:
    counts = _corpus(300)
    hashed = KEY.hash_terms(counts.vocabulary, SketchShape(n_rows=2, n_columns=50))
    before = numba.get_num_threads()
    found = []
    try:
        for n_threads in range(1, min(3, numba.config.NUMBA_NUM_THREADS) + 1):
            numba.set_num_threads(n_threads)
            found.append(row_cells(counts, hashed, 1))
    finally:
        numba.set_num_threads(before)
    assert all((cells == found[0]).all() for cells in found)


def test_memory_that_is_used_again_holds_nothing_of_before() -> None:
    counts = _corpus(70)
    hashed = KEY.hash_terms(counts.vocabulary, SketchShape(n_rows=2, n_columns=50))
    out = np.full((50, 70), 77, np.int16)
    assert (row_cells(counts, hashed, 0, out=out) == row_cells(counts, hashed, 0)).all()


def test_the_type_of_cells_grows_with_the_longest_document() -> None:
    def of_length(n_tokens: int) -> TermCounts:
        arrays = np.array([0, 1]), np.zeros(1, np.int32), np.array([n_tokens], np.int32)
        return TermCounts(*arrays, ["a"])

    assert cell_type(of_length(2**15 - 1)) is np.int16
    assert cell_type(of_length(2**15)) is np.int32
    too_long = TermCounts(
        np.array([0, 2]), np.array([0, 1], np.int32), np.full(2, 2**31 - 1, np.int32), ["a", "b"]
    )
    with pytest.raises(DataError, match="too long"):
        cell_type(too_long)


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    counts = count_terms(["cough", "fever"])
    hashed = KEY.hash_terms(counts.vocabulary, SketchShape(n_rows=2, n_columns=5))
    with pytest.raises(DataError, match="3 hashed terms"):
        row_cells(counts, KEY.hash_terms(["a", "b", "c"], hashed.shape), 0)
    for row in (-1, 2):
        with pytest.raises(DataError, match="2 rows"):
            row_cells(counts, hashed, row)
    for out in (np.zeros((5, 1), np.int16), np.zeros((4, 2), np.int16), np.zeros((5, 2), np.int8)):
        with pytest.raises(DataError, match="cannot hold"):
            row_cells(counts, hashed, 0, out=out)
