from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from cloister.adversary.cooccurrence_matching import (
    CountChances,
    MatchingSettings,
    assign_rows,
    match_by_cooccurrence,
)
from cloister.adversary.known_occurrences import KnownOccurrences
from cloister.adversary.label_naming import (
    KnownCollection,
    labels_of_closures,
    labels_of_words,
    name_labels,
)
from cloister.adversary.leakage_abuse import AbuseSettings, abuse_leakage
from cloister.adversary.linked_documents import match_by_linked_documents
from cloister.cloud.closure_pairs import closure_pairs
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.index.term_counts import TermCounts, count_terms
from cloister.rank.kernel_pooling import GramCounts

N_TOPICS, N_WORDS = 8, 40
SEARCH = MatchingSettings(n_steps=10, n_rounds=10, n_starts=2)


def rng(*purpose: int) -> np.random.Generator:
    return stream(5, "leakage abuse tests", *purpose)


def topical(n_documents: int = 400) -> TermCounts:
    """Make documents of topics: words of a topic occur together, each with a rate of its own."""
    draw = rng(0)
    rates = draw.uniform(0.05, 0.7, N_WORDS)
    texts = []
    for _ in range(n_documents):
        topics = draw.permutation(N_TOPICS)[:2]
        near = np.isin(np.arange(N_WORDS) % N_TOPICS, topics)
        held = draw.random(N_WORDS) < np.where(near, rates, 0.02)
        texts.append(" ".join(f"word{word}" for word in np.flatnonzero(held)))
    return count_terms(texts)


def queries(counts: TermCounts) -> list[list[str]]:
    return [[word] for word in counts.vocabulary]


def known(counts: TermCounts) -> KnownOccurrences:
    return KnownOccurrences(counts.starts, counts.terms, counts.n_terms)


@given(st.data())
def test_chances_of_counts_are_the_beta_binomials(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 60))
    n_known = data.draw(st.integers(1, n))
    part = data.draw(st.integers(0, n_known))
    mean, strength = data.draw(st.floats(0.01, 0.5)), data.draw(st.floats(0.05, 5))
    found = CountChances.of(mean, strength, n, n_known).single(np.arange(n + 1), np.array([part]))
    b = strength * (1 - mean) / mean
    literal = betabinom.pmf(
        np.arange(n + 1) - part, n - n_known, strength + part, b + n_known - part
    )
    np.testing.assert_allclose(np.exp(found[:, 0]), literal, atol=1e-9)


def test_words_together_are_counted_as_a_product_of_matrices_counts_them() -> None:
    counts = topical(60)
    held = labels_of_words(counts, np.arange(counts.n_terms)).documents.astype(np.int64)
    wanted = np.array([3, 0, 3, 7])
    np.testing.assert_array_equal(known(counts).together(wanted), held @ held[wanted].T)


@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 99))
def test_assigned_rows_are_different_and_none_is_missing(labels: int, rows: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(labels, rows))
    found = assign_rows(scores, np.arange(10, 10 + rows))
    taken = found[found >= 0]
    assert len(taken) == min(labels, rows) == len(set(taken.tolist()))


def test_cooccurrence_names_words_that_frequency_alone_does_not() -> None:
    counts = topical()
    sample = counts.select(rng(1).permutation(400)[:200])
    words = rng(2).permutation(counts.n_terms)[:30]
    seen = labels_of_words(counts, words).documents
    alone = MatchingSettings(n_steps=0, n_rounds=0)
    told = {label: int(words[label]) for label in range(5)}
    by_pairs = match_by_cooccurrence(seen, known(sample), SEARCH, given=told, rng=rng(3))
    by_count = match_by_cooccurrence(seen, known(sample), alone, rng=rng(3))
    assert (by_pairs == words)[5:].mean() > 0.8
    assert (by_count == words)[5:].mean() < 0.5


def test_with_nothing_in_common_the_attack_is_at_chance() -> None:
    counts, words = topical(), np.arange(30)
    draw = rng(4)
    seen = draw.random((30, 400)) < 0.1
    right = [
        (match_by_cooccurrence(seen, known(counts), SEARCH, rng=rng(5, i)) == words).mean()
        for i in range(2)
    ]
    assert np.mean(right) < 0.15


