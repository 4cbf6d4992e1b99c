from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.private_index import PrivateIndex
from cloister.core.errors import AccessDenied, CloisterError, Damaged, DataError, NotFound
from cloister.index.analysis import TextAnalysis
from cloister.rank.tree_features import TreeFeatureSettings
from cloister.store.array_file import from_bytes, to_bytes

labels = st.binary(min_size=16, max_size=16)
contents = st.binary(min_size=24, max_size=60)


def made(n_boxes: int = 5, n_documents: int = 3, *, texts: bool = True, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    boxes = {rng.bytes(16): rng.bytes(int(rng.integers(24, 90))) for _ in range(n_boxes)}
    names = [rng.bytes(40) for _ in range(n_documents)]
    stored = [rng.bytes(50 + 9 * d) for d in range(n_documents)] if texts else None
    return PrivateIndex.of(rng.bytes(16), boxes, names, stored), boxes, names, stored


@given(st.dictionaries(labels, contents, max_size=40), labels)
def test_every_box_is_found_by_its_label_and_no_other(
    boxes: dict[bytes, bytes], other: bytes
) -> None:
    index = PrivateIndex.from_bytes(PrivateIndex.of(bytes(16), boxes, []).to_bytes())
    assert index.n_boxes == len(boxes)
    for label, content in boxes.items():
        assert index.box(label) == content
    assert (index.box(other) is None) == (other not in boxes)
    assert index.box(other[:15]) is None
    assert index.box(b"") is None


@pytest.mark.parametrize("texts", [True, False])
def test_a_file_holds_what_was_written(tmp_path: Path, texts: bool) -> None:
    index, boxes, names, stored = made(texts=texts)
    index.write(tmp_path / "index")
    again = PrivateIndex.open(tmp_path / "index")
    assert (again.index_id, again.n_documents, again.n_boxes) == (index.index_id, 3, 5)
    assert again.has_texts == texts
    assert all(again.box(label) == content for label, content in boxes.items())
    assert [bytes(again.document_name(d)) for d in range(3)] == names
    assert [bytes(again.document_text(d)) for d in range(3)] == (stored or [b""] * 3)
    assert (tmp_path / "index").read_bytes() == index.to_bytes()
    assert index.size_bytes < (tmp_path / "index").stat().st_size < index.size_bytes + 4096


def test_documents_that_are_not_there_are_refused() -> None:
    index = made()[0]
    for number in (-1, 3):
        with pytest.raises(DataError, match="3 documents"):
            index.document_name(number)
        with pytest.raises(DataError, match="3 documents"):
            index.document_text(number)


def test_a_missing_or_foreign_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        PrivateIndex.open(tmp_path / "none")
    (tmp_path / "text").write_text("not an index at all, but long enough to hold a head of a file")
    with pytest.raises(DataError, match="not a private index"):
        PrivateIndex.open(tmp_path / "text")
    with pytest.raises(DataError, match="kind"):
        PrivateIndex.from_bytes(to_bytes("other", {}, {}))


@given(st.data())
def test_any_damage_is_found(data: st.DataObject) -> None:
    content = bytearray(made()[0].to_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((Damaged, DataError)):
        PrivateIndex.from_bytes(bytes(content))


@given(st.data())
def test_a_file_that_is_cut_off_is_refused(data: st.DataObject) -> None:
    content = made()[0].to_bytes()
    with pytest.raises((Damaged, DataError)):
        PrivateIndex.from_bytes(content[: data.draw(st.integers(0, len(content) - 1))])


def changed_arrays(name: str, arrays: dict[str, Any]) -> Any:
    """Return another array of the name that does not fit the others."""
    array = arrays[name].copy()
    if name == "labels":
        return array[::-1]
    if name.endswith("starts") or name == "starts":
        array[1] = array[2] + 1
        return array
    return array[:-1]


@pytest.mark.parametrize(
    "name",
    [
        "labels", "starts", "sealed", "document_name_starts", "document_names",
        "document_text_starts", "document_texts",
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["changed", "missing", "type", "shape", "empty"])
def test_arrays_with_right_checksums_that_contradict_each_other_are_refused(
    name: str, how: str
) -> None:
    header, arrays = from_bytes(made()[0].to_bytes(), "private-index")
    if how == "missing":
        del arrays[name]
    elif how == "changed":
        arrays[name] = changed_arrays(name, arrays)
    elif how == "type":
        arrays[name] = arrays[name].astype(np.int16)
    elif how == "shape":
        arrays[name] = arrays[name][None]
    else:
        arrays[name] = arrays[name][:0]
    with pytest.raises(DataError, match="private-index"):
        PrivateIndex.from_bytes(to_bytes("private-index", header, arrays))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 2), ("format", None), ("index_id", "zz"), ("index_id", "00"), ("index_id", 3),
        ("n_documents", 4), ("n_boxes", 4), ("has_texts", False), ("more", 1),
    ],
)  # fmt: skip
def test_a_header_that_contradicts_the_arrays_is_refused(field: str, value: Any) -> None:
    header, arrays = from_bytes(made()[0].to_bytes(), "private-index")
    content = to_bytes("private-index", {**header, field: value}, arrays)
    with pytest.raises(DataError, match="private-index"):
        PrivateIndex.from_bytes(content)


