"""Kernels of the postings: invert, pack, decode what a mask allows, find a term."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel
from cloister.index.bit_packing import bits_for, read_bits, write_bits

__all__ = ["BLOCK", "decode_masked", "find_bytes", "invert", "pack_terms", "packed_sizes"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

BLOCK: Final = 128  # documents whose gaps and counts have the same number of bits


@kernel
def invert(
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    numbers: Int64s,
    term_starts: Int64s,
    documents: Int32s,
    values: Int32s,
) -> None:
    """Write each document's entries to their terms; the documents of a term come out rising."""
    places = term_starts[:-1].copy()
    for document in range(len(starts) - 1):
        for entry in range(starts[document], starts[document + 1]):
            number = numbers[terms[entry]]
            place = places[number]
            documents[place] = document
            values[place] = counts[entry]
            places[number] = place + 1


@parallel_kernel
def packed_sizes(
    starts: Int64s,
    documents: Int32s,
    counts: Int32s,
    block_starts: NDArray[np.uint32],
    block_bits: NDArray[np.uint8],
) -> Int64s:
    """Write how many bits each block's numbers need; return how many words each term needs."""
    n_words = np.zeros(len(starts) - 1, np.int64)
    for term in numba.prange(len(starts) - 1):
        last, n_bits = -1, 0
        for block in range(block_starts[term], block_starts[term + 1]):
            begin = starts[term] + (block - block_starts[term]) * BLOCK
            end = min(begin + BLOCK, starts[term + 1])
            largest_gap = largest_count = 0
            for place in range(begin, end):
                largest_gap = max(largest_gap, documents[place] - last - 1)
                largest_count = max(largest_count, counts[place] - 1)
                last = documents[place]
            block_bits[block, 0] = bits_for(largest_gap)
            block_bits[block, 1] = bits_for(largest_count)
            n_bits += (end - begin) * (int(block_bits[block, 0]) + int(block_bits[block, 1]))
        n_words[term] = (n_bits + 63) >> 6
    return n_words


@parallel_kernel
def pack_terms(
    starts: Int64s,
    documents: Int32s,
    counts: Int32s,
    block_starts: NDArray[np.uint32],
    block_bits: NDArray[np.uint8],
    word_starts: NDArray[np.uint32],
    words: NDArray[np.uint64],
) -> None:
    """Write all blocks; each term has words of its own."""
    for term in numba.prange(len(starts) - 1):
        position = int(word_starts[term]) << 6
        last = -1
        for block in range(block_starts[term], block_starts[term + 1]):
            begin = starts[term] + (block - block_starts[term]) * BLOCK
            end = min(begin + BLOCK, starts[term + 1])
            gap_bits, count_bits = int(block_bits[block, 0]), int(block_bits[block, 1])
            for place in range(begin, end):
                if gap_bits:
                    write_bits(words, position, gap_bits, documents[place] - last - 1)
                position += gap_bits
                last = documents[place]
            for place in range(begin, end):
                if count_bits:
                    write_bits(words, position, count_bits, counts[place] - 1)
                position += count_bits


@kernel
def decode_masked(
    words: NDArray[np.uint64],
    first_word: int,
    block_bits: NDArray[np.uint8],
    n_documents: int,
    mask: NDArray[np.bool_],
    documents: Int32s,
    counts: Int32s,
) -> int:
    """Write the documents of one term that the mask has, and their counts; return how many.

    The answer is -1 where the words name a document that is not there: they are damaged.
    """
    position = np.uint64(first_word) << np.uint64(6)
    one = np.uint64(1)
    ids, kept = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    last, n, left = -1, 0, n_documents
    for block in range(len(block_bits)):
        size = min(left, BLOCK)
        left -= size
        gap_bits, count_bits = np.uint64(block_bits[block, 0]), np.uint64(block_bits[block, 1])
        gap_mask, count_mask = (one << gap_bits) - one, (one << count_bits) - one
        for i in range(size):
            last += int(read_bits(words, position, gap_mask)) + 1
            position += gap_bits
            ids[i] = last
        if last >= len(mask):
            return -1
        n_kept = 0
        for i in range(size):  # no branch: whether a document may be read is as good as random
            kept[n_kept] = i
            n_kept += mask[ids[i]]
        for j in range(n_kept):
            i = kept[j]
            documents[n + j] = ids[i]
            at = position + np.uint64(i) * count_bits
            counts[n + j] = int(read_bits(words, at, count_mask)) + 1
        n += n_kept
        position += np.uint64(size) * count_bits
    return n


@kernel
def find_bytes(
    term_bytes: NDArray[np.uint8], term_starts: NDArray[np.uint32], wanted: NDArray[np.uint8]
) -> int:
    """Return the place of a term among the sorted ones, or -1."""
    low, high = 0, len(term_starts) - 1
    while low < high:
        middle = (low + high) // 2
        begin, end = int(term_starts[middle]), int(term_starts[middle + 1])
        order = 0
        for i in range(min(end - begin, len(wanted))):
            if term_bytes[begin + i] != wanted[i]:
                order = -1 if term_bytes[begin + i] < wanted[i] else 1
                break
        if order == 0:
            order = end - begin - len(wanted)
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return -1
