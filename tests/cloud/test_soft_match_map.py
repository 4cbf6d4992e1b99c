from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.closure_pairs import closure_pairs, log2_deniability, map_storage
from cloister.cloud.kernel_obfuscation import KernelObfuscation, bayes_success, levels_of
from cloister.cloud.soft_match_map import SoftMatchMap, build_soft_match_map, gram_kernels
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import (
    KERNEL_MEANS,
    KERNEL_WIDTHS,
    N_SOFT,
    GramTable,
    count_grams,
    kernel_values,
    word_table,
)

worlds = st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=1, max_size=6).filter(
    lambda documents: any(documents)
)


def table_of(documents: list[list[str]]) -> GramTable:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(5, 3)) + 0.5  # the word "f" has none
    return word_table(count_grams(documents, 1), Embedding(tuple("abcde"), vectors.astype("f4")))


def closures_of(n_terms: int, seed: int = 0) -> TermClosures:
    return TermClosures.numbered(np.random.default_rng(seed).integers(0, 3, n_terms))


def literal_soft_kernels(table: GramTable, term: int, document: list[str]) -> np.ndarray:
    vocabulary = table.counts.vocabulary
    found = np.zeros(N_SOFT)
    for word in document:
        other = vocabulary.index(word)
        if other != term and table.known[term] and table.known[other]:
            cosine = float(table.vectors[term] @ table.vectors[other])
            off = (cosine - KERNEL_MEANS[:N_SOFT]) / KERNEL_WIDTHS[:N_SOFT]
            found += np.exp(-0.5 * off**2)
    return found


@given(worlds, st.integers(0, 9))
def test_a_document_is_held_for_all_terms_of_a_closure_or_for_none(
    documents: list[list[str]], seed: int
) -> None:
    table = table_of(documents)
    closures = closures_of(len(table.counts.words), seed)
    built = build_soft_match_map(closures, table.counts, gram_kernels(table, table))
    vocabulary = table.counts.vocabulary
    for term in range(closures.n_terms):
        family = {vocabulary[t] for t in closures.members(closures.labels[term])}
        wanted = [bool(family & set(document)) for document in documents]
        assert built.holds(term, np.arange(len(documents))).tolist() == wanted


@given(worlds, st.integers(0, 9), st.sampled_from([None, 2.0, 5.0]))
def test_stored_vectors_are_the_literal_ones(
    documents: list[list[str]], seed: int, base: float | None
) -> None:
    table = table_of(documents)
    closures = closures_of(len(table.counts.words), seed)
    obfuscation = KernelObfuscation(base=base)
    built = build_soft_match_map(closures, table.counts, gram_kernels(table, table), obfuscation)
    everywhere = np.arange(len(documents))
    for term in range(closures.n_terms):
        held = built.holds(term, everywhere)
        for number in everywhere:
            found = built.vectors(term, np.array([number]))[0]
            literal = literal_soft_kernels(table, term, documents[number])
            if not held[number]:
                assert (found == obfuscation.absent).all()
            elif base is None:
                np.testing.assert_allclose(found, literal, rtol=1e-4, atol=1e-6)
            else:
                low, high = (
                    levels_of(literal * (1 - 1e-5), base),
                    levels_of(literal * 1.00001, base),
                )
                assert ((low <= found) & (found <= high)).all()


def test_the_kernels_come_from_whoever_gives_them() -> None:
    table = table_of([["a", "b"], ["c"]])
    closures = TermClosures(np.array([0, 1, 0]))

    def kernels(terms: np.ndarray, documents: np.ndarray) -> np.ndarray:
        return (100.0 * terms[:, None, None] + 10 * documents[:, None]) * np.ones(2)

    plain = KernelObfuscation(base=None)
    built = build_soft_match_map(closures, table.counts, kernels, plain, n_kernels=2)
    assert built.vectors(2, np.array([1, 0])).tolist() == [[210, 210], [200, 200]]
    assert built.vectors(1, np.array([1, 0])).tolist() == [[0, 0], [100, 100]]
    with pytest.raises(DataError, match="shape"):
        build_soft_match_map(closures, table.counts, kernels, plain, n_kernels=3)


def test_keys_can_be_pairs_of_words() -> None:
    documents = [["a", "b", "c"], ["b", "c"], ["a"]]
    words = table_of(documents)
    counts = count_grams(documents, 2)
    vectors = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
    pairs = GramTable(counts, vectors, np.array([True, True]))
    plain = KernelObfuscation(base=None)
    built = build_soft_match_map(
        TermClosures(np.array([0, 0])), counts, gram_kernels(pairs, words), plain
    )
    assert built.holds(0, np.arange(3)).tolist() == [True, True, False]
    names = [counts.vocabulary[word] for word in counts.words[0]]
    wanted = kernel_values(names, vectors[0], words)[:2, :N_SOFT]
    np.testing.assert_array_equal(built.vectors(0, np.array([0, 1])), wanted)


