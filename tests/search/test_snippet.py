from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.index.analysis import TextAnalysis
from cloister.search.snippet import snippet
from search.small_world import ANALYSIS, WORDS


@given(
    st.lists(st.sampled_from((*WORDS, "x")), max_size=30),
    st.sets(st.sampled_from(WORDS)),
    st.integers(1, 6),
)
def test_no_other_passage_holds_more_different_terms(words, terms, n_words):
    shown = snippet(" ".join(words), terms, ANALYSIS, n_words=n_words).replace("…", "").split()
    windows = [words[i : i + n_words] for i in range(max(1, len(words) - n_words + 1))]
    best = max(len(terms.intersection(window)) for window in windows)
    assert len(terms.intersection(shown)) == best
    assert shown in windows


def test_a_text_without_the_terms_is_shown_from_its_beginning():
    assert snippet("one two three", ["fever"], ANALYSIS, n_words=2) == "one two …"
    assert snippet("", ["fever"], ANALYSIS) == ""


LIGATURE = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"  # stands for 18 characters


@pytest.mark.parametrize(
    "text",
    [
        " ".join(LIGATURE * 20 + chr(0x4E00 + n) for n in range(5_000)),
        " ".join(chr(0xE0 + n % 20) + chr(0x100 + n // 20 % 200) for n in range(40_000)),
        " ".join(f"\N{LATIN SMALL LETTER E WITH ACUTE}-cough{n}" for n in range(20_000)),
        "cough night " * 10_000,
        ("a" + "\u0300" * 60 + " ") * 2_000,
        LIGATURE * 100_000,
    ],
    ids=["ligatures", "accents", "terms", "two words", "marks", "one word"],
)
def test_ten_hostile_texts_take_some_milliseconds(text):
    snippet(text, ["cough"])  # patterns are compiled
    took = []
    for _ in range(3):
        began = time.thread_time()
        for n in range(10):
            snippet(f"{n} {text}", ["cough", "fever", "night"])
        took.append(time.thread_time() - began)
    assert min(took) < 0.1  # 0.02 s; a passage of the first 100,000 characters took up to 1.5 s


def test_terms_are_found_in_words_that_unicode_writes_in_other_ways():
    text = "x " * 200 + "KO\N{LATIN SMALL LIGATURE FI}k \N{FULLWIDTH LATIN CAPITAL LETTER A}b fever"
    assert snippet(text, ["kofik"], n_words=2) == "… x KO\N{LATIN SMALL LIGATURE FI}k …"
    assert snippet(text, ["ab"], n_words=1) == "… \N{FULLWIDTH LATIN CAPITAL LETTER A}b …"
    stemmed = TextAnalysis(stemming="english")
    for word, stem in (("dying", "die"), ("skies", "sky"), ("ponies", "poni"), ("hoping", "hope")):
        assert snippet("x " * 50 + word, [stem], stemmed, n_words=1) == f"… {word}"
