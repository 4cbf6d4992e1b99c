from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.sealed_boxes import BoxSecret, BoxToken, box_name, open_box
from cloister.core.errors import DataError, SettingsError
from cloister.privacy.sealed.padding import padme

SECRET = bytes(range(32))
kinds = st.sampled_from(["model", "word", "phrase", "closure", "pair"])


@given(kinds, st.text(), st.binary(max_size=600))
def test_a_box_opens_with_its_token_to_what_was_sealed(
    kind: str, name: str, content: bytes
) -> None:
    boxes = BoxSecret.fresh(SECRET)
    token = boxes.token(kind, name)  # type: ignore[arg-type]
    sealed = boxes.seal(token, content)
    assert bytes(open_box(token.key, sealed, token.label)) == content
    assert len(sealed) == padme(8 + len(content)) + 16


@given(st.lists(st.tuples(kinds, st.text(max_size=4)), min_size=2, max_size=20, unique=True))
def test_labels_and_keys_of_different_boxes_have_nothing_in_common(
    named: list[tuple[str, str]],
) -> None:
    tokens = []
    for index_id in (bytes(16), bytes(15) + b"\1"):
        boxes = BoxSecret(SECRET, index_id)
        tokens += [boxes.token(kind, name) for kind, name in named]  # type: ignore[arg-type]
    tokens += [BoxSecret(bytes(32), bytes(16)).token(*one) for one in named]  # type: ignore[arg-type]
    assert len({token.label for token in tokens}) == len({token.key for token in tokens})
    assert len({token.label for token in tokens}) == 3 * len(named)


def test_kind_and_name_cannot_run_into_each_other() -> None:
    boxes = BoxSecret(SECRET, bytes(16))
    assert boxes.token("word", "x") != boxes.token("pair", "x")
    assert boxes.token("word", box_name("a", "b")) != boxes.token("word", "ab")
    with pytest.raises(DataError, match="zero character"):
        box_name("a\0b", "c")


def test_a_client_finds_its_boxes_again() -> None:
    first = BoxSecret.fresh(SECRET)
    assert BoxSecret(SECRET, first.index_id).token("word", "flu") == first.token("word", "flu")
    assert BoxSecret(SECRET, first.index_id).tree_secret == first.tree_secret
    assert BoxSecret.fresh(SECRET).tree_secret != first.tree_secret


@given(st.data())
def test_a_box_that_was_altered_anywhere_does_not_open(data: st.DataObject) -> None:
    boxes = BoxSecret.fresh(SECRET)
    token = boxes.token("word", "flu")
    sealed = bytearray(boxes.seal(token, b"levels and codes"))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DataError, match="does not open"):
        open_box(token.key, bytes(sealed), token.label)


def test_a_box_in_the_place_of_another_does_not_open() -> None:
    boxes = BoxSecret.fresh(SECRET)
    flu, cough = boxes.token("word", "flu"), boxes.token("word", "cough")
    sealed = boxes.seal(flu, b"levels")
    for token in (cough, BoxToken(cough.label, flu.key), BoxToken(flu.label, cough.key)):
        with pytest.raises(DataError, match="does not open"):
            open_box(token.key, sealed, token.label)
    with pytest.raises(DataError, match="32 bytes"):
        open_box(b"short", sealed, flu.label)
    with pytest.raises(DataError, match="too short"):
        open_box(flu.key, sealed[:23], flu.label)


def test_a_token_seals_once() -> None:
    boxes = BoxSecret.fresh(SECRET)
    token = boxes.token("word", "flu")
    boxes.seal(token, b"first")
    with pytest.raises(SettingsError, match="already"):
        boxes.seal(token, b"second")


@given(st.integers(0, 2**40), st.binary(max_size=100), st.integers(0, 100))
def test_a_document_opens_for_its_client_at_its_number_only(
    number: int, content: bytes, least: int
) -> None:
    boxes = BoxSecret.fresh(SECRET)
    sealed = boxes.seal_document("name", number, content, least_bytes=least)
    assert boxes.open_document("name", number, sealed) == content
    assert len(sealed) == 12 + padme(8 + max(len(content), least)) + 16
    assert sealed != boxes.seal_document("name", number, content, least_bytes=least)
    with pytest.raises(DataError, match="does not open"):
        boxes.open_document("name", number + 1, sealed)
    with pytest.raises(DataError, match="does not open"):
        boxes.open_document("text", number, sealed)


def test_no_token_opens_a_document() -> None:
    boxes = BoxSecret.fresh(SECRET)
    sealed = boxes.seal_document("text", 0, b"a patient's letter")
    for name in ("", "name", "text", "document texts", "boxes"):
        for kind in ("model", "word", "closure"):
            with pytest.raises(DataError, match="does not open"):
                open_box(boxes.token(kind, name).key, sealed, b"")


def test_a_secret_is_of_32_bytes_and_is_not_shown() -> None:
    assert SECRET.hex() not in repr(BoxSecret.fresh(SECRET))
    token = BoxToken(b"L" * 16, b"K" * 32)
    assert "KKK" not in f"{token} {token!r}"
    assert b"K".hex() * 3 not in repr(token)
    for secret, index_id in ((SECRET[:31], bytes(16)), (SECRET, bytes(15))):
        with pytest.raises(SettingsError, match="32 bytes"):
            BoxSecret(secret, index_id)
    with pytest.raises(SettingsError, match="kind"):
        BoxSecret.fresh(SECRET).token("phrases", "a")  # type: ignore[arg-type]
