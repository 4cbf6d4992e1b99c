"""From a text to its terms."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.index.analysis import STOP_WORDS, TextAnalysis


def literal_terms(text: str, min_length: int) -> list[str]:
    """Walk through a text of ASCII character by character."""
    words, word = [], ""
    for character in text.lower() + " ":
        if character in "abcdefghijklmnopqrstuvwxyz0123456789":
            word += character
        else:
            words.append(word)
            word = ""
    return [word for word in words if len(word) >= min_length and word not in STOP_WORDS]


@given(st.text(st.characters(max_codepoint=127)), st.integers(1, 4))
def test_terms_of_plain_text_are_what_a_walk_through_it_finds(text: str, min_length: int) -> None:
    assert TextAnalysis(min_length=min_length).terms(text) == literal_terms(text, min_length)


@given(st.text())
def test_all_ways_to_write_a_character_give_the_same_terms(text: str) -> None:
    analysis = TextAnalysis(min_length=1, stop_words="none")
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert analysis.terms(forms[0]) == analysis.terms(forms[1])


def test_an_accent_written_apart_does_not_cut_a_word() -> None:
    assert TextAnalysis().terms("cafe\N{COMBINING ACUTE ACCENT} CAFÉ") == ["café", "café"]


@given(st.text())
def test_terms_are_small_and_hold_letters_and_digits_only(text: str) -> None:
    for term in TextAnalysis().terms(text):
        assert len(term) >= 2
        assert term not in STOP_WORDS
        assert all(character.isalnum() for character in term)
        assert term.isascii() is False or term == term.lower()


def test_stop_words_are_left_out_only_when_asked() -> None:
    assert TextAnalysis().terms("The cough and the fever") == ["cough", "fever"]
    assert TextAnalysis(stop_words="none").terms("the cough") == ["the", "cough"]


def test_underscores_and_marks_end_words() -> None:
    assert TextAnalysis().terms("beta_blocker, x-ray: 12.5mg") == [
        "beta",
        "blocker",
        "ray",
        "12",
        "5mg",
    ]


def test_a_length_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="min_length"):
        TextAnalysis(min_length=0)
