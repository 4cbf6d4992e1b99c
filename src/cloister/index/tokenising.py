"""Cut texts into terms and count them, fast.

What a term is, `cloister.index.analysis.TextAnalysis.terms` says, one text at a time. Here many
texts are joined in one buffer, kernels find and number their words, and the analysis is asked once
for each *different* word what becomes of it. The outcome is the same, whatever the number of
threads and the size of the batches.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.index.analysis import TextAnalysis
from cloister.index.term_counting_kernel import (
    copy_entries,
    count_entries,
    count_entries_in_parallel,
)
from cloister.index.tokenising_kernel import (
    WordTable,
    find_words,
    find_words_in_parallel,
    number_new_words,
    place_words,
)

__all__ = ["BatchCounts", "TermCounter", "text_batches"]

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

FIRST_BATCH: Final = 1 << 17  # characters; few, so that later batches find most words numbered
LARGEST_BATCH: Final = 1 << 22  # characters, unless a single text is longer
PARALLEL_BYTES: Final = 1 << 16  # below this, threads cost more than they save
_N_PARTS: Final = 16  # shares of a batch for the threads; more than cores, to even them out
_LARGEST_BUFFER: Final = (1 << 31) - 1  # bytes: places in the buffer are 32-bit numbers
_SEVERAL_MARKS: Final = 32  # different ones in a text, up to which each is searched for


class BatchCounts(NamedTuple):
    """Terms of some documents, as in `cloister.index.term_counts.TermCounts`."""

    starts: Int64s
    terms: Int32s
    counts: Int32s


class TermCounter:
    """Counts the terms of batches of texts. Terms keep their numbers from batch to batch.

    Parameters
    ----------
    analysis
        What the terms of a text are.
    hash_key
        Key of the words' hashes, below 2^61 - 1; drawn anew if not given. Results do not depend on
        it. Who does not know it cannot plan words of equal hashes, which are slow to look up.
    parallel_bytes
        Batches at least this large are worked on by all threads.

    Examples
    --------
    >>> counter = TermCounter(TextAnalysis())
    >>> counter.count(["cough, cough, fever"]).counts.tolist(), counter.vocabulary
    ([2, 1], ('cough', 'fever'))
    >>> counter.count(["fever and rash"]).terms.tolist(), counter.vocabulary
    ([1, 2], ('cough', 'fever', 'rash'))
    """

    def __init__(
        self,
        analysis: TextAnalysis,
        *,
        hash_key: int | None = None,
        parallel_bytes: int = PARALLEL_BYTES,
    ) -> None:
        self.analysis = analysis
        self._words = _WordNumbers(_drawn_key() if hash_key is None else hash_key)
        self._parallel_bytes = parallel_bytes
        self._positions: dict[str, int] = {}
        self._term_of_word = np.empty(0, np.int32)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The terms of all texts so far, in the order in which they appeared."""
        return tuple(self._positions)

    def count(self, texts: Sequence[str]) -> BatchCounts:
        """Count the terms of texts."""
        text, bounds = _joined([_word_bytes(text, self.analysis) for text in texts])
        parts = _shares(bounds) if len(text) >= self._parallel_bytes else None
        tokens, n_tokens = self._words.number(text, bounds, parts)
        self._decide_new_words()
        counts, n_entries = np.empty_like(tokens), np.empty_like(n_tokens)
        arrays = self._term_of_word, tokens, counts, n_tokens, n_entries
        if parts is None:
            count_entries(bounds, 0, len(n_tokens), *arrays)
        else:
            count_entries_in_parallel(bounds, parts, *arrays)
        starts = np.concatenate([[0], np.cumsum(n_entries)])
        return BatchCounts(starts, *(_dense(bounds, starts, values) for values in (tokens, counts)))

    def _decide_new_words(self) -> None:
        """Ask the analysis about the words that it has not seen yet, in order of appearance."""
        positions, new = self._positions, []
        for word in self._words.spelled(len(self._term_of_word)):
            term = self.analysis.term_of(word)
            new.append(-1 if term is None else positions.setdefault(term, len(positions)))
        self._term_of_word = np.concatenate([self._term_of_word, np.array(new, np.int32)])


