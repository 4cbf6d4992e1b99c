"""From a text to its terms."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.index import analysis as analysis_module
from cloister.index.analysis import STOP_WORDS, TextAnalysis, has_long_word
from cloister.index.term_counts import count_terms


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


@given(st.lists(st.text("aé7\u0301漢 -_\n", max_size=5) | st.sampled_from(["x" * 60, "é" * 40])))
def test_a_text_has_a_long_word_where_one_of_its_words_is_left_out(parts: list[str]) -> None:
    analysis = TextAnalysis(min_length=1, stop_words="none")
    text = "".join(parts)
    left_out = [word for word in analysis.words(text) if analysis.term_of(word) is None]
    assert has_long_word(text) == bool(left_out)


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


def test_settings_left_alone_keep_numbers_dates_and_endings() -> None:
    assert TextAnalysis().terms("coughing since 2019-03-04") == ["coughing", "since", *DATE_PARTS]


DATE_PARTS = ["2019", "03", "04"]
DATED = TextAnalysis(stop_words="none", min_length=1, dates="drop")


@pytest.mark.parametrize(
    "written",
    [
        "2019-03-04",
        "2019-03-04T10:15",
        "2019-03-04T10:15:30Z",
        "2019-03-04T10:15:30.123+01:00",
        "2019-03-04 10:15:30",
        "2019/03/04",
        "03/04/2019",
        "3/4/2019 9:05",
        "3.4.2019",
        "31-12-1999",
        "3 March 2019",
        "3rd of March, 2019",
        "03-Mar-2019",
        "March 3, 2019",
        "Mar. 3rd 2019",
        "Sept. 30, 2019",
        "30th - of September., -2019",  # as long as a date can be ahead of its year
        "2019-03-04T10:15+1530",  # the end looks like a year
        "March 2019",
        "MAY 2019",
        "\N{FULLWIDTH DIGIT THREE} \N{FULLWIDTH LATIN CAPITAL LETTER M}arch 2019",
    ],
)
def test_a_date_is_taken_out_and_cuts_words(written: str) -> None:
    assert DATED.terms(f"seen {written} again") == ["seen", "again"]
    assert DATED.terms(f"seen ({written}), {written}.") == ["seen"]
    assert DATED.terms(f"é_{written}") == ["é"]
    assert DATED.terms(written) == []
    assert TextAnalysis(min_length=1, dates="keep").terms(written) != []


@pytest.mark.parametrize(
    "written",
    [
        "in 2019",
        "2019-13-41",
        "32/04/2019",
        "3/4/19",
        "3-4/2019",
        "mar 1000 mg",
        "x2019-03-04",
        "2019-03-04x",
        "12019-03-04",
        "2019-03-045",
        "1.2019-03-04",
        "2019-03-04-05",
        "3 march 20190",
        "3 marching 2019",
        "may 3",
        "120/80",
    ],
)
def test_what_is_no_date_stays(written: str) -> None:
    assert DATED.terms(written) == re.findall("[a-z0-9]+", written)


FORMATS = ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y"]
FORMATS += ["%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%B %Y"]


@given(
    st.datetimes(datetime(1500, 1, 1), datetime(2199, 12, 31)),
    st.sampled_from(FORMATS),
)
def test_dates_as_the_library_writes_them_are_taken_out(day: datetime, form: str) -> None:
    assert DATED.terms(f"seen {day.strftime(form)} again") == ["seen", "again"]


@given(st.dates(date(1500, 1, 1), date(2199, 12, 31)))
def test_an_iso_date_of_any_day_is_taken_out(day: date) -> None:
    assert DATED.terms(f"{day.isoformat()} asthma") == ["asthma"]


def plainly_without_dates(folded: str) -> str:
    """Search for a date at each place of the text."""
    part = analysis_module
    year_last = part._YEAR_LAST.replace(r"\1", r"\2")
    one_date = f"{part._BEFORE}(?:{part._YEAR_FIRST}|{year_last}){part._AFTER}"
    return re.sub(one_date, " ", folded)


DATE_PIECES = ["2019", "1530", "2101", "3", "31", "12", "03", "march", "sept", "of", "th", "t", "z"]
DATE_PIECES += ["-", "/", ".", ":", ",", " ", "  ", "+", "10:15", ":30", "x", "é", "_", "\n"]
DATE_PIECES += ["2019-03-04", "3/4/2019", "3 march 2019", "may 3, 2019", "30th - of september., -"]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(DATE_PIECES), max_size=14).map("".join))
def test_a_search_by_years_finds_the_dates_that_a_search_everywhere_finds(folded: str) -> None:
    assert analysis_module._without_dates(folded) == plainly_without_dates(folded)


def test_words_of_digits_go_when_asked() -> None:
    analysis = TextAnalysis(numbers="drop", min_length=1)
    assert analysis.terms("12 of 5mg, 12.5, b12, ٣٤, x²") == ["5mg", "b12", "x2"]


@pytest.mark.parametrize(  # from the description of the stemmer
    ("word", "stem"),
    [
        ("consistency", "consist"),
        ("consolingly", "consol"),
        ("knightly", "knight"),
        ("generously", "generous"),
        ("skies", "sky"),
        ("dying", "die"),
        ("news", "news"),
    ],
)
def test_english_words_get_their_stems(word: str, stem: str) -> None:
    assert TextAnalysis(stemming="english").terms(word) == [stem]
    assert TextAnalysis().terms(word) == [word]


def test_stop_words_are_looked_at_before_stems() -> None:
    assert TextAnalysis(stemming="english").terms("being beings") == ["be"]


def test_the_stemmer_is_imported_when_it_is_needed() -> None:
    code = "import sys, cloister.index.analysis; print('snowballstemmer' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@given(st.text())
def test_the_filters_of_the_paper_leave_no_numbers_and_no_stop_words(text: str) -> None:
    terms = TextAnalysis.espresso().terms(f"{text} the 12 on 3 May 2019 {text}")
    assert not any(term.isdigit() or term in STOP_WORDS for term in terms)
    assert terms == TextAnalysis.espresso().terms(f"{text} {text}")


@given(st.text())
def test_terms_are_the_words_that_stand_for_one(text: str) -> None:
    analysis = TextAnalysis(stemming="english", numbers="drop")
    found = [analysis.term_of(word) for word in analysis.words(text)]
    assert analysis.terms(text) == [term for term in found if term is not None]


def test_words_of_more_than_64_characters_are_left_out_of_texts_and_queries_alike() -> None:
    longest, longer = "x" * 64, "y" * 65
    text = f"dry {longest} {longer} cough"
    assert TextAnalysis().terms(text) == ["dry", longest, "cough"]
    counted = count_terms([text, "z" * 1_000_000 + " é" + "é" * 64])
    assert counted.vocabulary == ("dry", longest, "cough")