def test_a_server_with_all_documents_names_every_word_and_closures_stop_it() -> None:
    counts = topical()
    closures = TermClosures(np.arange(counts.n_terms) % 8)  # words of a closure share no documents
    pairs = closure_pairs(closures, GramCounts.of_terms(counts))
    settings = AbuseSettings(share=1, n_labels=20, matching=SEARCH)
    plain = abuse_leakage(counts, queries(counts), settings, n_draws=3)
    closed = abuse_leakage(
        counts, queries(counts), settings, pairs=pairs, closures=closures, n_draws=3
    )
    assert plain.attack.exact.value > 0.95
    assert closed.attack.exact.value < 0.5
    assert closed.attack.up_to_closure.value > 0.9  # who has the closures still names these
    opened = abuse_leakage(
        counts,
        queries(counts),
        settings,
        pairs=pairs,
        closures=closures,
        opened=lambda words: labels_of_words(counts, words),
        n_draws=3,
    )
    assert opened.attack.exact == plain.attack.exact  # once codes are open, closures are of no use
    figures = json.loads(json.dumps(closed.as_dict()))
    assert figures["attack"]["exact"]["value"] == closed.attack.exact.value
    assert figures["settings"]["share"] == 1


def test_linked_documents_name_words_from_a_small_sample() -> None:
    counts = topical()
    linked = AbuseSettings(share=0.1, n_labels=20, linked=True, matching=SEARCH)
    apart = linked.model_copy(update={"linked": False})
    found = abuse_leakage(counts, queries(counts), linked, n_draws=3)
    assert found.attack.exact.value > 0.9
    assert abuse_leakage(counts, queries(counts), apart, n_draws=3).attack.exact.value < 0.5
    assert found.attack.chance.value == pytest.approx(1 / counts.n_terms, rel=0.1)


def test_wrong_links_are_reckoned_with() -> None:
    counts = topical()
    certain = AbuseSettings(share=0.5, n_labels=20, linked=True, matching=SEARCH)
    careful = certain.model_copy(update={"wrong_links": 0.8})

    def link(documents: np.ndarray) -> np.ndarray:
        wrong = rng(9).random(len(documents)) < 0.8
        return np.where(wrong, rng(10).permutation(documents), documents)

    found = [
        abuse_leakage(counts, queries(counts), how, link=link, n_draws=3).attack.exact.value
        for how in (certain, careful)
    ]
    assert found[1] > found[0] + 0.1


def test_without_the_closures_a_label_is_named_by_a_word_that_fits_into_it() -> None:
    counts = topical()
    closures = TermClosures(np.arange(counts.n_terms) // 5)
    pairs = closure_pairs(closures, GramCounts.of_terms(counts))
    words = np.arange(0, counts.n_terms, 5)
    seen = labels_of_closures(pairs, closures, words, counts.n_documents)
    knows = KnownCollection(counts, linked=np.arange(counts.n_documents))
    found = name_labels(seen, knows, closed=True, rng=rng(6))
    held = labels_of_words(counts, found).documents
    assert not (held & ~seen.documents).any()


def test_within_a_closure_the_most_frequent_words_are_named_first() -> None:
    counts = count_terms(["aa bb", "aa bb", "aa", "cc", "cc dd", "ee"])
    closures = TermClosures(np.array([0, 0, 1, 1, 1]))
    pairs = closure_pairs(closures, GramCounts.of_terms(counts))
    seen = labels_of_closures(pairs, closures, np.array([1, 0, 3]), 6)
    assert seen.closures.tolist() == [0, 0, 1]
    knows = KnownCollection(counts, closures, linked=np.arange(6))
    assert name_labels(seen, knows, closed=True, rng=rng(7)).tolist() == [0, 1, 2]


def test_more_known_documents_than_the_server_has_are_refused() -> None:
    counts = topical(50)
    with pytest.raises(DataError, match="more documents are known"):
        match_by_cooccurrence(np.zeros((2, 40), bool), known(counts), rng=rng(8))
    with pytest.raises(DataError, match="50 documents are known"):
        match_by_linked_documents(np.zeros((2, 60), bool), np.arange(40), known(counts), exact=True)
    with pytest.raises(DataError, match="closures and their documents go together"):
        abuse_leakage(counts, queries(counts), closures=TermClosures(np.zeros(40, np.int64)))
    with pytest.raises(DataError, match="fewer than two words"):
        abuse_leakage(counts, [["unheard"]])
    for n_given in (10, 12):
        with pytest.raises(DataError, match="none is left to name"):
            abuse_leakage(counts, queries(counts)[:10], AbuseSettings(n_given=n_given))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("wrong_links", [0.0, 1.0])
def test_labels_of_all_documents_or_none_are_matched_whatever_is_reckoned_with(
    wrong_links: float, exact: bool
) -> None:
    counts = topical(50)
    seen = np.stack([np.ones(50, bool), np.zeros(50, bool)])
    found = match_by_linked_documents(
        seen, np.arange(50), known(counts), exact=exact, wrong_links=wrong_links
    )
    assert len(set(found.tolist())) == 2
