from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.index.term_counts import count_terms
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import (
    KERNEL_MEANS,
    KERNEL_WIDTHS,
    GramTable,
    count_grams,
    kernel_values,
    word_table,
)

RNG = np.random.default_rng(11)
LETTERS = "abcdefgh"  # of which g and h have no vector
EMBEDDING = Embedding(tuple("abcdef"), RNG.normal(size=(6, 3)).astype(np.float32))
PAIRS = {
    (a, b): RNG.normal(size=3) for a in LETTERS for b in LETTERS if (a, b) != ("a", "b")
}  # the pair (a, b) has no vector
texts = st.lists(st.lists(st.sampled_from(LETTERS), max_size=9), min_size=1, max_size=4)
Vector = Any


def literal_kernels(
    key: tuple[str, ...],
    key_vector: Vector | None,
    grams: Sequence[tuple[str, ...]],
    vectors: dict[tuple[str, ...], Vector],
    mask_exact: bool,
) -> list[float]:
    """The formula, word by word, for one document."""
    values = []
    for mean, width in zip(KERNEL_MEANS, KERNEL_WIDTHS, strict=True):
        total = 0.0
        for gram in grams:
            if gram == key:
                similarity = 1.0
            elif key_vector is None or gram not in vectors:
                continue
            else:
                other = np.asarray(vectors[gram], np.float64)
                similarity = float(
                    key_vector @ other / np.linalg.norm(key_vector) / np.linalg.norm(other)
                )
            if mask_exact and mean != 1 and set(gram) & set(key):
                continue
            total += math.exp(-((similarity - mean) ** 2) / (2 * width**2))
        values.append(total)
    return values


def pair_table(documents: Sequence[Sequence[str]]) -> GramTable:
    counts = count_grams(documents, 2)
    grams = [tuple(counts.vocabulary[i] for i in row) for row in counts.words.tolist()]
    known = np.array([gram in PAIRS for gram in grams], np.bool_)
    rows = [PAIRS.get(gram, np.zeros(3)) for gram in grams]
    vectors = np.array(rows, np.float32).reshape(len(grams), 3)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return GramTable(counts, vectors / np.maximum(lengths, 1e-9), known)


def vector_of(key: tuple[str, ...]) -> Vector | None:
    if len(key) == 1:
        row = EMBEDDING.rows(key)[0]
        return EMBEDDING.vectors[row] if row >= 0 else None
    return (PAIRS[key] / np.linalg.norm(PAIRS[key])).astype(np.float32) if key in PAIRS else None


keys = st.lists(st.sampled_from([*LETTERS, "z"]), min_size=1, max_size=2).map(tuple)


@given(texts, keys, st.booleans())
def test_values_with_words_are_those_of_the_formula(
    documents: list[list[str]], key: tuple[str, ...], mask_exact: bool
) -> None:
    table = word_table(count_grams(documents, 1), EMBEDDING)
    vector = vector_of(key)
    found = kernel_values(key, vector, table, mask_exact=mask_exact)
    vectors = {(word,): row for word, row in zip(EMBEDDING.words, EMBEDDING.vectors, strict=True)}
    for document, values in zip(documents, found, strict=True):
        grams = [(word,) for word in document]
        expected = literal_kernels(key, vector, grams, vectors, mask_exact)
        np.testing.assert_allclose(values, expected, rtol=2e-4, atol=1e-5)


@given(texts, keys, st.booleans())
def test_values_with_pairs_are_those_of_the_formula(
    documents: list[list[str]], key: tuple[str, ...], mask_exact: bool
) -> None:
    vector = vector_of(key)
    found = kernel_values(key, vector, pair_table(documents), mask_exact=mask_exact)
    for document, values in zip(documents, found, strict=True):
        grams = list(pairwise(document))
        expected = literal_kernels(key, vector, grams, PAIRS, mask_exact)  # type: ignore[arg-type]
        np.testing.assert_allclose(values, expected, rtol=2e-4, atol=1e-5)


@given(texts, st.integers(1, 3))
def test_counts_of_grams_are_those_of_a_loop(documents: list[list[str]], n: int) -> None:
    counts = count_grams(documents, n)
    for number, document in enumerate(documents):
        expected: dict[tuple[str, ...], int] = {}
        for place in range(len(document) - n + 1):
            gram = tuple(document[place : place + n])
            expected[gram] = expected.get(gram, 0) + 1
        own = slice(counts.starts[number], counts.starts[number + 1])
        found = {
            tuple(counts.vocabulary[i] for i in counts.words[place]): int(count)
            for place, count in zip(counts.places[own], counts.counts[own], strict=True)
        }
        assert found == expected


