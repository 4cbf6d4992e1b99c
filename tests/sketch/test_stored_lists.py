"""Files from others: lists that would lead a kernel astray are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import DataError
from cloister.index.term_counts import count_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.noisy_release import NoisyRelease, NoisyReleaseSettings, make_release
from cloister.sketch.rtk_sketch import KIND, RtkSketch
from cloister.store.array_file import from_bytes, open_arrays, to_bytes, write_arrays

KEY = HashKey(bytes(range(32)))
COUNTS = count_terms(["cough cough fever", "fever rash", "asthma " * 9, "cough", ""])
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def _cast(name: str, dtype: Any) -> Change:
    return lambda header, arrays: arrays.update({name: arrays[name].astype(dtype)})


def _cut(name: str, *own: Any) -> Change:
    return lambda header, arrays: arrays.update({name: arrays[name][own]})


def _put(name: str, place: Any, value: int) -> Change:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


def _set(**fields: Any) -> Change:
    return lambda header, arrays: header.update(fields)


def _twice(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["ids"][0, 0, 1] = arrays["ids"][0, 0, 0]


OF_LISTS: dict[str, Change] = {
    "ids of another type": _cast("ids", np.int64),
    "values of another type": _cast("values", np.int32),
    "values that are not whole": _cast("values", np.float32),
    "sizes of another type": _cast("sizes", np.int64),
    "floors of another type": _cast("floors", np.int32),
    "ids for fewer cells": _cut("ids", slice(1, None)),
    "shorter lists of ids": _cut("ids", ..., slice(1, None)),
    "shorter lists of values": _cut("values", ..., slice(1, None)),
    "values for fewer cells": _cut("values", slice(1, None)),
    "sizes for fewer cells": _cut("sizes", slice(1, None)),
    "sizes of one side": _cut("sizes", slice(None), slice(1)),
    "floors for fewer cells": _cut("floors", slice(1, None)),
    "a flat table of floors": lambda header, arrays: arrays.update(floors=arrays["floors"].ravel()),
    "a size below 0": _put("sizes", (0, 0), -1),
    "a size beyond the list": _put("sizes", (3, 1), 100),
    "a size of 2 to the 30th": _put("sizes", (3, 1), 1 << 30),
    "a document that is not there": _put("ids", (2, 1, 1), 5),
    "a document far away": _put("ids", (2, 1, 1), 2**31 - 1),
    "a document below 0": _put("ids", (2, 1, 1), -2),
    "an empty place among the entries": _put("ids", (2, 1, 1), -1),
    "an entry after the last": _put("sizes", (2, 1), 1),
    "a document twice in a list": _twice,
}
OF_RELEASES: dict[str, Change] = {
    "lengths of another type": _cast("lengths", np.int64),
    "lengths in a table": lambda header, arrays: arrays.update(lengths=arrays["lengths"][None]),
    "fewer lengths": _cut("lengths", slice(1, None)),
    "no lengths": _cut("lengths", slice(0)),
    "df of another type": _cast("document_frequencies", np.float32),
    "cf of another type": _cast("collection_frequencies", np.int16),
    "df for fewer rows": _cut("document_frequencies", slice(1, None)),
    "cf for fewer columns": _cut("collection_frequencies", slice(None), slice(1, None)),
    "settings that cannot be": _set(settings={"epsilon": -1}),
    "settings that are none": _set(settings=[1]),
    "a release that is none": _set(release=3),
}
OF_SKETCHES: dict[str, Change] = {
    "loose of another shape": _cut("loose", slice(1, None)),
    "loose of another type": _cast("loose", np.int32),
    "a deleted document in a list": _set(doc_ids=["a", None, "c", "d", "e"]),
    "too few names": _set(doc_ids=["a", "b"]),
    "names that are none": _set(doc_ids=[1, 2, 3, 4, 5]),
    "a name twice": _set(doc_ids=["a", "a", "c", "d", "e"]),
    "no list of names": _set(doc_ids="abcde"),
    "a cell size of 0": _set(cell_size=0),
    "a cell size below 0": _set(cell_size=-3),
    "a cell size beyond the lists": _set(cell_size=1000),
    "a cell size that is none": _set(cell_size="3"),
    "no rows": _set(n_rows=0),
    "rows that are none": _set(n_rows="many"),
    "a fingerprint that is none": _set(key_fingerprint=3),
}


def _copied(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in arrays.items()}


def _released() -> bytes:
    settings = NoisyReleaseSettings(
        n_rows=2, n_columns=5, cell_size=4, epsilon=4.0, statistics_columns=16
    )
    return make_release(COUNTS, KEY, settings, words=SeededWords(1)).to_bytes()


@pytest.mark.parametrize("change", (OF_LISTS | OF_RELEASES).values(), ids=OF_LISTS | OF_RELEASES)
def test_an_altered_release_is_refused(change: Change) -> None:
    header, arrays = from_bytes(_released(), NoisyRelease.kind)
    arrays = _copied(arrays)
    NoisyRelease.from_bytes(to_bytes(NoisyRelease.kind, header, arrays))
    change(header, arrays)
    with pytest.raises(DataError, match="noisy-release bytes"):
        NoisyRelease.from_bytes(to_bytes(NoisyRelease.kind, header, arrays))


@pytest.mark.parametrize("change", (OF_LISTS | OF_SKETCHES).values(), ids=OF_LISTS | OF_SKETCHES)
def test_an_altered_sketch_is_refused(change: Change, tmp_path: Path) -> None:
    path = tmp_path / "exact.sketch"
    hashed = KEY.hash_terms(COUNTS.vocabulary, SketchShape(n_rows=2, n_columns=5))
    RtkSketch.build(COUNTS, hashed, cell_size=3, slack=1).save(path)
    header, arrays = open_arrays(path, KIND)
    arrays = _copied(arrays)
    write_arrays(path, KIND, header, arrays)
    RtkSketch.load(path)
    change(header, arrays)
    write_arrays(path, KIND, header, arrays)
    with pytest.raises(DataError, match=r"exact\.sketch"):
        RtkSketch.load(path)


def test_a_sketch_with_holes_is_read(tmp_path: Path) -> None:
    hashed = KEY.hash_terms(COUNTS.vocabulary, SketchShape(n_rows=2, n_columns=5))
    sketch = RtkSketch.build(COUNTS, hashed, cell_size=3, slack=0)
    sketch.delete("0")
    sketch.save(tmp_path / "a")
    assert RtkSketch.load(tmp_path / "a").n_holes == sketch.n_holes


def test_an_empty_corpus_is_written_and_read() -> None:
    settings = NoisyReleaseSettings(n_rows=1, n_columns=2, cell_size=1, epsilon=4.0)
    made = make_release(count_terms([]), KEY, settings, words=SeededWords(1))
    assert NoisyRelease.from_bytes(made.to_bytes()).n_documents == 0
