"""Postings: for each term the documents that hold it and how often, compressed in flat arrays.

The documents of a term come in rising order, in blocks of 128. A block holds first the gaps between
the documents, then the counts less one, each in as many bits as the largest of the block needs.
Each term begins at a new 64-bit word, so that several threads can write.

All of it is immutable. What may be read by whom is not known here: `Postings.readable` takes a mask
of documents, and what is masked out is never given out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged
from cloister.index.postings_kernel import (
    BLOCK,
    decode_masked,
    find_bytes,
    invert,
    pack_terms,
    packed_sizes,
)
from cloister.index.term_counts import TermCounts

__all__ = ["Postings", "TermMajor", "TermPostings"]

Mask = NDArray[np.bool_]


class TermPostings(NamedTuple):
    """Some documents of a term, in rising order, and how often each holds it."""

    documents: NDArray[np.int32]
    counts: NDArray[np.int32]

    @property
    def n_occurrences(self) -> int:
        """How often the term occurs in all of them together."""
        return int(self.counts.sum(dtype=np.int64))


class TermMajor(NamedTuple):
    """Uncompressed postings: term ``t`` owns the entries ``starts[t]`` to ``starts[t + 1]``."""

    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    counts: NDArray[np.int32]
    terms: Sequence[bytes]  # UTF-8, in rising order


@dataclass(frozen=True, eq=False)
class Postings:
    """The postings of one segment.

    Parameters
    ----------
    words
        The packed blocks, and one word more, which reading needs.
    word_starts
        Where each term's words begin.
    block_starts
        Where each term's blocks begin.
    block_bits
        How many bits a gap and a count have, for each block.
    frequencies
        In how many documents each term is.
    lengths, distinct
        Number of tokens of each document, and of different terms.
    term_bytes, term_starts
        The terms in UTF-8, in rising order, and where each begins.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> postings = Postings.build(count_terms(["cough cough fever", "fever", "cough"]))
    >>> number, absent = postings.find(["cough", "rash"])
    >>> int(absent)
    -1
    >>> postings.readable(number, np.array([True, True, True]))
    TermPostings(documents=array([0, 2], dtype=int32), counts=array([2, 1], dtype=int32))
    >>> postings.readable(number, np.array([False, True, True])).documents.tolist()
    [2]
    """

    words: NDArray[np.uint64]
    word_starts: NDArray[np.uint32]
    block_starts: NDArray[np.uint32]
    block_bits: NDArray[np.uint8]
    frequencies: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    distinct: NDArray[np.uint32]
    term_bytes: NDArray[np.uint8]
    term_starts: NDArray[np.uint32]

    @classmethod
    def build(cls, counts: TermCounts) -> Postings:
        """Invert and pack the counts of some documents."""
        return cls.pack(term_major(counts), counts.lengths.astype(np.uint32))

    @classmethod
    def pack(cls, flat: TermMajor, lengths: NDArray[np.uint32]) -> Postings:
        """Pack postings that are term by term already."""
        frequencies = np.diff(flat.starts).astype(np.uint32)
        block_starts = _starts(-(-frequencies.astype(np.int64) // BLOCK))
        block_bits = np.zeros((int(block_starts[-1]), 2), np.uint8)
        n_words = packed_sizes(flat.starts, flat.documents, flat.counts, block_starts, block_bits)
        word_starts = _starts(n_words)
        words = np.zeros(int(word_starts[-1]) + 1, np.uint64)
        pack_terms(
            flat.starts, flat.documents, flat.counts, block_starts, block_bits, word_starts, words
        )
        distinct = np.bincount(flat.documents, minlength=len(lengths)).astype(np.uint32)
        joined = np.frombuffer(b"".join(flat.terms), np.uint8)
        term_starts = _starts(np.array([len(term) for term in flat.terms], np.int64))
        return cls(
            words,
            word_starts,
            block_starts,
            block_bits,
            frequencies,
            lengths,
            distinct,
            joined,
            term_starts,
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], where: str) -> Postings:
        """Take what `arrays` gave; raise `Damaged` where the arrays do not fit together."""
        try:
            found = cls(**{name: arrays[name] for name in ARRAYS})
        except KeyError as error:
            raise Damaged(f"the array {error} is missing", where=where) from None
        n_terms = len(found.frequencies)
        blocks = -(-found.frequencies.astype(np.int64) // BLOCK)
        sound = (
            all(
                len(starts) == n_terms + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
                for starts in (
                    found.word_starts.astype(np.int64),
                    found.block_starts.astype(np.int64),
                    found.term_starts.astype(np.int64),
                )
            )
            and found.block_bits.shape == (int(found.block_starts[-1]), 2)
            and bool((np.diff(found.block_starts.astype(np.int64)) == blocks).all())
            and int(found.word_starts[-1]) + 1 == len(found.words)
            and int(found.term_starts[-1]) == len(found.term_bytes)
            and len(found.lengths) == len(found.distinct)
        )
        if not sound:
            raise Damaged("the arrays of the postings do not fit together", where=where)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, as they are stored."""
        return {name: getattr(self, name) for name in ARRAYS}

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    @property
    def n_terms(self) -> int:
        """Number of different terms."""
        return len(self.frequencies)

    @property
    def size_bytes(self) -> int:
        """Memory of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    @cached_property
    def everything(self) -> Mask:
        """A mask that leaves no document out."""
        return np.ones(self.n_documents, np.bool_)

    def find(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each term, -1 for one that no document holds."""
        return np.array([self._find_one(term) for term in terms], np.int64)

    def term(self, number: int) -> str:
        """Return the term of a number."""
        begin, end = int(self.term_starts[number]), int(self.term_starts[number + 1])
        return self.term_bytes[begin:end].tobytes().decode("utf-8")

    def readable(self, number: int, mask: Mask) -> TermPostings:
        """Return the documents of a term that the mask has; none for the number -1."""
        if number < 0:
            return TermPostings(np.empty(0, np.int32), np.empty(0, np.int32))
        size = int(self.frequencies[number])
        documents, counts = np.empty(size, np.int32), np.empty(size, np.int32)
        n = decode_masked(
            self.words,
            int(self.word_starts[number]),
            self.block_bits[self.block_starts[number] : self.block_starts[number + 1]],
            size,
            mask,
            documents,
            counts,
        )
        if n < 0:
            raise Damaged("a term is said to be in a document that is not there", where="postings")
        # A copy where much was left out: the memory of what is masked is not kept with it.
        kept = documents[:n], counts[:n]
        return TermPostings(*kept) if 2 * n > size else TermPostings(kept[0].copy(), kept[1].copy())

    def _find_one(self, term: str) -> int:
        wanted = np.frombuffer(term.encode("utf-8"), np.uint8)
        return int(find_bytes(self.term_bytes, self.term_starts, wanted))


ARRAYS: Final = (
    "words",
    "word_starts",
    "block_starts",
    "block_bits",
    "frequencies",
    "lengths",
    "distinct",
    "term_bytes",
    "term_starts",
)


def term_major(counts: TermCounts) -> TermMajor:
    """Order counts by term; terms that no document holds are left out.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> flat = term_major(count_terms(["fever cough", "cough"]))
    >>> flat.terms, flat.starts.tolist(), flat.documents.tolist()
    ([b'cough', b'fever'], [0, 2, 3], [0, 1, 0])
    """
    encoded = [term.encode("utf-8") for term in counts.vocabulary]
    sizes = np.bincount(counts.terms, minlength=counts.n_terms)
    order = [
        place for place in sorted(range(len(encoded)), key=encoded.__getitem__) if sizes[place]
    ]
    numbers = np.full(counts.n_terms, -1, np.int64)
    numbers[order] = np.arange(len(order))
    starts = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    documents, values = np.empty(len(counts.terms), np.int32), np.empty(len(counts.terms), np.int32)
    invert(counts.starts, counts.terms, counts.counts, numbers, starts, documents, values)
    return TermMajor(starts, documents, values, [encoded[place] for place in order])


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
