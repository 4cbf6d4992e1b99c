"""Depth and characters of JSON texts, before they are parsed."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.web.json_shape import check_json_shape, json_depth

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\[]{}a'), inner),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(VALUES, st.booleans())
def test_the_depth_is_that_of_the_parsed_value(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped).encode()
    depth = depth_of(value)
    assert json_depth(text, at_most=depth) == depth
    if depth:
        assert json_depth(text, at_most=depth - 1) is None


@given(st.binary(max_size=200) | st.text('[]{}"\\u0dD8cC,:1', max_size=60).map(str.encode))
def test_what_passes_is_parsed_or_refused_without_recursion_and_can_be_written(
    text: bytes,
) -> None:
    try:
        check_json_shape(text, max_depth=20)
        value = json.loads(text)
    except (DataError, json.JSONDecodeError):
        return
    json.dumps(value, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"[[]" * 21 + b"]" * 21,
        b"]",
        b"\xff\xfe",
        b'"\\u0000"',
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ud800x\\udc00"',
        b'"\\ud800\\n\\udc00"',
        b'"\\ud800\\ud800\\udc00"',
    ],
)
def test_deep_and_unbalanced_texts_and_what_is_no_character_are_refused(text: bytes) -> None:
    with pytest.raises(DataError):
        check_json_shape(text, max_depth=20)


@pytest.mark.parametrize("text", [b'"\\\\u0000"', b'"\\ud83d\\ude00"', b'"\\\\\\\\ud800"', b""])
def test_escaped_backslashes_and_whole_pairs_are_taken(text: bytes) -> None:
    check_json_shape(text, max_depth=20)


@pytest.mark.parametrize(
    "part", [b"[", b"[]", b"[[]]", b'"', b'""', b'\\"', b'"\\', b'"\\"', b"\\u", b"\\ud800\\udc00"]
)
def test_hostile_megabytes_take_a_short_time(part: bytes) -> None:
    text = b'"' + part * ((1 << 20) // len(part))
    started = time.perf_counter()
    for whole in (text, text[1:]):
        with contextlib.suppress(DataError):
            check_json_shape(whole, max_depth=20)
    assert time.perf_counter() - started < 2.0  # quadratic time would be hours
