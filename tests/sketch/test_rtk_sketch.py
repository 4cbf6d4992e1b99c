"""Updates against building afresh."""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import CloisterError, DataError, NotFound
from cloister.sketch.keyed_hash import HashedTerms, HashKey, SketchShape
from cloister.sketch.naive import Naive
from cloister.sketch.rtk_lists import NO_FLOOR
from cloister.sketch.rtk_sketch import RtkSketch
from sketch.literal_rtk import KEY, VOCABULARY, tables, world

SHAPE = SketchShape(n_rows=3, n_columns=4)
HASHED = KEY.hash_terms(VOCABULARY, SHAPE)


def _answers(sketch: RtkSketch, hashed: HashedTerms = HASHED) -> list[list[tuple[str, float]]]:
    """Return what a user sees: names and counts."""
    found = sketch.top(hashed, 8)
    return [
        [
            (str(sketch.doc_ids[document]), count)
            for document, count in zip(documents.tolist(), counts.tolist(), strict=True)
            if document >= 0
        ]
        for documents, counts in zip(found.documents, found.counts, strict=True)
    ]


def _check_bounds(sketch: RtkSketch, table: np.ndarray) -> None:
    """Every list is a prefix of the true order, and its floor bounds the rest."""
    live = [i for i, name in enumerate(sketch.doc_ids) if name is not None]
    dense = Naive(world(table), HASHED).cells
    for cell in range(SHAPE.n_cells):
        for side, sign in enumerate((1, -1)):
            values = sign * dense[cell].astype(int)
            order = sorted(live, key=lambda d: (-values[d], d))
            n = sketch.lists.sizes[cell, side]
            assert sketch.lists.ids[cell, side, :n].tolist() == order[:n]
            assert sketch.lists.values[cell, side, :n].tolist() == [values[d] for d in order[:n]]
            floor = sketch.lists.floors[cell, side]
            assert all(values[d] <= floor for d in order[n:])
            assert (floor == NO_FLOOR) == (n == len(live))


