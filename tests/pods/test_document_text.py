from __future__ import annotations

import json

import pytest
from hypothesis import given
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