@given(texts, st.data())
def test_a_selection_of_documents_has_the_values_of_the_whole(
    documents: list[list[str]], data: st.DataObject
) -> None:
    chosen = np.array(data.draw(st.lists(st.integers(0, len(documents) - 1))), np.int64)
    table = word_table(count_grams(documents, 1), EMBEDDING)
    vector = vector_of(("a",))
    whole = kernel_values(["a"], vector, table)
    np.testing.assert_allclose(
        kernel_values(["a"], vector, table.select(chosen)), whole[chosen], rtol=1e-5, atol=1e-7
    )


def test_term_counts_of_an_index_serve_as_well() -> None:
    counted = word_table(count_terms(["aa bb bb", "cc"]), Embedding(("aa", "bb"), np.eye(2)))
    listed = word_table(
        count_grams([["aa", "bb", "bb"], ["cc"]], 1), Embedding(("aa", "bb"), np.eye(2))
    )
    values = [kernel_values(["aa"], np.array([1, 0], np.float32), t) for t in (counted, listed)]
    np.testing.assert_array_equal(*values)


def many_documents() -> tuple[list[list[str]], Embedding, list[int]]:
    """Documents of 800 words of which a varying number is "w0"."""
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in range(2000)]
    embedding = Embedding(tuple(words), rng.normal(size=(2000, 100)).astype(np.float32))
    frequencies = rng.geometric(0.15, 60).tolist()
    documents = [
        ["w0"] * f + [words[i] for i in rng.integers(1, 2000, 800 - f)] for f in frequencies
    ]
    return documents, embedding, frequencies


def test_the_unmasked_kernel_at_0_9_carries_the_term_frequency() -> None:
    documents, embedding, frequencies = many_documents()
    table = word_table(count_grams(documents, 1), embedding)
    bare = kernel_values(["w0"], embedding.vectors[0], table, mask_exact=False)
    masked = kernel_values(["w0"], embedding.vectors[0], table)
    np.testing.assert_allclose(bare[:, 10], frequencies, rtol=1e-5)
    np.testing.assert_allclose(bare[:, 9], np.exp(-0.5) * np.array(frequencies), rtol=1e-3)
    assert np.abs(masked[:, 9]).max() < 0.01  # nothing is left of it


@given(st.lists(st.sampled_from("bcdefgh"), max_size=9), st.integers(0, 20))
def test_masked_soft_values_do_not_change_with_the_term_frequency(rest: list[str], n: int) -> None:
    values = [
        kernel_values(["a"], vector_of(("a",)), word_table(count_grams([text], 1), EMBEDDING))
        for text in (rest, rest + ["a"] * n)
    ]
    np.testing.assert_allclose(values[0][0, :10], values[1][0, :10], rtol=1e-4, atol=1e-9)
    assert values[1][0, 10] - values[0][0, 10] == pytest.approx(n)


def test_masked_values_and_the_length_of_a_document_still_tell_the_term_frequency() -> None:
    """What the module's text warns of: masking alone does not hide."""
    documents, embedding, frequencies = many_documents()
    table = word_table(count_grams(documents, 1), embedding)
    soft = kernel_values(["w0"], embedding.vectors[0], table)[:, :10]
    guess = 800 - soft.sum(axis=1) / (math.sqrt(2 * math.pi) * 0.1 / 0.2)
    common = np.bincount(frequencies).max() / len(frequencies)  # of the best blind guess
    assert (np.round(guess) == frequencies).mean() > 0.7 > 3 * common


def test_one_word_adds_1_253_to_the_soft_values_give_or_take_a_little() -> None:
    cosines = np.linspace(-0.7, 0.7, 1000)[:, None]
    sums = np.exp(-((cosines - KERNEL_MEANS[:10]) ** 2) / (2 * 0.1**2)).sum(axis=1)
    assert np.abs(sums / 1.2533 - 1).max() < 0.015


def test_what_does_not_fit_is_refused() -> None:
    table = word_table(count_grams([["a"]], 1), EMBEDDING)
    with pytest.raises(DataError, match="shape"):
        kernel_values(["a"], np.ones(2, np.float32), table)
    with pytest.raises(DataError, match="single words"):
        word_table(count_grams([["a", "b"]], 2), EMBEDDING)
    with pytest.raises(DataError, match="do not fit"):
        GramTable(table.counts, np.ones((3, 3), np.float32), np.ones(3, np.bool_))
    with pytest.raises(DataError, match="1 documents"):
        table.select(np.array([1]))
    with pytest.raises(DataError, match="at least one"):
        count_grams([["a"]], 0)
