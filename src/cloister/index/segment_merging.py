"""Merges segments: one vocabulary, documents numbered anew, nothing of what is dead.

What comes out is built from the live documents alone, as if the others had never been: neither
their entries, nor their ids, nor terms that only they held are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Damaged
from cloister.core.kernel import parallel_kernel
from cloister.index.postings import Postings, TermMajor
from cloister.index.postings_kernel import decode_masked

__all__ = ["LivePostings", "live_term_major", "merge_postings"]

Mask = NDArray[np.bool_]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class LivePostings(NamedTuple):
    """The postings of a segment, and which of its documents are still live."""

    postings: Postings
    live: Mask


def merge_postings(parts: Sequence[LivePostings]) -> Postings:
    """Return the postings of all live documents, numbered in the order of the parts.

    Examples
    --------
    >>> from cloister.index.term_counts import count_terms
    >>> one = Postings.build(count_terms(["cough rash", "cough"]))
    >>> two = Postings.build(count_terms(["fever cough cough"]))
    >>> merged = merge_postings([
    ...     LivePostings(one, np.array([False, True])), LivePostings(two, np.array([True]))])
    >>> [merged.term(number) for number in range(merged.n_terms)]
    ['cough', 'fever']
    >>> merged.readable(0, merged.everything)
    TermPostings(documents=array([0, 1], dtype=int32), counts=array([1, 2], dtype=int32))
    """
    flat = live_term_major(parts, _counted_through(parts))
    lengths = [part.postings.lengths[part.live] for part in parts]
    return Postings.pack(flat, np.concatenate([np.empty(0, np.uint32), *lengths]))


def live_term_major(parts: Sequence[LivePostings], new_numbers: Sequence[Int32s]) -> TermMajor:
    """Decode the live documents of all parts, term by term; terms that none holds are left out.

    Parameters
    ----------
    parts
        Segments.
    new_numbers
        The number that each document of a part is to have; rising from part to part.
    """
    vocabulary, numbers = _union([part.postings for part in parts])
    n_kept = [_n_live(part) for part in parts]
    sizes = np.zeros(len(vocabulary), np.int64)
    for number, n in zip(numbers, n_kept, strict=True):
        sizes[number] += n
    starts = np.concatenate([[0], np.cumsum(sizes)])
    documents, counts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    places = starts[:-1].copy()
    for part, new, number, n in zip(parts, new_numbers, numbers, n_kept, strict=True):
        _decode_live(*_packed(part), n, new, places[number], documents, counts)
        places[number] += n
    held = np.flatnonzero(sizes)
    terms = [vocabulary[place] for place in held.tolist()]
    return TermMajor(np.append(starts[held], starts[-1]), documents, counts, terms)


def _counted_through(parts: Sequence[LivePostings]) -> list[Int32s]:
    """Return numbers for the live documents of all parts, from 0 on."""
    new, first = [], 0
    for part in parts:
        new.append((first + np.cumsum(part.live) - 1).astype(np.int32))
        first += int(part.live.sum())
    return new


def _union(parts: Sequence[Postings]) -> tuple[list[bytes], list[Int64s]]:
    """Return all terms in rising order, and which of them each part's terms are."""
    terms = [_terms(part) for part in parts]
    vocabulary: list[bytes] = sorted(set[bytes]().union(*terms))
    numbers = {term: number for number, term in enumerate(vocabulary)}
    return vocabulary, [np.array([numbers[term] for term in part], np.int64) for part in terms]


def _terms(part: Postings) -> list[bytes]:
    joined, starts = part.term_bytes.tobytes(), part.term_starts.tolist()
    return [joined[begin:end] for begin, end in pairwise(starts)]


def _n_live(part: LivePostings) -> Int64s:
    """Return in how many live documents each term of a segment is."""
    if part.live.all():
        return part.postings.frequencies.astype(np.int64)
    n = _count_live(*_packed(part))
    if (n < 0).any():
        raise Damaged("a term is said to be in a document that is not there", where="postings")
    return n


def _packed(
    part: LivePostings,
) -> tuple[
    NDArray[np.uint64],
    NDArray[np.uint32],
    NDArray[np.uint32],
    NDArray[np.uint8],
    NDArray[np.uint32],
    Mask,
]:
    found = part.postings
    return (
        found.words,
        found.word_starts,
        found.block_starts,
        found.block_bits,
        found.frequencies,
        part.live,
    )


@parallel_kernel
def _count_live(
    words: NDArray[np.uint64],
    word_starts: NDArray[np.uint32],
    block_starts: NDArray[np.uint32],
    block_bits: NDArray[np.uint8],
    frequencies: NDArray[np.uint32],
    live: Mask,
) -> Int64s:
    """Return how many live documents each term has; -1 where one is named that is not there."""
    n = np.empty(len(frequencies), np.int64)
    for term in numba.prange(len(frequencies)):
        size = int(frequencies[term])
        documents, counts = np.empty(size, np.int32), np.empty(size, np.int32)
        bits = block_bits[block_starts[term] : block_starts[term + 1]]
        n[term] = decode_masked(words, int(word_starts[term]), bits, size, live, documents, counts)
    return n


@parallel_kernel
def _decode_live(
    words: NDArray[np.uint64],
    word_starts: NDArray[np.uint32],
    block_starts: NDArray[np.uint32],
    block_bits: NDArray[np.uint8],
    frequencies: NDArray[np.uint32],
    live: Mask,
    n_kept: Int64s,
    new_numbers: Int32s,
    places: Int64s,
    documents: Int32s,
    counts: Int32s,
) -> None:
    """Write each term's live documents, numbered anew, and their counts, from its place on."""
    for term in numba.prange(len(frequencies)):
        begin, end = places[term], places[term] + n_kept[term]
        bits = block_bits[block_starts[term] : block_starts[term + 1]]
        size = int(frequencies[term])
        kept = documents[begin:end]
        decode_masked(words, int(word_starts[term]), bits, size, live, kept, counts[begin:end])
        for i in range(len(kept)):
            kept[i] = new_numbers[kept[i]]