@settings(max_examples=40)
@given(
    tables(),
    st.integers(1, 8),
    st.integers(0, 3),
    st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=25),
)
def test_answers_are_those_of_a_fresh_sketch_unless_a_rebuild_is_asked_for(
    table: np.ndarray, cell_size: int, slack: int, changes: list[tuple[bool, int]]
) -> None:
    counts = world(table)
    n = counts.n_documents
    first = max(1, n // 2)
    sketch = RtkSketch.build(
        counts.select(np.arange(first)), HASHED, cell_size=cell_size, slack=slack
    )
    n_added = first
    for add, which in changes:
        live = [name for name in sketch.doc_ids if name is not None]
        if add and n_added < n:
            size = 1 + which % min(3, n - n_added)
            sketch.add(counts.select(np.arange(n_added, n_added + size)), HASHED)
            n_added += size
        elif live:
            sketch.delete(live[which % len(live)])
    _check_bounds(sketch, table)
    live = [i for i, name in enumerate(sketch.doc_ids) if name is not None]
    fresh = sketch.rebuild(counts.select(np.array(live, int)), HASHED, [str(i) for i in live])
    assert not fresh.needs_rebuild
    assert fresh.n_holes == 0
    if not sketch.needs_rebuild:
        assert sketch.n_holes == 0
        assert _answers(sketch) == _answers(fresh)


@settings(max_examples=40)
@given(tables(), tables(), st.integers(1, 8), st.integers(1, 4))
def test_with_slack_for_it_adding_and_deleting_leaves_no_trace(
    table: np.ndarray, more: np.ndarray, cell_size: int, slack: int
) -> None:
    counts = world(table)
    untouched = RtkSketch.build(counts, HASHED, cell_size=cell_size, slack=slack)
    sketch = RtkSketch.build(counts, HASHED, cell_size=cell_size, slack=slack)
    extra = world(more[: slack - 1]) if slack > 1 else None
    if extra is not None:
        sketch.add(extra, HASHED, [f"new {i}" for i in range(extra.n_documents)])
        for i in range(extra.n_documents):
            sketch.delete(f"new {i}")
    assert not sketch.needs_rebuild
    assert _answers(sketch) == _answers(untouched)


def test_without_slack_a_pushed_out_document_is_lost_and_a_rebuild_is_asked_for() -> None:
    table = np.zeros((3, 12), int)
    table[:, 0] = [1, 2, 3]
    counts = world(table)
    sketch = RtkSketch.build(counts.select(np.array([0, 1])), HASHED, cell_size=1, slack=0)
    before = _answers(sketch)[0]
    assert not sketch.needs_rebuild
    sketch.add(counts.select(np.array([2])), HASHED, ["new"])
    sketch.delete("new")
    assert sketch.needs_rebuild
    assert sketch.n_holes > 0
    assert _answers(sketch)[0] != before
    fresh = sketch.rebuild(counts.select(np.array([0, 1])), HASHED)
    assert _answers(fresh)[0] == before


def test_a_batch_is_as_one_by_one() -> None:
    table = np.random.default_rng(4).geometric(0.5, (30, 12)) - 1
    counts = world(table)
    some = counts.select(np.arange(10))
    batch = RtkSketch.build(some, HASHED, cell_size=6, slack=2)
    single = RtkSketch.build(some, HASHED, cell_size=6, slack=2)
    batch.add(counts.select(np.arange(10, 30)), HASHED)
    for i in range(10, 30):
        single.add(counts.select(np.array([i])), HASHED)
    whole = RtkSketch.build(counts, HASHED, cell_size=6, slack=2)
    for sketch in (batch, single):
        for mine, other in zip(sketch.lists, whole.lists, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_the_lists_do_not_depend_on_the_number_of_threads() -> None:
    counts = world(np.random.default_rng(4).geometric(0.5, (200, 12)) - 1)
    n_threads = numba.get_num_threads()
    built = []
    try:
        for threads in (1, n_threads):
            numba.set_num_threads(threads)
            sketch = RtkSketch.build(counts, HASHED, cell_size=20, slack=1)
            sketch.delete("7")
            built.append(sketch)
    finally:
        numba.set_num_threads(n_threads)
    for mine, other in zip(built[0].lists, built[1].lists, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_saved_sketch_answers_and_changes_as_before(tmp_path: Path) -> None:
    counts = world(np.random.default_rng(4).geometric(0.5, (40, 12)) - 1)
    sketch = RtkSketch.build(counts, HASHED, cell_size=6, slack=1)
    sketch.delete("3")
    sketch.save(tmp_path / "a.rtk")
    loaded = RtkSketch.load(tmp_path / "a.rtk")
    assert _answers(loaded) == _answers(sketch)
    assert loaded.needs_rebuild == sketch.needs_rebuild
    for changed in (loaded, sketch):
        changed.delete("4")
        changed.add(counts.select(np.array([3])), HASHED, ["3"])
    assert _answers(loaded) == _answers(sketch)
    assert loaded.doc_ids == sketch.doc_ids


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    counts = world(np.random.default_rng(4).geometric(0.5, (40, 12)) - 1)
    path = tmp_path / "a.rtk"
    RtkSketch.build(counts, HASHED, cell_size=6).save(path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(CloisterError):
        RtkSketch.load(path)


def test_unknown_and_repeated_documents_and_other_keys_are_refused() -> None:
    counts = world(np.ones((2, 12), int))
    sketch = RtkSketch.build(counts, HASHED, cell_size=6)
    with pytest.raises(NotFound):
        sketch.delete("2")
    with pytest.raises(DataError):
        sketch.add(counts, HASHED, ["1", "2"])
    with pytest.raises(DataError):
        sketch.add(counts, HASHED, ["5", "5"])
    other = HashKey(bytes(32)).hash_terms(VOCABULARY, SHAPE)
    with pytest.raises(DataError):
        sketch.top(other)
    with pytest.raises(DataError):
        sketch.add(counts, other, ["6", "7"])


def test_memory_is_an_eighth_of_dense_sketches_at_the_papers_size() -> None:
    # 36,400 documents, 30 x 200 cells, alpha 5 and K 150 in two bytes and four an entry.
    sketch = RtkSketch.build(world(np.ones((2, 12), int)), HASHED, cell_size=750)
    per_cell = sketch.size_bytes / SHAPE.n_cells
    assert per_cell <= 36_400 * 2 / 8