def test_storage_is_counted_by_hand() -> None:
    table = table_of([["a", "a", "b"], ["c"], []])
    closures = TermClosures(np.array([0, 1, 0]))  # {a, c}, {b}
    found = map_storage(closures, table.counts, KernelObfuscation(base=10), n_kernels=10)
    assert found.n_pairs == 3  # {a, c} in two documents, {b} in one
    assert (found.closed_vectors, found.open_vectors, found.full_vectors) == (5, 3, 9)
    assert (found.closed_bytes, found.open_bytes, found.full_bytes) == (62, 42, 90)
    assert found.closed_share == pytest.approx(62 / 90)
    plain = map_storage(closures, table.counts, KernelObfuscation(base=None), n_kernels=10)
    assert plain.full_bytes == 4 * found.full_bytes


@given(worlds, st.integers(0, 9))
def test_a_closed_map_lies_between_the_open_and_the_full_one(
    documents: list[list[str]], seed: int
) -> None:
    table = table_of(documents)
    closures = closures_of(len(table.counts.words), seed)
    found = map_storage(closures, table.counts, KernelObfuscation())
    assert found.open_vectors <= found.closed_vectors <= found.full_vectors
    built = build_soft_match_map(closures, table.counts, gram_kernels(table, table))
    assert len(built.values) == found.closed_vectors


def test_the_deniability_count_counts_data_sets_with_the_same_keys() -> None:
    closures = TermClosures(np.array([0, 0, 0, 1, 1]))
    words = "abcde"
    subsets = [s for n in range(6) for s in itertools.combinations(words, n)]

    def keys(documents: tuple[tuple[str, ...], ...]) -> tuple[frozenset[int], ...]:
        return tuple(
            frozenset(int(closures.labels[words.index(w)]) for w in document)
            for document in documents
        )

    given_ = (("a", "d"), ("b",))  # closure 0 in both documents, closure 1 in the first
    alike = sum(keys(world) == keys(given_) for world in itertools.product(subsets, repeat=2))
    assert alike == 7 * 7 * 3
    found = log2_deniability(closures.sizes, np.array([2, 1]))
    assert found == pytest.approx(math.log2(alike))


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_closures_of_p_terms_give_n_log2_of_2_to_the_p_less_1(p: int, n: int) -> None:
    assert log2_deniability(np.array([p]), np.array([n])) == pytest.approx(n * math.log2(2**p - 1))


def test_occurrence_shows_in_an_open_map_and_not_in_a_closed_one() -> None:
    documents = [["a"], ["b"], ["a", "b"]]
    table = table_of(documents)
    everywhere = np.arange(3)
    apart, together = TermClosures(np.array([0, 1])), TermClosures(np.array([0, 0]))
    kernels = gram_kernels(table, table)
    open_map = build_soft_match_map(apart, table.counts, kernels)
    closed = build_soft_match_map(together, table.counts, kernels)
    assert open_map.holds(0, everywhere).tolist() == [True, False, True]
    assert closed.holds(0, everywhere).all()
    assert open_map.log2_deniability() == 0
    assert closed.log2_deniability() == pytest.approx(3 * math.log2(3))


def test_masked_levels_tell_less_of_frequencies_than_unmasked_ones() -> None:
    rng = np.random.default_rng(0)
    documents = [["a"] * int(rng.geometric(0.15)) + list(rng.choice(list("bcde"), 12))
                 for _ in range(300)]  # fmt: skip
    table = table_of(documents)
    term = table.counts.vocabulary.index("a")
    tf = np.array([document.count("a") for document in documents])
    found = {}
    for masked in (True, False):
        kernels = gram_kernels(table, table, mask_exact=masked)
        closures = TermClosures(np.zeros(5, np.int64))
        built = build_soft_match_map(closures, table.counts, kernels, KernelObfuscation(base=2))
        found[masked] = bayes_success(built.vectors(term, np.arange(300))[:, -1:], tf)
    blind = np.bincount(tf).max() / 300
    assert found[True] < found[False]
    assert found[True] < blind + 0.1


def test_parts_that_do_not_fit_together_are_refused() -> None:
    table = table_of([["a", "b"]])
    with pytest.raises(DataError, match="closures of 1 terms"):
        closure_pairs(TermClosures(np.array([0])), table.counts)
    built = build_soft_match_map(
        TermClosures(np.array([0, 0])), table.counts, gram_kernels(table, table)
    )
    with pytest.raises(DataError, match="fit together"):
        SoftMatchMap(built.closures, built.pairs, built.values[1:], 1, built.obfuscation)
    with pytest.raises(DataError, match="there are 2 terms"):
        built.vectors(2, np.array([0]))


def test_progress_is_told() -> None:
    table = table_of([["a", "b"], ["c"]])
    told: list[tuple[int, int]] = []
    build_soft_match_map(
        TermClosures(np.array([0, 0, 1])),
        table.counts,
        gram_kernels(table, table),
        progress=lambda done, of: told.append((done, of)),
    )
    assert told == [(1, 2), (2, 2)]
