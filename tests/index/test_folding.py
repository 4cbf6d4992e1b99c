from __future__ import annotations

import re
import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cloister.index.folding import MAX_GROWTH, MAX_MARKS, folded_text

EVERYTHING = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
MARKS = "\u0301\u0323\u0344\u0345\u0f73\uff9e\u3099\U00011100\U0001e8d0"
LETTERS = "aZ\u00e9\u0130\u1e9e\ufdfa\uac00\u1100\U00012000 \u200d\u0390"
BITS = st.text(st.sampled_from(LETTERS), max_size=3) | st.text(
    st.sampled_from(MARKS), max_size=2 * MAX_MARKS
)


def literal_fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def is_mark(character: str) -> bool:
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


def literal_cut(text: str) -> str:
    """Walk through a text, and keep the first 30 marks of each run."""
    kept, n_marks = "", 0
    for character in text:
        n_marks = n_marks + 1 if is_mark(character) else 0
        kept += character if n_marks <= MAX_MARKS else ""
    return kept


@given(st.lists(BITS).map("".join) | st.text())
def test_marks_are_cut_beyond_thirty_in_a_row_and_nothing_else_changes(text: str) -> None:
    assert folded_text(text) == literal_fold(literal_cut(text))


def test_each_mark_of_unicode_is_known_as_one() -> None:
    for character in EVERYTHING:
        if is_mark(character):
            assert folded_text("a" + character * 31) == folded_text("a" + character * 30)
            break_between = "a" + character * 20 + "\u00e9" + character * 20
            assert folded_text(break_between) == literal_fold(break_between)


def test_no_character_is_more_than_a_known_number_in_the_index() -> None:
    assert max(len(folded_text(character)) for character in EVERYTHING) <= 18 < MAX_GROWTH
    together = "a".join(EVERYTHING)
    assert folded_text(together) == literal_fold(together)


def test_time_grows_with_the_length_alone() -> None:
    texts = [
        "a" + "\u0301" * 100_000 + "\u0323" * 100_000,
        ("a" + "\u0301" * 15 + "\u0323" * 15) * 6_000,
        "\U0001e8d0" * 200_000,
        ("\uff9e" * 31 + "a") * 6_000,
        "\U00012000" * 200_000,
        "\ufdfa" * 100_000,
    ]
    begin = time.process_time()
    for text in texts:
        folded_text(text)
        assert not re.search("[\u0301\u0323]{70}", folded_text(text))
    assert time.process_time() - begin < 3  # the first took 15 s
