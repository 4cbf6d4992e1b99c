from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.pods.document_text import media_type_of, text_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text/plain"),
        ("a.b.MD", "text/markdown"),
        ("x/a.htm", "text/html"),
        ("a.json", "application/json"),
        ("a.txt.acl", ""),
        ("a", ""),
        ("txt", ""),
        (".txt", ""),
        ("a.pdf", ""),
    ],
)
def test_the_kind_of_a_file_is_its_ending(name: str, kind: str) -> None:
    assert media_type_of(name) == kind


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<p>one</p><p>two</p>", ["one", "two"]),
        ("a<script>b</script>c", ["a", "c"]),
        ("<style>b</style>c<!-- d -->", ["c"]),
        ("a &lt;b&gt; &eacute;", ["a", "<b>", "é"]),
        ("<template><p>a</p></template>b", ["b"]),
        ("unclosed <b>bold", ["unclosed", "bold"]),
        ("<script>never closed", []),
    ],
)
def test_of_a_page_the_shown_words_are_taken(page: str, words: list[str]) -> None:
    assert text_of(page.encode(), "text/html").split() == words


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
)


@given(VALUES)
def test_of_json_all_texts_and_numbers_are_taken(value: object) -> None:
    def leaves(part: object) -> list[str]:
        if isinstance(part, dict):
            return [leaf for inner in part.values() for leaf in leaves(inner)]
        if isinstance(part, list):
            return [leaf for inner in part for leaf in leaves(inner)]
        return [] if part is None or isinstance(part, bool) else [str(part)]

    assert text_of(json.dumps(value).encode(), "application/json") == "\n".join(leaves(value))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\xff\xfe", "text/plain"),
        (b"{", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'"\\ud800"', "application/json"),
    ],
)
def test_what_cannot_be_read_is_refused(content: bytes, kind: str) -> None:
    with pytest.raises(DataError):
        text_of(content, kind)


def test_a_byte_order_mark_is_no_word() -> None:
    assert text_of(b"\xef\xbb\xbfcough", "text/plain") == "cough"


PATTERNS = [
    b"<!--",
    b"<a ",
    b"<!",
    b"</",
    b"<?",
    b"<![CDATA[",
    b"&",
    b"&#9",
    b"&#x",
    b"&notit;",
    b"<div>",
    b"<a><div>",
    b"<p><b>",
    b'<a x="',
    b"<a x='>",
    b"<a = ",
    b"<script></scrip",
    b"<script></script>",
    b"<title>x</title>",
    b"<template>",
    b"<!-->",
    b"=\t'",
    b"\xc3\xa9<b>",
]


def cpu_s(content: bytes, kind: str) -> float:
    """Return the least CPU time of three tries."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        with suppress(DataError):
            text_of(content, kind)
        found.append(time.process_time() - begin)
    return min(found)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_page_is_read_in_linear_time(pattern: bytes) -> None:
    # 30 KB of "<a " took 4.7 s, and four times as much took sixteen times as long
    once, twice = (cpu_s(pattern * (n // len(pattern)), "text/html") for n in (100_000, 200_000))
    assert twice < 3.2 * once + 0.02
    assert twice < 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["<", ">", "</", "<!--", "-->", "<a ", "=", '"', "'", "&", "&#", "x"])
        | st.sampled_from(["noscript", "script", "style", "template"]),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["text/html", "application/json", "text/plain"]),
)
def test_no_pattern_that_is_repeated_takes_more_than_linear_time(
    parts: list[str], kind: str
) -> None:
    pattern = "".join(parts).encode()
    once, twice = (cpu_s(pattern * (n // len(pattern)), kind) for n in (100_000, 200_000))
    assert twice < 4 * once + 0.02


def test_attributes_and_references_without_end_take_linear_time() -> None:
    many = b"<a " + b" ".join(b"a%d=1" % n for n in range(200_000)) + b">cough"
    assert text_of(many, "text/html").split() == ["cough"]
    assert cpu_s(many, "text/html") < 1
    digits = b"&#" + b"0" * 1_000_000 + b"65; &#65; cough"
    assert text_of(digits, "text/html").split() == ["\N{REPLACEMENT CHARACTER}", "A", "cough"]
