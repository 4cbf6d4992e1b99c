from __future__ import annotations

import dataclasses
import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cloister.cloud.box_layout import ClosureBox, PairBox, PhraseBox, WordBox
from cloister.cloud.model_box import ModelBox
from cloister.cloud.sealed_boxes import BoxToken
from cloister.core.errors import CloisterError, DataError
from cloister.store.array_file import from_bytes, to_bytes
from cloud.made_boxes import MadeIndex

TOKEN = BoxToken(bytes(range(16)), bytes(range(32)))
N_DOCUMENTS = 50
documents = st.sets(st.integers(0, N_DOCUMENTS - 1)).map(
    lambda numbers: np.array(sorted(numbers), np.int32)
)


def levels_of(n: int, n_columns: int, *, plain: bool, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if plain:
        return (rng.random((n, n_columns)) * 20).astype(np.float32)
    return rng.integers(1, 256, (n, n_columns)).astype(np.uint8)


def codes_of(n: int, n_columns: int, seed: int = 0, n_bits: int = 63) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**n_bits - 1, (n, n_columns))


@given(
    st.integers(0, 30), st.integers(0, 8), st.booleans(), st.integers(0, 9), st.sampled_from([4, 8])
)
def test_boxes_of_words_and_phrases_come_back(
    n: int, c: int, plain: bool, seed: int, n_bytes: int
) -> None:
    codes = codes_of(n, c, seed, 8 * n_bytes - 1)
    if codes.size:
        codes[0, 0] = -(2 ** (8 * n_bytes - 1))
    box = WordBox(TOKEN, levels_of(n, 20, plain=plain, seed=seed), codes)
    content = box.encode()
    assert len(content) == 56 + n_bytes * n * c + (4 if plain else 1) * 20 * n
    again = WordBox.decode(memoryview(content))
    np.testing.assert_array_equal(again.levels, box.levels)
    np.testing.assert_array_equal(again.codes, box.codes)
    assert again.closure == TOKEN
    assert again.levels.dtype == box.levels.dtype
    phrase = PhraseBox(TOKEN, levels_of(n, 10, plain=plain, seed=seed))
    np.testing.assert_array_equal(PhraseBox.decode(phrase.encode()).levels, phrase.levels)


def test_a_words_box_lies_in_bytes_as_documented() -> None:
    box = WordBox(TOKEN, levels_of(2, 20, plain=False), np.array([[5, -6], [7, 2**40]]))
    content = box.encode()
    assert content[:8] == bytes([2, 0, 0, 0, 20, 1, 2, 8])
    assert content[8:24] == TOKEN.label
    assert content[24:56] == TOKEN.key
    assert struct.unpack("<4q", content[56:88]) == (5, -6, 7, 2**40)
    assert content[88:] == box.levels.tobytes()
    short = dataclasses.replace(box, codes=np.array([[5, -6], [7, 8]])).encode()
    assert short[:8] == bytes([2, 0, 0, 0, 20, 1, 2, 4])
    assert struct.unpack("<4i", short[56:72]) == (5, -6, 7, 8)
    assert short[72:] == box.levels.tobytes()


@given(documents, st.integers(0, 7))
def test_boxes_of_closures_and_pairs_come_back(numbers: np.ndarray, c: int) -> None:
    content = ClosureBox(numbers).encode()
    assert content == struct.pack(f"<II{len(numbers)}i", len(numbers), 0, *numbers.tolist())
    np.testing.assert_array_equal(ClosureBox.decode(content, N_DOCUMENTS).documents, numbers)
    box = PairBox(numbers, codes_of(len(numbers), c))
    content = box.encode()
    again = PairBox.decode(content, N_DOCUMENTS)
    assert content[:8] == struct.pack("<IBBH", len(numbers), c, 8 if box.codes.size else 4, 0)
    np.testing.assert_array_equal(again.documents, numbers)
    np.testing.assert_array_equal(again.codes, box.codes)


def decoded(kind: str, content: bytes) -> Any:
    if kind in ("closure", "pair"):
        return {"closure": ClosureBox, "pair": PairBox}[kind].decode(content, N_DOCUMENTS)
    return {"word": WordBox, "phrase": PhraseBox, "model": ModelBox}[kind].decode(content)


@cache
def encoded(kind: str) -> bytes:
    numbers = np.array([3, 4, 9], np.int32)
    return {
        "word": WordBox(TOKEN, levels_of(3, 20, plain=False), codes_of(3, 6)),
        "phrase": PhraseBox(TOKEN, levels_of(3, 10, plain=True)),
        "closure": ClosureBox(numbers),
        "pair": PairBox(numbers, codes_of(3, 5)),
        "model": MadeIndex().model,
    }[kind].encode()


KINDS = ["word", "phrase", "closure", "pair", "model"]


@pytest.mark.parametrize("kind", KINDS)
@examples(max_examples=30)
@given(data=st.data())
def test_a_content_that_is_cut_off_or_too_long_is_refused(kind: str, data: st.DataObject) -> None:
    content = encoded(kind)
    short = content[: data.draw(st.integers(0, len(content) - 1))]
    for wrong in (short, content + b"\0", content + bytes(8)):
        with pytest.raises(CloisterError):
            decoded(kind, wrong)


@pytest.mark.parametrize("kind", KINDS)
@examples(max_examples=30)
@given(data=st.data())
def test_any_bytes_are_read_or_refused_and_never_crash(kind: str, data: st.DataObject) -> None:
    content = bytearray(encoded(kind))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    try:
        box = decoded(kind, bytes(content))
    except CloisterError:
        return
    assert len(box.encode()) == len(content)


