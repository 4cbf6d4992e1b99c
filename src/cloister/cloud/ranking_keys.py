"""What can be looked up of a collection: its words, phrases and near pairs, and their closures.

A query needs soft kernel values of its words and of its phrases (two adjacent words), and proximity
features of its pairs of words. All words are keys; phrases and pairs are, from some number of
documents on. Words and phrases are put into closures: a document is held for all members of a
closure if one of them occurs in it, else for none. A pair is held for the documents in which its
two words stand in one wide window, without any closure.

Keys are plain and stay with the client: phrases and pairs tell of the texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.closure_pairs import ClosurePairs, closure_pairs
from cloister.cloud.clustering import term_closures
from cloister.cloud.near_words import NearWords
from cloister.cloud.private_ranker import PrivateRankingSettings
from cloister.cloud.term_closures import TermClosures
from cloister.rank.embedding import Embedding
from cloister.rank.kernel_pooling import GramCounts
from cloister.rank.proximity_features import WIDE, TermSequences
from cloister.rank.tree_features import distinct_terms

__all__ = ["HeldKeys", "RankingKeys", "find_keys"]

Bools = NDArray[np.bool_]
Numbers = NDArray[np.integer[Any]]
Pair = tuple[str, str]


class HeldKeys(NamedTuple):
    """Which documents are held for the words, and for the phrases, of a query.

    Parameters
    ----------
    words
        [word, document]: the query's different words in its order.
    phrases
        [phrase, document]: each word with the next.
    """

    words: Bools
    phrases: Bools


@dataclass(frozen=True, eq=False)
class RankingKeys:
    """Keys of a collection, and the documents held for each.

    Parameters
    ----------
    words
        The vocabulary, as the counts of the texts have it.
    phrases
        Two different words in the order in which they are adjacent; sorted.
    pairs
        Two different words (a, b), a < b; sorted.
    word_closures, phrase_closures
        Of ``words`` and ``phrases``.
    word_documents, phrase_documents
        Documents held for each closure.
    pair_documents
        For each pair the documents in which it stands in one wide window, rising.
    """

    words: tuple[str, ...] = field(repr=False)
    phrases: tuple[Pair, ...] = field(repr=False)
    pairs: tuple[Pair, ...] = field(repr=False)
    word_closures: TermClosures = field(repr=False)
    phrase_closures: TermClosures = field(repr=False)
    word_documents: ClosurePairs = field(repr=False)
    phrase_documents: ClosurePairs = field(repr=False)
    pair_documents: tuple[NDArray[np.int32], ...] = field(repr=False)

    @cached_property
    def word_numbers(self) -> Mapping[str, int]:
        """Place of each word among the words."""
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def phrase_numbers(self) -> Mapping[Pair, int]:
        """Place of each phrase among the phrases."""
        return {phrase: number for number, phrase in enumerate(self.phrases)}

    @cached_property
    def pair_numbers(self) -> Mapping[Pair, int]:
        """Place of each pair (a, b), a < b, among the pairs."""
        return {pair: number for number, pair in enumerate(self.pairs)}

    def word_held(self, word: str, documents: Numbers) -> Bools:
        """Say which documents the closure of a word holds; none where the word is no key."""
        number = self.word_numbers.get(word)
        if number is None:
            return np.zeros(len(documents), np.bool_)
        closure = int(self.word_closures.labels[number])
        return _among(documents, self.word_documents.of(closure))

    def phrase_held(self, phrase: Pair, documents: Numbers) -> Bools:
        """Say which documents the closure of a phrase holds; none where it is no key."""
        number = self.phrase_numbers.get(phrase)
        if number is None:
            return np.zeros(len(documents), np.bool_)
        closure = int(self.phrase_closures.labels[number])
        return _among(documents, self.phrase_documents.of(closure))

    def pair_held(self, a: str, b: str, documents: Numbers) -> Bools:
        """Say which documents have two words, in either order, in one wide window."""
        number = self.pair_numbers.get((min(a, b), max(a, b)))
        if number is None:
            return np.zeros(len(documents), np.bool_)
        return _among(documents, self.pair_documents[number])

    def held(self, terms: Sequence[str], documents: Numbers) -> HeldKeys:
        """Say which documents are held for each word and each phrase of a query."""
        words = distinct_terms(terms)
        phrases = list(pairwise(words))
        held = HeldKeys(
            np.zeros((len(words), len(documents)), np.bool_),
            np.zeros((len(phrases), len(documents)), np.bool_),
        )
        for row, word in enumerate(words):
            held.words[row] = self.word_held(word, documents)
        for row, phrase in enumerate(phrases):
            held.phrases[row] = self.phrase_held(phrase, documents)
        return held


def find_keys(
    texts: TermSequences, embedding: Embedding, settings: PrivateRankingSettings
) -> RankingKeys:
    """Find the keys of a collection and put words and phrases into closures.

    A phrase's vector, for its closure, is the mean of its words' vectors brought to the length 1;
    a phrase with a word without a vector has none.

    Parameters
    ----------
    texts
        The documents.
    embedding
        Vectors of words, of the ranker.
    settings
        Which phrases and pairs are keys, and how closures are made.

    Examples
    --------
    >>> texts = TermSequences.of([["dry", "cough"], ["dry", "cough", "fever"], ["fever"]])
    >>> embedding = Embedding(("cough", "fever"), np.eye(2, dtype=np.float32))
    >>> settings = PrivateRankingSettings(min_phrase_documents=2, min_pair_documents=1)
    >>> keys = find_keys(texts, embedding, settings)
    >>> keys.phrases, keys.pairs
    ((('dry', 'cough'),), (('cough', 'dry'), ('cough', 'fever'), ('dry', 'fever')))
    >>> keys.pair_held("fever", "dry", np.arange(3)).tolist()
    [False, True, False]
    """
    words = tuple(texts.vocabulary)
    near = NearWords(texts)
    adjacent = near.found(1, settings.min_phrase_documents, ordered=True)
    within = near.found(WIDE - 1, settings.min_pair_documents, ordered=False)
    word_vectors = embedding.matrix(words)
    phrase_vectors = _mean_vectors(word_vectors, adjacent.words)
    phrases = _named(words, adjacent.words)
    word_closures = term_closures(words, word_vectors, settings.closures)
    phrase_closures = term_closures(
        [" ".join(p) for p in phrases], phrase_vectors, settings.closures
    )
    return RankingKeys(
        words,
        phrases,
        _named(words, within.words),
        word_closures,
        phrase_closures,
        closure_pairs(word_closures, GramCounts.of_terms(texts.counts)),
        closure_pairs(phrase_closures, adjacent.counts(texts)),
        tuple(np.split(within.documents, within.starts[1:-1])) if len(within.words) else (),
    )


def _among(documents: Numbers, rising: NDArray[np.int32]) -> Bools:
    numbers = np.asarray(documents, np.int64)
    places = np.searchsorted(rising, numbers)
    inside = np.flatnonzero(places < len(rising))
    found = np.zeros(len(numbers), np.bool_)
    found[inside] = rising[places[inside]] == numbers[inside]
    return found


def _named(words: Sequence[str], pairs: NDArray[np.int64]) -> tuple[Pair, ...]:
    return tuple((words[a], words[b]) for a, b in pairs.tolist())


def _mean_vectors(vectors: NDArray[np.float32], pairs: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the sum of two words' vectors, which has their mean's direction; or zeros."""
    first, second = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
    both = np.flatnonzero(first.any(axis=1) & second.any(axis=1))
    means = np.zeros_like(first)
    means[both] = first[both] + second[both]
    return means
