"""Cutting: what one token more can move, that no term vanishes, that rows stay alike."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.random import stream
from cloister.index.term_counts import TermCounts, count_terms
from cloister.sketch.document_cutting import cut_documents
from cloister.sketch.keyed_hash import HashKey, SketchShape

KEY = HashKey(bytes(range(32)))
words = st.lists(st.sampled_from([f"w{i}" for i in range(9)]), max_size=12)


def kept(texts: list[list[str]], max_length: int, document: int) -> Counter[str]:
    cut = cut_documents(count_terms(" ".join(text) for text in texts), max_length, KEY)
    own = slice(cut.starts[document], cut.starts[document + 1])
    pairs = zip(cut.terms[own], cut.counts[own], strict=True)
    return Counter({cut.vocabulary[term]: int(count) for term, count in pairs})


def long_documents(n_documents: int = 300) -> TermCounts:
    rng = stream(3, "cutting")
    terms = np.sort(rng.permuted(np.tile(np.arange(400), (n_documents, 1)), axis=1)[:, :100])
    return TermCounts(
        np.arange(n_documents + 1) * 100,
        terms.ravel().astype(np.int32),
        rng.integers(1, 6, n_documents * 100).astype(np.int32),
        [f"term{i}" for i in range(400)],
    )


@given(
    st.lists(words, min_size=1, max_size=3), st.integers(1, 8), st.sampled_from(["w0", "w5", "new"])
)
def test_a_token_more_brings_at_most_one_in_and_pushes_at_most_one_out(
    texts: list[list[str]], max_length: int, more: str
) -> None:
    after = [*texts[:-1], [*texts[-1], more]]
    last = len(texts) - 1
    before, now = kept(texts, max_length, last), kept(after, max_length, last)
    assert (now - before).total() <= 1
    assert (before - now).total() <= 1
    assert now.total() == min(len(after[-1]), max_length)
    if len(texts[-1]) < max_length:
        assert not before - now
    for other in range(last):
        assert kept(texts, max_length, other) == kept(after, max_length, other)


@given(words, st.integers(1, 8), st.sampled_from(["w0", "w5", "new"]))
def test_a_token_replaced_replaces_at_most_one(
    text: list[str], max_length: int, other: str
) -> None:
    before, now = kept([text], max_length, 0), kept([[*text[1:], other]], max_length, 0)
    assert (now - before).total() <= 1
    assert (before - now).total() <= 1


def test_what_stays_is_part_of_the_document_whichever_order_its_terms_came_in() -> None:
    counts = long_documents(20)
    shuffled = stream(4, "vocabulary").permutation(400)
    place = np.argsort(shuffled)  # term t of the one is term place[t] of the other
    terms = place[counts.terms].reshape(20, 100)
    order = np.argsort(terms, axis=1)
    other = TermCounts(
        counts.starts,
        np.take_along_axis(terms, order, 1).ravel().astype(np.int32),
        np.take_along_axis(counts.counts.reshape(20, 100), order, 1).ravel(),
        [counts.vocabulary[t] for t in shuffled],
    )
    documents = np.arange(20)
    one, two = (cut_documents(c, 40, KEY) for c in (counts, other))
    found = one.term_counts(counts.vocabulary, documents)
    assert (found == two.term_counts(counts.vocabulary, documents)).all()
    assert (found <= counts.term_counts(counts.vocabulary, documents)).all()
    assert (one.lengths == 40).all()


def test_no_term_vanishes_from_all_long_documents() -> None:
    counts = long_documents()
    cut = cut_documents(counts, 60, KEY)  # a fifth of the tokens
    before = np.bincount(counts.terms, minlength=400)
    share = np.bincount(cut.terms, minlength=400) / before
    assert share.min() > 0
    assert share.std() < 2 * np.sqrt(0.2 * 0.8 / before.mean())


def test_rows_of_a_sketch_of_cut_documents_look_alike() -> None:
    cut = cut_documents(long_documents(), 60, KEY)
    hashed = KEY.hash_terms(cut.vocabulary, SketchShape(n_rows=8, n_columns=20))
    weights = np.bincount(cut.terms, cut.counts, minlength=400)
    tokens = np.stack([np.bincount(c, weights, minlength=20) for c in hashed.columns.T])
    spread = tokens.std(axis=1) / tokens.mean(axis=1)
    assert tokens.min() > 0
    assert spread[0] < 1.8 * np.median(spread[1:])


def test_another_key_or_another_document_keeps_other_terms() -> None:
    text = [f"w{i}" for i in range(200)]
    both = cut_documents(count_terms([" ".join(text)] * 2), 50, KEY)
    one, two = (set(both.terms[both.starts[i] : both.starts[i + 1]].tolist()) for i in (0, 1))
    other = set(cut_documents(count_terms([" ".join(text)]), 50, HashKey(bytes(32))).terms.tolist())
    assert len(one & two) < 30
    assert len(one & other) < 30


def test_cutting_does_not_depend_on_the_number_of_threads() -> None:
    before = numba.get_num_threads()
    try:
        found = []
        for n_threads in (1, before):
            numba.set_num_threads(n_threads)
            found.append(cut_documents(long_documents(), 60, KEY))
    finally:
        numba.set_num_threads(before)
    assert (found[0].terms == found[1].terms).all()
    assert (found[0].counts == found[1].counts).all()


def test_one_very_long_term_does_not_cost_memory_for_all() -> None:
    vocabulary = [f"term{i}" for i in range(20_000)] + ["x" * 100_000]
    counts = TermCounts(np.array([0, 2]), np.array([0, 1], np.int32), np.array([5, 5], np.int32),
                        vocabulary)  # fmt: skip
    cut_documents(counts, 6, KEY)
    tracemalloc.start()
    try:
        cut_documents(counts, 6, KEY)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
