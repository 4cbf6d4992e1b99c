"""Count Sketch, against counters and the formulas written out; the shared table with Count-Min."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import Damaged, DataError
from cloister.core.random import stream
from cloister.data.beir import open_beir
from cloister.index.term_counts import count_terms
from cloister.sketch.count_min import CountMin
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashedTerms, HashKey, SketchShape

KEY = HashKey(b"count sketch".ljust(32))
KINDS = [CountSketch, CountMin]
WORDS = [f"word{number}" for number in range(15)]
some_counts = st.lists(st.integers(-1000, 1000), min_size=15, max_size=15).map(np.array)
shapes = st.builds(SketchShape, n_rows=st.integers(1, 6), n_columns=st.integers(1, 12))


def literal_table(hashed: HashedTerms, counts: Any, *, signed: bool) -> Counter[tuple[int, int]]:
    table: Counter[tuple[int, int]] = Counter()
    for term in range(hashed.n_terms):
        for row in range(hashed.shape.n_rows):
            sign = int(hashed.signs[term, row]) if signed else 1
            table[row, int(hashed.columns[term, row])] += sign * int(counts[term])
    return table


def sketch_of(kind: Any, counts: Any, shape: SketchShape, key: HashKey = KEY) -> Any:
    return kind.empty(shape, key.fingerprint).add(key.hash_terms(WORDS, shape), counts)


@pytest.mark.parametrize("kind", KINDS)
@given(counts=some_counts, shape=shapes)
def test_the_table_holds_the_sums_of_the_formula(
    kind: Any, counts: Any, shape: SketchShape
) -> None:
    table = literal_table(KEY.hash_terms(WORDS, shape), counts, signed=kind is CountSketch)
    found = sketch_of(kind, counts, shape).table
    assert found.shape == (shape.n_rows, shape.n_columns)
    for row in range(shape.n_rows):
        for column in range(shape.n_columns):
            assert found[row, column] == table[row, column]


@given(counts=some_counts, shape=shapes, signed=st.booleans())
def test_an_estimate_is_the_median_over_rows(counts: Any, shape: SketchShape, signed: bool) -> None:
    hashed = KEY.hash_terms(WORDS, shape)
    table = literal_table(hashed, counts, signed=True)
    for term, found in enumerate(
        sketch_of(CountSketch, counts, shape).estimate(hashed, signed=signed)
    ):
        answers = [
            table[row, int(hashed.columns[term, row])]
            * (int(hashed.signs[term, row]) if signed else 1)
            for row in range(shape.n_rows)
        ]
        assert found == median(answers)


@pytest.mark.parametrize("kind", KINDS)
@given(first=some_counts, second=some_counts, shape=shapes)
def test_what_is_added_and_removed_was_never_there(
    kind: Any, first: Any, second: Any, shape: SketchShape
) -> None:
    hashed = KEY.hash_terms(WORDS, shape)
    before = sketch_of(kind, first, shape)
    kept = before.table.copy()
    after = before.add(hashed, second).remove(hashed, second)
    assert (after.table == kept).all()
    assert (before.table == kept).all()


@pytest.mark.parametrize("kind", KINDS)
@given(first=some_counts, second=some_counts, shape=shapes)
def test_merging_counts_both(kind: Any, first: Any, second: Any, shape: SketchShape) -> None:
    merged = sketch_of(kind, first, shape).merge(sketch_of(kind, second, shape))
    assert (merged.table == sketch_of(kind, first + second, shape).table).all()


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_counted_by_tokens_or_once(kind: Any) -> None:
    texts = ["cough cough fever", "cough rash", "fever fever fever"]
    counts = count_terms(texts)
    shape = SketchShape(n_rows=3, n_columns=4)
    hashed = KEY.hash_terms(counts.vocabulary, shape)
    tokens = Counter(word for text in texts for word in text.split())
    once = Counter(word for text in texts for word in set(text.split()))
    for frequencies, expected in (("collection", tokens), ("document", once)):
        found = kind.from_counts(counts, hashed, frequencies=frequencies)
        numbers = np.array([expected[term] for term in counts.vocabulary])
        assert (found.table == kind.empty(shape, KEY.fingerprint).add(hashed, numbers).table).all()
    alone = [kind.from_counts(counts.select(np.array([d])), hashed) for d in range(3)]
    together = alone[0].merge(alone[1]).merge(alone[2])
    assert (together.table == kind.from_counts(counts, hashed).table).all()


def test_estimates_are_unbiased_over_keys_with_the_variance_of_the_formula() -> None:
    counts = np.array([50, 20, 10, 5, 5, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0])
    n_columns, n_keys = 10, 4000
    shape = SketchShape(n_rows=1, n_columns=n_columns)
    errors = []
    for number in range(n_keys):
        key = HashKey(number.to_bytes(32, "little"))
        estimates = sketch_of(CountSketch, counts, shape, key).estimate(
            key.hash_terms(WORDS, shape)
        )
        errors.append(estimates - counts)
    found = np.array(errors)
    variance = ((counts**2).sum() - counts**2) / n_columns
    assert (np.abs(found.mean(axis=0)) < 5 * np.sqrt(variance / n_keys)).all()
    spread = found.var(axis=0)
    kurtosis = (found**4).mean(axis=0)
    assert (np.abs(spread - variance) < 5 * np.sqrt((kurtosis - spread**2) / n_keys)).all()


@pytest.mark.parametrize("n_rows", [5, 6])
def test_the_median_over_rows_is_unbiased_and_narrower_than_a_row(n_rows: int) -> None:
    counts = np.array([50, 20, 10, 5, 5, 3, 3, 2, 2, 1, 1, 1, 1, 1, 0])
    shape = SketchShape(n_rows=n_rows, n_columns=10)
    errors = []
    for number in range(2000):
        key = HashKey(number.to_bytes(32, "little"))
        estimates = sketch_of(CountSketch, counts, shape, key).estimate(
            key.hash_terms(WORDS, shape)
        )
        errors.append(estimates - counts)
    found = np.array(errors)
    assert (np.abs(found.mean(axis=0)) < 5 * found.std(axis=0) / np.sqrt(2000)).all()
    assert (found.var(axis=0) < ((counts**2).sum() - counts**2) / 10 / 2).all()


def test_without_the_sign_estimates_are_worthless() -> None:
    counts = np.arange(1, 16) * 100
    shape = SketchShape(n_rows=3, n_columns=20_000)
    hashed = KEY.hash_terms(WORDS, shape)
    sketch = sketch_of(CountSketch, counts, shape)
    assert (sketch.estimate(hashed) == counts).all()
    printed = sketch.estimate(hashed, signed=False)
    majority = np.where(hashed.signs.sum(axis=1) > 0, 1, -1)
    assert (printed == majority * counts).all()
    assert (printed < 0).any()


def test_terms_of_a_real_collection_are_estimated_within_the_error_of_the_formula(
    real_data: Callable[[str], Path],
) -> None:
    collection = open_beir(real_data("text/nfcorpus"))
    counts = count_terms(document.text for document in collection.documents[:300])
    hashed = KEY.hash_terms(counts.vocabulary, SketchShape(n_rows=9, n_columns=2000))
    truth = counts.collection_frequencies(counts.vocabulary)
    errors = CountSketch.from_counts(counts, hashed).estimate(hashed) - truth
    assert np.sqrt((errors**2).mean()) < np.sqrt((truth**2).sum() / 2000)
    assert abs(errors.mean()) < 0.1 * np.abs(errors).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_an_overflow_is_refused_and_changes_nothing(kind: Any) -> None:
    shape = SketchShape(n_rows=2, n_columns=1)
    hashed = KEY.hash_terms(["a"], shape)
    half = np.array([2**62 - 2**10])
    once = kind.empty(shape, KEY.fingerprint).add(hashed, half)
    twice = once.add(hashed, half)
    with pytest.raises(DataError, match="pass 2\\^63"):
        twice.add(hashed, half)
    with pytest.raises(DataError, match="pass 2\\^63"):
        twice.merge(once)
    with pytest.raises(DataError, match="2\\^62"):
        once.add(hashed, np.array([2**62]))
    with pytest.raises(DataError, match="2\\^62"):
        once.add(hashed, np.array([-(2**63)]))
    with pytest.raises(DataError, match="2\\^62"):
        once.remove(hashed, np.array([2**63], np.uint64))
    assert (abs(once.table) == half[0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sketches_that_cannot_be_compared_are_refused_with_the_reason(kind: Any) -> None:
    shape, other = SketchShape(n_rows=2, n_columns=5), SketchShape(n_rows=2, n_columns=6)
    sketch = kind.empty(shape, KEY.fingerprint)
    with pytest.raises(DataError, match="2 x 5 cells cannot be merged with 2 x 6 cells"):
        sketch.merge(kind.empty(other, KEY.fingerprint))
    with pytest.raises(DataError, match="hashed with key 0123, where key"):
        sketch.merge(kind.empty(shape, "0123"))
    unlike = CountMin if kind is CountSketch else CountSketch
    with pytest.raises(DataError, match="cannot be merged with a"):
        sketch.merge(unlike.empty(shape, KEY.fingerprint))
    with pytest.raises(DataError, match="terms hashed for 2 x 6"):
        sketch.estimate(KEY.hash_terms(WORDS, other))
    with pytest.raises(DataError, match="sketch again with the key"):
        sketch.add(HashKey(b"\x01" * 32).hash_terms(["a"], shape), np.array([1]))
    outside = HashedTerms(shape, np.full((1, 2), 5, np.uint32), np.ones((1, 2), np.int8))
    with pytest.raises(DataError, match="outside"):
        sketch.add(outside, np.array([1]))


@pytest.mark.parametrize(
    "counts", [np.array([1.0]), np.array([1, 2]), np.array([[1]]), np.array([True])]
)
def test_counts_that_are_not_one_whole_number_a_term_are_refused(counts: Any) -> None:
    shape = SketchShape(n_rows=2, n_columns=5)
    with pytest.raises(DataError, match="whole numbers"):
        CountSketch.empty(shape, KEY.fingerprint).add(KEY.hash_terms(["a"], shape), counts)


def test_tables_and_fingerprints_that_cannot_be_are_refused() -> None:
    shape = SketchShape(n_rows=2, n_columns=5)
    for table in (np.zeros((5, 2), np.int64), np.zeros((2, 5))):
        with pytest.raises(DataError, match="is needed"):
            CountSketch(shape, KEY.fingerprint, table)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="fingerprint"):
        CountSketch.empty(shape, "")
    counts = count_terms(["cough"])
    with pytest.raises(DataError, match="2 hashed terms"):
        CountSketch.from_counts(counts, KEY.hash_terms(["a", "b"], shape))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_comes_back_from_its_file_and_its_bytes(kind: Any, tmp_path: Path) -> None:
    rng = stream(3, "sketch-file")
    shape = SketchShape(n_rows=3, n_columns=40)
    sketch = sketch_of(kind, rng.integers(0, 9, 15), shape)
    sketch.save(tmp_path / "a.sketch")
    hashed = KEY.hash_terms(WORDS, shape)
    for found in (kind.load(tmp_path / "a.sketch"), kind.from_bytes(sketch.to_bytes())):
        assert (found.table == sketch.table).all()
        assert (found.shape, found.key_fingerprint) == (shape, KEY.fingerprint)
        assert (found.estimate(hashed) == sketch.estimate(hashed)).all()
        assert (found.merge(sketch).table == 2 * sketch.table).all()
    assert KEY.secret_bytes() not in (tmp_path / "a.sketch").read_bytes()


def test_a_file_of_the_other_kind_or_with_another_table_is_refused(tmp_path: Path) -> None:
    from cloister.store.array_file import write_arrays

    CountMin.empty(SketchShape(), "0123").save(tmp_path / "a")
    with pytest.raises(DataError, match="'count-min', where 'count-sketch'"):
        CountSketch.load(tmp_path / "a")
    table = np.zeros((2, 3), np.int64)
    header: dict[str, Any] = {"shape": {"n_rows": 3, "n_columns": 2}, "key_fingerprint": "0123"}
    write_arrays(tmp_path / "b", "count-sketch", header, {"table": table})
    with pytest.raises(DataError, match="is needed"):
        CountSketch.load(tmp_path / "b")
    write_arrays(tmp_path / "c", "count-sketch", {}, {"table": table})
    with pytest.raises(DataError, match="shape"):
        CountSketch.load(tmp_path / "c")
    content = bytearray((tmp_path / "a").read_bytes())
    content[-1] ^= 1
    with pytest.raises(Damaged):
        CountMin.from_bytes(bytes(content))


def test_a_term_that_is_not_there_counts_plus_zero() -> None:
    shape = SketchShape(n_rows=3, n_columns=20)
    estimates = CountSketch.empty(shape, KEY.fingerprint).estimate(KEY.hash_terms(WORDS, shape))
    assert not np.signbit(estimates).any()