@pytest.mark.parametrize("kind", ["closure", "pair"])
@pytest.mark.parametrize("numbers", [[3, 3], [4, 3], [-1, 2], [2, N_DOCUMENTS], [2**31 - 1]])
def test_documents_that_do_not_rise_or_exist_are_refused(kind: str, numbers: list[int]) -> None:
    listed = np.array(numbers, np.int32)
    box: Any = (
        ClosureBox(listed) if kind == "closure" else PairBox(listed, codes_of(len(listed), 1))
    )
    with pytest.raises(DataError, match="rising"):
        decoded(kind, box.encode())


def test_a_box_of_another_kind_is_refused() -> None:
    with pytest.raises(DataError, match="20 stored values"):
        WordBox.decode(encoded("phrase"))
    with pytest.raises(DataError, match="no codes"):
        PhraseBox.decode(encoded("word"))
    with pytest.raises(DataError, match="not a model"):
        ModelBox.decode(encoded("word"))


def test_rows_that_do_not_fit_are_refused_when_a_box_is_made() -> None:
    levels = levels_of(3, 20, plain=False)
    for codes in (
        codes_of(2, 4),
        codes_of(3, 4).astype(np.int32),
        codes_of(3, 4)[0],
        codes_of(3, 256),
    ):
        with pytest.raises(DataError, match="row of codes"):
            WordBox(TOKEN, levels, codes)
    with pytest.raises(DataError, match="single precision"):
        WordBox(TOKEN, levels.astype(np.float64), codes_of(3, 1))
    with pytest.raises(DataError, match="at least 0"):
        PhraseBox(TOKEN, np.full((1, 10), np.nan, np.float32))
    with pytest.raises(DataError, match="label or key"):
        PhraseBox(BoxToken(b"", b""), levels_of(1, 10, plain=False))


@pytest.mark.parametrize("trees", [True, False])
@pytest.mark.parametrize("base", [10.0, None])
def test_a_model_comes_back(trees: bool, base: float | None) -> None:
    model = MadeIndex(trees=trees, base=base).model
    again = ModelBox.decode(memoryview(model.encode()))
    assert (again.bias, again.base, again.n_documents) == (model.bias, base, model.n_documents)
    assert again.forest_of_length == model.forest_of_length
    for name in ("weights", "term_zeros", "pair_zeros", "pair_turned", "document_codes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for one, two in zip(again.forests, model.forests, strict=True):
        assert one.spread == two.spread
        np.testing.assert_array_equal(one.sources, two.sources)
        for name, array in two.forest.arrays.items():
            np.testing.assert_array_equal(one.forest.arrays[name], array)
    assert (again.forest_for(7) is None) == (not trees)


def test_the_forest_of_the_longest_length_serves_longer_queries() -> None:
    model = MadeIndex().model  # lengths 0, 1, 2 have the forests 0, 1, 0
    assert [model.forests.index(model.forest_for(n)) for n in (0, 1, 2, 9)] == [0, 1, 0, 0]  # type: ignore[arg-type]


def wrong_sources(column: int, value: int) -> Any:
    model = MadeIndex().model
    sources = model.forests[0].sources.copy()
    sources[sources[:, 0] == 1, column] = value
    return (model.forests[0]._replace(sources=sources), *model.forests[1:])


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.ones(30)}, {"weights": np.full(31, np.nan)}, {"bias": float("inf")},
        {"base": 1.0}, {"n_documents": 11}, {"forests": ()}, {"forest_of_length": (0, 2)},
        {"forest_of_length": ()}, {"term_zeros": np.zeros(2, np.int64)},
        {"term_zeros": np.zeros(3, np.int32)}, {"pair_zeros": np.zeros(3, np.int64)},
        {"pair_turned": np.array([0, 4, 1, 3], np.int32)},
        {"pair_turned": np.array([0, -1, 1, 3], np.int32)},
        {"document_codes": np.zeros((12, 1), np.int64)},
        {"document_codes": np.zeros((12, 2), np.int32)},
        {"forests": wrong_sources(0, 3)}, {"forests": wrong_sources(1, 32)},
        {"forests": wrong_sources(1, -1)}, {"forests": wrong_sources(2, 0)},
        {"forests": wrong_sources(3, 4)},
    ],
)  # fmt: skip
def test_a_model_whose_parts_do_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CloisterError):
        dataclasses.replace(MadeIndex().model, **change)


def test_a_model_with_another_header_or_other_arrays_is_refused() -> None:
    header, arrays = from_bytes(MadeIndex().model.encode(), "private-model")
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"format": 2}, {}), ({"spreads": [1.0]}, {}), ({"spreads": "ab"}, {}),
        ({"more": 1}, {}), ({"base": "ten"}, {}), ({"forest_of_length": [0.5, None]}, {}),
        ({"bias": 10**400}, {}), ({"base": 10**400}, {}), ({"spreads": [10**400] * 2}, {}),
        ({"spreads": [0.0, 1.0]}, {}), ({}, {"more": np.zeros(1)}),
        ({}, {"left_0": np.zeros(12, np.int32)}), ({}, {"sources_1": np.zeros((2, 4), np.int32)}),
    ]  # fmt: skip
    for fields, others in changes:
        content = to_bytes("private-model", {**header, **fields}, {**arrays, **others})
        with pytest.raises(CloisterError):
            ModelBox.decode(content)
    for name in arrays:
        left = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(CloisterError):
            ModelBox.decode(to_bytes("private-model", header, left))
