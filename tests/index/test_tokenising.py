"""Fast counting of terms, against the literal definition."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.data.beir import open_beir
from cloister.index import tokenising
from cloister.index.analysis import TextAnalysis
from cloister.index.term_counts import TermCounts, count_terms
from cloister.index.tokenising import TermCounter, text_batches

ALL_WORDS = TextAnalysis(stop_words="none", min_length=1)
analyses = st.builds(
    TextAnalysis,
    stop_words=st.sampled_from(["english", "none"]),
    min_length=st.integers(1, 4),
    stemming=st.sampled_from(["none", "english"]),
    numbers=st.sampled_from(["keep", "drop"]),
    dates=st.sampled_from(["keep", "drop"]),
)
# Few letters, so that words repeat; words around seven letters, where heads end; hard characters.
pieces = st.one_of(
    st.text(max_size=30),
    st.text("aAb1 _\0\x7f", max_size=30),
    st.text("abé", min_size=5, max_size=16),
    st.sampled_from(
        ["the", "Coughing", "coughs", "2019-03-04", "12", "é", "ß", "ﬁ", "\u0301", "—"]
    ),
)
texts_of_pieces = st.lists(st.lists(pieces, max_size=6).map(" ".join), max_size=6)

Listed = tuple[list[int], list[int], list[int], list[str]]


def literal(texts: Iterable[str], analysis: TextAnalysis) -> Listed:
    """Count one text after the other with counters of Python's library."""
    positions: dict[str, int] = {}
    starts, terms, counts = [0], [], []
    for text in texts:
        found = Counter(positions.setdefault(term, len(positions)) for term in analysis.terms(text))
        for term in sorted(found):
            terms.append(term)
            counts.append(found[term])
        starts.append(len(terms))
    return starts, terms, counts, list(positions)


def listed(counts: TermCounts) -> Listed:
    arrays = counts.starts, counts.terms, counts.counts
    assert [array.dtype for array in arrays] == [np.int64, np.int32, np.int32]
    starts, terms, values = (array.tolist() for array in arrays)
    return starts, terms, values, list(counts.vocabulary)


def counted_in_batches(batches: Iterable[Sequence[str]], counter: TermCounter) -> Listed:
    starts, terms, counts = [0], [], []
    for batch in batches:
        part = counter.count(batch)
        starts += (part.starts[1:] + starts[-1]).tolist()
        terms += part.terms.tolist()
        counts += part.counts.tolist()
    return starts, terms, counts, list(counter.vocabulary)


@given(texts_of_pieces, analyses)
@example(["", "\0", "a\0b", "A" * 5000, "É" * 5000, "a" * 5000], ALL_WORDS)
@example(["1234567", "12345678", "1234567", "12345679", "12345678"], ALL_WORDS)
def test_counts_are_those_of_the_literal_definition(
    texts: list[str], analysis: TextAnalysis
) -> None:
    assert listed(count_terms(texts, analysis)) == literal(texts, analysis)


@given(texts_of_pieces, st.lists(st.integers(0, 6)), st.integers(0, (1 << 61) - 2), analyses)
def test_counts_depend_neither_on_batches_nor_on_threads_nor_on_the_key(
    texts: list[str], cuts: list[int], key: int, analysis: TextAnalysis
) -> None:
    edges = [0, *sorted(min(cut, len(texts)) for cut in cuts), len(texts)]
    batches = [texts[begin:end] for begin, end in pairwise(edges)]
    expected = literal(texts, analysis)
    for parallel_bytes in (0, sys.maxsize):
        counter = TermCounter(analysis, hash_key=key, parallel_bytes=parallel_bytes)
        assert counted_in_batches(batches, counter) == expected


@given(texts_of_pieces)
@example(["abcdefghi abcdefghj", "abcdefgh abcdefg abcdef", "1abcdefghi abcdefgi abcdefghij"])
def test_words_of_equal_hashes_are_told_apart(texts: list[str]) -> None:
    counter = TermCounter(ALL_WORDS, hash_key=0)  # the hash of every word is 0
    assert counted_in_batches([texts, texts], counter) == literal(texts * 2, ALL_WORDS)


def test_many_words_are_numbered_while_the_table_grows() -> None:
    rng = np.random.default_rng(5)
    drawn = rng.zipf(1.3, (300, 200)) % 50_000
    texts = [" ".join(f"w{number}" for number in line) for line in drawn.tolist()]
    assert listed(count_terms(texts)) == literal(texts, TextAnalysis())


def test_one_text_may_hold_more_words_than_a_batch() -> None:
    words = [f"{number:x}" for number in range(70_000)]  # terms of more than 16 bits
    texts = [" ".join(words), "cafe", " ".join(reversed(words))]
    assert len(texts[0]) > 2 * tokenising.FIRST_BATCH
    assert listed(count_terms(texts)) == literal(texts, TextAnalysis())


def test_one_thread_gives_what_several_give() -> None:
    texts = [f"word{i % 777} number{i % 31} {i}" for i in range(20_000)]
    before = numba.get_num_threads()
    several = listed(count_terms(texts))
    try:
        numba.set_num_threads(1)
        assert listed(count_terms(texts)) == several
    finally:
        numba.set_num_threads(before)


def test_every_character_of_unicode_is_a_letter_or_a_mark_as_in_the_definition() -> None:
    planes = *range(0x32400), *range(0xE0000, 0xE0200)  # the others are unassigned or private
    signs = [chr(number) for number in planes]
    lines = ["x".join(signs[begin : begin + 64]) for begin in range(0, len(signs), 64)]
    lines += [" ".join(signs[:4096]), "".join(signs)]
    assert listed(count_terms(lines, ALL_WORDS)) == literal(lines, ALL_WORDS)


def test_texts_are_taken_from_a_stream_a_batch_at_a_time() -> None:
    taken: list[int] = []

    def stream() -> Iterable[str]:
        for number in range(100):
            taken.append(number)
            yield "cough " * 10

    batches = text_batches(stream(), first=100, largest=200)
    assert (len(next(iter(batches))), len(taken)) == (2, 2)
    assert sum(len(batch) for batch in batches) == 98


def test_more_text_than_places_can_tell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenising, "_LARGEST_BUFFER", 10)
    with pytest.raises(DataError, match="too many"):
        count_terms(["cough cough"])


@pytest.mark.parametrize("analysis", [TextAnalysis(), TextAnalysis.espresso()])
def test_a_real_collection_is_counted_as_defined(
    real_data: Callable[[str], Path], analysis: TextAnalysis
) -> None:
    documents = open_beir(real_data("text/nfcorpus")).iter_documents()
    texts = [document.text for document in islice(documents, 1000)]
    assert listed(count_terms(texts, analysis)) == literal(texts, analysis)
