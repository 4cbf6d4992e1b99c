from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.fixed_threshold_clustering import FixedThreshold, fixed_closures
from cloister.cloud.private_ranker import PrivateRankingSettings
from cloister.cloud.ranking_keys import RankingKeys, find_keys
from cloister.rank.embedding import Embedding
from cloister.rank.proximity_features import TermSequences, proximity

documents_of_words = st.lists(st.lists(st.sampled_from("abcdef"), max_size=25), max_size=6)
EMBEDDING = Embedding(tuple("abcde"), np.random.default_rng(3).normal(size=(5, 3)).astype("f4"))


def keys_of(documents: list[list[str]], **settings: Any) -> RankingKeys:
    given: dict[str, Any] = {"closures": AdaptiveThresholds(min_size=2), **settings}
    return find_keys(TermSequences.of(documents), EMBEDDING, PrivateRankingSettings(**given))


@given(documents_of_words, st.integers(1, 3))
def test_phrases_are_different_adjacent_words_of_enough_documents(
    documents: list[list[str]], n: int
) -> None:
    where = defaultdict(set)
    for number, words in enumerate(documents):
        for pair in pairwise(words):
            where[pair].add(number)
    expected = sorted(p for p, found in where.items() if len(found) >= n and p[0] != p[1])
    assert list(keys_of(documents, min_phrase_documents=n).phrases) == expected


@given(documents_of_words, st.integers(1, 3))
def test_a_pair_is_held_where_the_trees_would_count_it_in_the_wide_window(
    documents: list[list[str]], n: int
) -> None:
    keys = keys_of(documents, min_pair_documents=n)
    texts = TermSequences.of(documents)
    numbers = np.arange(len(documents))
    for a in "abcdef":
        for b in "abcdef":
            if a == b:
                continue
            wide = proximity([a, b], numbers, texts, [(0, 1)]).pairs[:, 0, -1] > 0
            expected = wide if wide.sum() >= n else np.zeros(len(documents), bool)
            assert keys.pair_held(a, b, numbers).tolist() == expected.tolist()
    assert list(keys.pairs) == sorted(keys.pairs)
    assert all(a < b for a, b in keys.pairs)
    assert all((np.diff(found) > 0).all() for found in keys.pair_documents)


@given(documents_of_words, st.sampled_from([1, 2, 3]))
def test_a_document_is_held_for_a_closure_if_one_of_its_words_or_phrases_occurs(
    documents: list[list[str]], size: int
) -> None:
    closures = AdaptiveThresholds(min_size=size)
    keys = keys_of(documents, closures=closures, min_phrase_documents=1)
    numbers = np.arange(len(documents))
    parts = (
        (keys.words, keys.word_closures, keys.word_held, [set(words) for words in documents]),
        (
            keys.phrases,
            keys.phrase_closures,
            keys.phrase_held,
            [set(pairwise(words)) for words in documents],
        ),
    )
    for names, labels, held, occurring in parts:
        for number, name in enumerate(names):
            members = {names[m] for m in labels.members(int(labels.labels[number])).tolist()}
            expected = [bool(members & found) for found in occurring]
            assert held(name, numbers).tolist() == expected  # type: ignore[arg-type]


def test_what_is_no_key_is_held_nowhere() -> None:
    keys = keys_of([["a", "b"], ["a"]], min_phrase_documents=2, min_pair_documents=2)
    numbers = np.arange(2)
    assert keys.phrases == keys.pairs == ()
    assert not keys.word_held("zebra", numbers).any()
    assert not keys.phrase_held(("a", "b"), numbers).any()
    assert not keys.pair_held("a", "b", numbers).any()


def test_documents_may_be_asked_for_in_any_order_and_twice() -> None:
    keys = keys_of([["a", "b"], ["a", "b"], ["f"]], min_pair_documents=1)
    assert keys.pair_held("b", "a", np.array([2, 0, 0])).tolist() == [False, True, True]
    held = keys.held(["a", "b", "a"], np.array([1, 2]))
    assert held.words.shape == (2, 2)
    assert held.phrases.shape == (1, 2)


def test_words_keep_the_order_of_the_texts_counts() -> None:
    texts = TermSequences.of([["e", "a"], ["c", "a"]])
    keys = find_keys(texts, EMBEDDING, PrivateRankingSettings())
    assert keys.words == tuple(texts.counts.vocabulary) == ("e", "a", "c")


def test_phrases_are_put_together_by_the_mean_of_their_words_vectors() -> None:
    documents = [["a", "b"], ["c", "d"], ["b", "e"], ["e", "f"], ["d", "a"]]
    closures = FixedThreshold(threshold=0.4, min_size=1)
    keys = keys_of(documents, closures=closures, min_phrase_documents=1)
    vectors = np.zeros((len(keys.phrases), 3))
    for row, (first, second) in enumerate(keys.phrases):
        if "f" not in (first, second):
            both = EMBEDDING.vectors[EMBEDDING.rows([first, second])].astype(float)
            vectors[row] = both.mean(axis=0) / np.linalg.norm(both.mean(axis=0))
    names = [" ".join(phrase) for phrase in keys.phrases]
    expected = fixed_closures(names, vectors, closures)
    assert 1 < expected.n_closures < len(names)
    assert keys.phrase_closures.labels.tolist() == expected.labels.tolist()


@pytest.mark.parametrize("documents", [[], [[]], [["a"]]])
def test_a_collection_without_pairs_has_keys_all_the_same(documents: list[list[str]]) -> None:
    keys = keys_of(documents)
    assert keys.phrases == keys.pairs == keys.pair_documents == ()
    assert len(keys.words) == sum(map(len, documents))