def test_starts_near_the_end_of_numbers_are_refused() -> None:
    header, arrays = from_bytes(made()[0].to_bytes(), "private-index")
    for value in (2**63 - 1, -(2**63), -1):
        starts = arrays["starts"].copy()
        starts[2] = value
        with pytest.raises(DataError, match="starts"):
            PrivateIndex.from_bytes(to_bytes("private-index", header, {**arrays, "starts": starts}))


def test_a_label_twice_or_of_another_size_is_refused() -> None:
    index = made()[0]
    twice = np.repeat(index.labels[:1], 5, axis=0)
    with pytest.raises(DataError, match="rising"):
        dataclasses.replace(index, labels=twice)
    with pytest.raises(DataError, match="16 bytes"):
        PrivateIndex.of(bytes(16), {b"short": bytes(24), bytes(16): bytes(24)}, [])


def dictionary() -> ClientDictionary:
    return ClientDictionary(
        bytes(32), bytes(16), TextAnalysis(stemming="english"), ("dry", "cough", "é"),
        np.array([3, 5, 1]), np.array([1, 5]), np.array([3]),
        TreeFeatureSettings(combined=False, n_positions=3), 4,
    )  # fmt: skip


def test_a_dictionary_comes_back_and_others_may_not_read_it(tmp_path: Path) -> None:
    path = tmp_path / "dictionary"
    dictionary().save(path)
    again = ClientDictionary.load(path)
    for name in ("secret", "index_id", "analysis", "words", "features", "longest"):
        assert getattr(again, name) == getattr(dictionary(), name)
    assert [again.document_frequency(word) for word in ("dry", "é", "x")] == [3, 1, 0]
    assert again.has_word("é")
    assert again.has_phrase("dry", "cough")
    assert again.has_phrase("cough", "é")
    assert not again.has_phrase("é", "cough")
    assert again.has_pair("cough", "dry")
    assert again.has_pair("dry", "cough")
    assert not again.has_pair("dry", "é")
    assert again.secret.hex() not in repr(again)
    path.chmod(0o644)
    with pytest.raises(AccessDenied):
        ClientDictionary.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"secret": bytes(31)}, {"index_id": bytes(1)}, {"words": ("a", "a", "b")},
        {"document_frequencies": np.array([1])}, {"phrases": np.array([5, 1])},
        {"pairs": np.array([9])}, {"pairs": np.array([-1])}, {"longest": -1},
        {"words": ("a", "", "b")}, {"words": ("a", "b\0c", "d")},
    ],
)  # fmt: skip
def test_a_dictionary_whose_parts_do_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="client-dictionary"):
        dataclasses.replace(dictionary(), **change)


def test_a_dictionary_without_a_field_is_refused_without_its_secret(tmp_path: Path) -> None:
    path = tmp_path / "dictionary"
    dictionary().save(path)
    header, arrays = from_bytes(path.read_bytes(), "client-dictionary")
    for name in header:
        path.write_bytes(
            to_bytes("client-dictionary", {k: v for k, v in header.items() if k != name}, arrays)
        )
        with pytest.raises(CloisterError) as caught:
            ClientDictionary.load(path)
        assert header["secret"] not in str(caught.value)