class _WordNumbers:
    """Numbers different words in order of appearance."""

    def __init__(self, key: int) -> None:
        self._key = np.uint64(key)
        self._n_words = 0
        self._spellings = np.empty(1 << 12, np.uint8)
        self._starts = np.zeros((1 << 9) + 1, np.int64)
        self._heads = np.zeros(1 << 9, np.uint64)
        self._slots = np.zeros(1 << 10, np.uint64)

    @property
    def _table(self) -> WordTable:
        return self._slots, self._heads, self._spellings, self._starts

    def number(self, text: Bytes, bounds: Int64s, parts: Int64s | None) -> tuple[Int32s, Int64s]:
        """Return the number of each word, and how many each document has."""
        n_documents = len(bounds) - 1
        tokens, n_tokens = np.empty(len(text) // 2, np.int32), np.empty(n_documents, np.int64)
        if parts is None:
            find_words(text, bounds, 0, n_documents, self._key, self._table, tokens, n_tokens)
        else:
            find_words_in_parallel(text, bounds, parts, self._key, self._table, tokens, n_tokens)
        document = 0
        while True:
            self._n_words, document = number_new_words(
                text,
                bounds,
                document,
                self._key,
                self._n_words,
                self._table,
                tokens,
                n_tokens,
            )
            if document == n_documents:
                return tokens, n_tokens
            self._make_room(int(n_tokens[document]), int(np.diff(bounds)[document]))

    def spelled(self, first: int) -> list[str]:
        """Return the words from a number on."""
        places = self._starts[first : self._n_words + 1].tolist()
        letters = self._spellings[places[0] : places[-1]].tobytes()
        return [
            letters[begin - places[0] : end - places[0]].decode() for begin, end in pairwise(places)
        ]

    def _make_room(self, n_words: int, n_bytes: int) -> None:
        """Grow for so many more words and bytes; at least half of the slots stay empty."""
        used = int(self._starts[self._n_words])
        if used + n_bytes > len(self._spellings):
            spellings = np.empty(max(2 * len(self._spellings), used + n_bytes), np.uint8)
            spellings[:used] = self._spellings[:used]
            self._spellings = spellings
        capacity = len(self._starts) - 1
        if self._n_words + n_words > capacity:
            while capacity < self._n_words + n_words:
                capacity *= 2
            starts = np.zeros(capacity + 1, np.int64)
            starts[: self._n_words + 1] = self._starts[: self._n_words + 1]
            heads = np.zeros(capacity, np.uint64)
            heads[: self._n_words] = self._heads[: self._n_words]
            self._starts, self._heads = starts, heads
            self._slots = np.zeros(2 * capacity, np.uint64)
            place_words(self._key, self._n_words, self._table)


def text_batches(
    texts: Iterable[str], *, first: int = FIRST_BATCH, largest: int = LARGEST_BATCH
) -> Iterator[list[str]]:
    """Cut a stream of texts into batches of about so many characters, each twice the one before.

    Examples
    --------
    >>> [len(batch) for batch in text_batches(["cough"] * 8, first=5, largest=20)]
    [1, 2, 4, 1]
    """
    batch: list[str] = []
    n_characters, limit = 0, first
    for text in texts:
        batch.append(text)
        n_characters += len(text) + 1
        if n_characters > limit:
            yield batch
            batch, n_characters, limit = [], 0, min(2 * limit, largest)
    if batch:
        yield batch


def _drawn_key() -> int:
    return 1 + secrets.randbelow((1 << 61) - 2)


def _word_bytes(text: str, analysis: TextAnalysis) -> bytes:
    """Return bytes in which the kernels find the words that the analysis finds in the text."""
    if text.isascii() and analysis.dates == "keep":
        return text.encode()
    folded = analysis.folded(text)
    if not folded.isascii():
        marks = [sign for sign in set(folded) if sign > "\x7f" and not sign.isalnum()]
        if len(marks) > _SEVERAL_MARKS:
            return " ".join(analysis.words(text)).encode()
        for mark in marks:
            folded = folded.replace(mark, " ")
    return folded.encode()


def _joined(texts: list[bytes]) -> tuple[Bytes, Int64s]:
    """Return the texts with a byte after each that belongs to no word, and where each begins."""
    text = b" ".join([*texts, b""])
    if len(text) > _LARGEST_BUFFER:
        raise DataError(
            f"texts of {len(text)} bytes at once are too many",
            where="count_terms",
            remedy="cut texts so that each has at most 2 GB",
        )
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.frombuffer(text, np.uint8), np.concatenate([[0], np.cumsum(sizes + 1)])


def _shares(bounds: Int64s) -> Int64s:
    """Return which documents begin each share, of about as many bytes each."""
    even = np.linspace(0, bounds[-1], _N_PARTS + 1)
    return np.searchsorted(bounds, even).astype(np.int64)


def _dense(bounds: Int64s, starts: Int64s, sparse: Int32s) -> Int32s:
    dense = np.empty(starts[-1], np.int32)
    copy_entries(bounds, starts, sparse, dense)
    return dense
