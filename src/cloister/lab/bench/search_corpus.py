"""A corpus for measuring search: Zipfian words, documents of about 200, three-term queries."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream

__all__ = ["SearchCorpus", "make_search_corpus"]

N_WORDS: Final = 60_000
EXPONENT, SHIFT = 1.07, 2.7  # of Zipf's law, as Mandelbrot has it
MEDIAN_LENGTH, SPREAD = 180.0, 0.45
FIRST_RANK, LAST_RANK = 20, 20_000  # query terms are drawn log-uniformly between them
_CONSONANTS: Final = "bcdfghjklmnprstvz"
_VOWELS: Final = "aeiou"


class SearchCorpus(NamedTuple):
    """Texts and queries."""

    texts: list[str]
    queries: list[tuple[str, ...]]


def make_search_corpus(n_documents: int, n_queries: int, *, seed: int = 7) -> SearchCorpus:
    """Make a corpus; one seed gives the same texts.

    Examples
    --------
    >>> corpus = make_search_corpus(3, 2)
    >>> len(corpus.texts), [len(query) for query in corpus.queries]
    (3, [3, 3])
    """
    rng = stream(seed, "search-corpus")
    words = np.array(_words(), object)
    ranks = np.arange(1, N_WORDS + 1)
    shares = 1 / (ranks + SHIFT) ** EXPONENT
    shares /= shares.sum()
    drawn = np.clip(rng.lognormal(np.log(MEDIAN_LENGTH), SPREAD, n_documents), 20, 1000)
    lengths = drawn.astype(np.int64)
    tokens = np.searchsorted(np.cumsum(shares), rng.random(int(lengths.sum())))
    tokens = np.minimum(tokens, N_WORDS - 1)
    return SearchCorpus(_texts(words, tokens, lengths), _queries(words, n_queries, rng))


def _texts(
    words: NDArray[np.object_], tokens: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[str]:
    ends = np.cumsum(lengths)
    return [
        " ".join(words[tokens[end - length : end]])
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]


def _queries(
    words: NDArray[np.object_], n_queries: int, rng: np.random.Generator
) -> list[tuple[str, ...]]:
    ranks = np.exp(rng.uniform(np.log(FIRST_RANK), np.log(LAST_RANK), (n_queries, 3)))
    return [tuple(words[row]) for row in ranks.astype(np.int64)]


def _words() -> list[str]:
    """Make words that can be spoken, so that any tokeniser keeps them whole."""
    made: dict[str, None] = {}
    for number in range(N_WORDS):
        word, left = "", number + 1
        while left:
            word += _CONSONANTS[left % 17] + _VOWELS[left // 17 % 5]
            left //= 85
        word += "q"
        while word in made:
            word += "z"
        made[word] = None
    return list(made)
