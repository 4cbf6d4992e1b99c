"""A corpus of made-up documents whose term counts look like those of real ones, for measurements.

How a document is made:

- Its length is log-normal, cut at a tenth and at five times the mean; the spread (0.5) is that of
  the logarithm.
- It is about ``burst_terms`` terms, drawn by Zipf's law: the term of rank r with a chance in
  proportion to r^-exponent. A topical token is the i-th of them with a chance in proportion to
  1/i. This makes counts bursty: a term that occurs in a document occurs there again and again.
- A share of ``1 - burst_share`` of its tokens is about nothing: each is drawn by Zipf's law for
  itself.

So all tokens follow Zipf's law, whatever the burstiness. With ``burst_share`` 1 a document of 1,000
tokens has some 39 distinct terms: far more bursty than text. With 0.3 it has some 330, as text
has; but then half of all query terms occur once or twice in their 150th document, or in no 150
documents at all, and a "top 150" by count is a draw among equals that no noise leaves standing.

Each document has a random stream of its own: one seed gives the same corpus for any number of
threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.counter_random import STREAM_WORDS, draw_below, next_word, start_stream
from cloister.core.errors import SettingsError
from cloister.core.kernel import kernel, parallel_kernel
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts

__all__ = ["ZipfCorpus", "ZipfCorpusSettings", "make_corpus"]

LENGTH_SPREAD: Final = 0.5  # standard deviation of the logarithm of a length
SHORTEST, LONGEST = 0.1, 5.0  # of the mean length
_PURPOSE: Final = 0x5A495046  # of the documents' streams: "ZIPF"

Integers = NDArray[np.int64]


class ZipfCorpusSettings(Settings):
    """What a corpus is made of. The defaults are the size of CS-F-LTR's collection.

    Parameters
    ----------
    documents, mean_length, vocabulary
        Sizes. The mean of the lengths comes out within a few hundredths of ``mean_length``.
    exponent
        How fast chances fall with a term's rank.
    burst_share
        Share of a document's tokens that are topical: 1 for all, 0 for none.
    burst_terms
        How many topical terms a document has (some may coincide).
    """

    documents: int = Field(default=36_400, ge=1, le=1 << 31)
    mean_length: int = Field(default=1_000, ge=1, le=100_000)
    vocabulary: int = Field(default=100_000, ge=1, le=1 << 30)
    exponent: float = Field(default=1.07, ge=0, le=4)
    burst_share: float = Field(default=1.0, ge=0, le=1)
    burst_terms: int = Field(default=50, ge=1, le=10_000)
    seed: int = Field(default=1, ge=0, lt=1 << 64)

    @property
    def longest(self) -> int:
        """The most tokens that a document can have."""
        return max(1, int(LONGEST * self.mean_length))


class _Postings(NamedTuple):
    """The same counts by term: term t owns the entries ``starts[t]`` to ``starts[t + 1]``."""

    starts: Integers
    documents: NDArray[np.int32]
    counts: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ZipfCorpus:
    """A corpus, and how it was made."""

    settings: ZipfCorpusSettings
    counts: TermCounts

    def query_terms(self, n: int = 1000, *, distinct: bool = True) -> list[str]:
        """Draw terms by how often they occur in the corpus.

        Parameters
        ----------
        n
            How many.
        distinct
            Whether each is drawn once at most. Otherwise frequent terms come up again and again.
        """
        frequencies = np.bincount(
            self.counts.terms, weights=self.counts.counts, minlength=self.counts.n_terms
        )
        n_occurring = int(np.count_nonzero(frequencies))
        if distinct and n > n_occurring:
            raise SettingsError(
                f"only {n_occurring} terms occur in the corpus, not {n}",
                where="n",
                remedy="ask for fewer terms, or make a larger corpus",
            )
        drawn = stream(self.settings.seed, "zipf corpus", "query terms").choice(
            self.counts.n_terms, n, replace=not distinct, p=frequencies / frequencies.sum()
        )
        return [self.counts.vocabulary[term] for term in drawn]

    def exact_counts(self, term: str) -> Integers:
        """Return how often a term occurs in each document."""
        found = np.zeros(self.counts.n_documents, np.int64)
        if (position := self.counts.positions.get(term)) is not None:
            own = slice(*self._postings.starts[position : position + 2])
            found[self._postings.documents[own]] = self._postings.counts[own]
        return found

    @cached_property
    def _postings(self) -> _Postings:
        counts = self.counts
        n_with = np.bincount(counts.terms, minlength=counts.n_terms)
        starts = np.concatenate([[0], np.cumsum(n_with)])
        documents, repeats = np.empty_like(counts.terms), np.empty_like(counts.counts)
        _sort_by_term(
            counts.starts, counts.terms, counts.counts, starts[:-1].copy(), documents, repeats
        )
        return _Postings(starts, documents, repeats)


def make_corpus(settings: ZipfCorpusSettings | None = None) -> ZipfCorpus:
    """Make a corpus.

    Examples
    --------
    >>> settings = ZipfCorpusSettings(documents=50, mean_length=40, vocabulary=500)
    >>> corpus = make_corpus(settings)
    >>> corpus.counts.n_documents, corpus.counts.n_terms
    (50, 500)
    >>> term = corpus.query_terms(3)[0]
    >>> corpus.exact_counts(term).sum() == corpus.counts.collection_frequencies([term])[0]
    np.True_
    """
    settings = settings or ZipfCorpusSettings()
    lengths = _lengths(settings)
    places = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.empty(places[-1], np.int32)
    repeats = np.empty(places[-1], np.int32)
    sizes = np.empty(settings.documents, np.int64)
    _write_documents(
        np.uint64(settings.seed),
        places,
        (lengths * settings.burst_share).astype(np.int64),
        settings.burst_terms,
        *_alias_table(_chances(settings)),
        *_alias_table(1 / np.arange(1, settings.burst_terms + 1)),
        tokens,
        repeats,
        sizes,
    )
    starts = np.concatenate([[0], np.cumsum(sizes)])
    terms = np.empty(starts[-1], np.int32)
    counts = np.empty(starts[-1], np.int32)
    _pack(places, starts, tokens, terms)
    _pack(places, starts, repeats, counts)
    names = tuple(f"term{rank}" for rank in range(1, settings.vocabulary + 1))
    return ZipfCorpus(settings, TermCounts(starts, terms, counts, names))


def _lengths(settings: ZipfCorpusSettings) -> Integers:
    rng = stream(settings.seed, "zipf corpus", "lengths")
    centre = np.log(settings.mean_length) - LENGTH_SPREAD**2 / 2  # so that the mean is right
    drawn = rng.lognormal(centre, LENGTH_SPREAD, settings.documents)
    lowest = max(1.0, SHORTEST * settings.mean_length)
    return np.asarray(np.clip(drawn, lowest, settings.longest), np.int64)


def _chances(settings: ZipfCorpusSettings) -> NDArray[np.float64]:
    ranks = np.arange(1, settings.vocabulary + 1, dtype=np.float64)
    return np.asarray(ranks**-settings.exponent)


def _alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Return Walker's alias table: the place itself below a threshold of 2^32, else its alias."""
    return _fill_alias_table(weights * (len(weights) / weights.sum()))


