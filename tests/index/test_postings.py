"""Postings against plain dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import Damaged
from cloister.index.postings import ARRAYS, Postings, term_major
from cloister.index.term_counts import TermCounts, count_terms

WORDS = st.sampled_from(["ache", "ache2", "a", "ä", "zz", "cough", "coughing", "fever", "日本"])
DOCUMENTS = st.lists(st.lists(WORDS, max_size=12), max_size=12)


def counted(documents: list[list[str]]) -> TermCounts:
    vocabulary = list(dict.fromkeys(word for words in documents for word in words))
    place = {word: number for number, word in enumerate(vocabulary)}
    starts, terms, counts = [0], [], []
    for words in documents:
        for number, count in sorted(Counter(place[word] for word in words).items()):
            terms.append(number)
            counts.append(count)
        starts.append(len(terms))
    return TermCounts(
        np.array(starts), np.array(terms, np.int32), np.array(counts, np.int32), vocabulary
    )


@given(DOCUMENTS, st.data())
@settings(max_examples=100)
def test_what_is_decoded_is_what_the_readable_documents_hold(documents, data):
    postings = Postings.build(counted(documents))
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))), bool
    )
    for word in ["ache", "a", "ä", "日本", "coughing", "absent", ""]:
        (number,) = postings.find([word])
        expected = [
            (place, words.count(word))
            for place, words in enumerate(documents)
            if mask[place] and word in words
        ]
        found = postings.readable(int(number), mask)
        assert list(zip(found.documents.tolist(), found.counts.tolist(), strict=True)) == expected
        assert found.n_occurrences == sum(count for _, count in expected)
    assert postings.lengths.tolist() == [len(words) for words in documents]
    assert postings.distinct.tolist() == [len(set(words)) for words in documents]


@pytest.mark.parametrize("largest", [1, 2, 3, 200, 70_000, 2**31 - 1])
@pytest.mark.parametrize("n_documents", [1, 127, 128, 129, 1000])
def test_counts_of_any_size_and_any_number_of_blocks_survive(n_documents, largest):
    rng = np.random.default_rng(n_documents)
    counts = rng.integers(1, largest, n_documents, endpoint=True).astype(np.int32)
    held = np.sort(rng.choice(100_000, n_documents, replace=False))
    starts = np.searchsorted(held, np.arange(100_001))
    sparse = TermCounts(starts, np.zeros(n_documents, np.int32), counts, ["word"])
    postings = Postings.pack(term_major(sparse), np.ones(100_000, np.uint32))
    found = postings.readable(0, postings.everything)
    np.testing.assert_array_equal(found.documents, held)
    np.testing.assert_array_equal(found.counts, counts)


def test_terms_are_found_by_their_bytes_and_given_back():
    texts = ["cough coughing", "co cough", "zoster ähre 日本"]
    postings = Postings.build(count_terms(texts))
    terms = [postings.term(number) for number in range(postings.n_terms)]
    assert terms == sorted(terms, key=str.encode)
    assert postings.find(terms).tolist() == list(range(len(terms)))
    assert postings.find(["c", "cou", "coughingx", "~", "\x00"]).tolist() == [-1] * 5


def test_an_index_of_nothing_answers_nothing():
    postings = Postings.build(count_terms([]))
    assert postings.find(["cough"]).tolist() == [-1]
    assert len(postings.readable(-1, postings.everything).documents) == 0


def test_a_text_of_random_words_takes_less_than_two_bytes_a_posting():
    rng = np.random.default_rng(3)
    ranks = rng.zipf(1.3, 60_000)
    texts = [" ".join(f"w{rank % 5000}" for rank in part) for part in ranks.reshape(300, 200)]
    counts = count_terms(texts)
    assert Postings.build(counts).words.nbytes < 2 * len(counts.terms)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_together_are_refused(name):
    arrays = Postings.build(count_terms(["cough fever cough", "fever"])).arrays()
    Postings.from_arrays(arrays, "here")
    with pytest.raises(Damaged):
        Postings.from_arrays({**arrays, name: arrays[name][:-1]}, "here")
    with pytest.raises(Damaged, match="missing"):
        Postings.from_arrays({key: arrays[key] for key in ARRAYS if key != name}, "here")


def test_words_that_name_documents_which_are_not_there_are_refused_not_read():
    arrays = Postings.build(count_terms(["cough"] * 3 + ["fever"] * 400)).arrays()
    broken = {**arrays, "words": np.full_like(arrays["words"], 2**64 - 1)}
    broken["block_bits"] = np.full_like(arrays["block_bits"], 16)
    broken["words"] = np.full(10_000, 2**64 - 1, np.uint64)
    postings = Postings(**broken)
    with pytest.raises(Damaged):
        postings.readable(0, np.ones(403, bool))
