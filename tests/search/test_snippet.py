from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