@kernel
def _fill_alias_table(share: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    n = len(share)
    thresholds = np.full(n, np.uint32(0xFFFFFFFF))
    aliases = np.arange(n).astype(np.int32)
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    n_small = n_large = 0
    for i in range(n):
        if share[i] < 1:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        less, more = small[n_small], large[n_large - 1]
        thresholds[less] = np.uint32(share[less] * 4294967295.0)
        aliases[less] = more
        share[more] -= 1 - share[less]
        if share[more] < 1:
            n_large -= 1
            small[n_small] = more
            n_small += 1
    return thresholds, aliases


@kernel
def _draw(
    state: NDArray[np.uint32], thresholds: NDArray[np.uint32], aliases: NDArray[np.int32]
) -> Any:
    place = draw_below(state, len(thresholds))
    return place if next_word(state) < thresholds[place] else np.int64(aliases[place])


@parallel_kernel
def _write_documents(
    seed: np.uint64,
    places: Integers,
    n_topical: Integers,
    n_topics: int,
    term_thresholds: NDArray[np.uint32],
    term_aliases: NDArray[np.int32],
    topic_thresholds: NDArray[np.uint32],
    topic_aliases: NDArray[np.int32],
    tokens: NDArray[np.int32],
    repeats: NDArray[np.int32],
    sizes: Integers,
) -> None:
    """Draw each document, sort its tokens, and count each: the terms stand first in its place."""
    for document in numba.prange(len(sizes)):
        state = np.zeros(STREAM_WORDS, np.uint32)
        start_stream(state, seed, 0, document, _PURPOSE)
        begin, end = places[document], places[document + 1]
        topics = np.empty(n_topics, np.int32)
        for i in range(n_topics):
            topics[i] = _draw(state, term_thresholds, term_aliases)
        first_topical = end - n_topical[document]
        for i in range(begin, first_topical):
            tokens[i] = _draw(state, term_thresholds, term_aliases)
        for i in range(first_topical, end):
            tokens[i] = topics[_draw(state, topic_thresholds, topic_aliases)]
        ordered = np.sort(tokens[begin:end])
        last = begin - 1
        for token in ordered:
            if last < begin or tokens[last] != token:
                last += 1
                tokens[last] = token
                repeats[last] = 0
            repeats[last] += 1
        sizes[document] = last + 1 - begin


@parallel_kernel
def _pack(
    places: Integers, starts: Integers, loose: NDArray[np.int32], packed: NDArray[np.int32]
) -> None:
    for document in numba.prange(len(starts) - 1):
        for i in range(starts[document + 1] - starts[document]):
            packed[starts[document] + i] = loose[places[document] + i]


@kernel
def _sort_by_term(
    starts: Integers,
    terms: NDArray[np.int32],
    counts: NDArray[np.int32],
    places: Integers,
    documents: NDArray[np.int32],
    repeats: NDArray[np.int32],
) -> None:
    for document in range(len(starts) - 1):
        for i in range(starts[document], starts[document + 1]):
            place = places[terms[i]]
            documents[place] = document
            repeats[place] = counts[i]
            places[terms[i]] = place + 1
