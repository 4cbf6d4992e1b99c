"""The bits of a selector table: terms and their counts, lengths of documents, lists.

Hashes of terms are a Golomb-coded set: sorted, and the gaps in Rice's code. So are the documents of
a list. Counts are in Elias' gamma code, lengths in Rice's.

What is read may be hostile: the answer is -1 for what no writer writes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.index.best_k import keep_best, sort_best
from cloister.index.bit_packing import Words, write_bits
from cloister.search.bit_codes import (
    MAX_VALUE,
    gamma_bits,
    read_gamma,
    read_number,
    read_rice,
    rice_bits,
    rice_parameter,
    write_gamma,
    write_rice,
)
from cloister.search.term_keys import KEY_BITS

__all__ = [
    "length_code",
    "list_section_bits",
    "pack_counts",
    "pack_lengths",
    "pack_lists",
    "sort_lists",
    "unpack_counts",
    "unpack_lengths",
    "unpack_lists",
]

Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]

_MAX_COUNT: Final = 2**31 - 1


@kernel
def pack_counts(
    words: Words, hash_bits: int, one_each: bool, hashes: Ints, fine: Ints, counts: Ints
) -> int:
    """Write all terms' hashes and counts from the first bit on; return where they end.

    Parameters
    ----------
    one_each
        Whether each pod has one document, so that a term's pods are as many as its documents.
    hashes, fine
        Upper and lower part of the terms' keys, in the order of the keys. The lower one is written
        only for terms that the upper one does not tell apart.
    counts
        Of each term the documents, pods and occurrences.
    """
    position, last = 0, 0
    for term in range(len(hashes)):
        n_documents, n_pods, n_occurrences = counts[term]
        position = write_rice(words, position, hashes[term] - last, hash_bits)
        position = write_gamma(words, position, n_documents)
        if n_documents > 1 and not one_each:
            position = write_gamma(words, position, n_documents - n_pods + 1)
        position = write_gamma(words, position, n_occurrences - n_documents + 1)
        last = hashes[term]
    for term in range(len(hashes)):
        if _is_shared(hashes, term):
            write_bits(words, position, KEY_BITS - hash_bits, fine[term])
            position += KEY_BITS - hash_bits
    return position


@kernel
def _is_shared(hashes: Ints, term: int) -> bool:
    before = term > 0 and hashes[term - 1] == hashes[term]
    return before or (term + 1 < len(hashes) and hashes[term + 1] == hashes[term])


@kernel
def unpack_counts(
    words: Words,
    end: int,
    hash_bits: int,
    one_each: bool,
    hashes: Ints,
    fine: Ints,
    counts: Ints,
) -> int:
    """Read what `pack_counts` wrote; ``fine`` gets the rest of keys where it is there, else -1."""
    position, last = 0, 0
    n_terms = len(hashes)
    for term in range(n_terms):
        gap, position = read_rice(words, position, end, hash_bits)
        if position < 0:
            return -1
        last += gap
        if last >> hash_bits >= n_terms:
            return -1
        n_documents, position = read_gamma(words, position, end)
        if position < 0:
            return -1
        fewer = 1
        if n_documents > 1 and not one_each:
            fewer, position = read_gamma(words, position, end)
            if position < 0:
                return -1
        more, position = read_gamma(words, position, end)
        if position < 0 or fewer > n_documents:
            return -1
        hashes[term], fine[term] = last, -1
        counts[term, 0] = n_documents
        counts[term, 1] = n_documents - fewer + 1
        counts[term, 2] = n_documents + more - 1
    return _unpack_fine(words, position, end, KEY_BITS - hash_bits, hashes, fine)


@kernel
def _unpack_fine(
    words: Words, position: int, end: int, shift: int, hashes: Ints, fine: Ints
) -> int:
    """Read the rest of the keys of terms that hashes do not tell apart; it must not fall."""
    for term in range(len(hashes)):
        if _is_shared(hashes, term):
            if position + shift > end:
                return -1
            fine[term] = read_number(words, position, shift)
            position += shift
            same = term > 0 and hashes[term - 1] == hashes[term]
            if same and fine[term] < fine[term - 1]:
                return -1
    return position


@kernel
def length_code(lengths: Ints) -> tuple[int, int]:
    """Return the least length, and the parameter for what the others are above it.

    Examples
    --------
    >>> length_code(np.array([512, 600, 700]))
    (512, 6)
    """
    least, total = (MAX_VALUE if len(lengths) else 0), 0
    for length in lengths:
        least = min(least, length)
        total += length
    return least, rice_parameter(total - least * len(lengths), len(lengths))


@kernel
def pack_lengths(words: Words, position: int, lengths: Ints, least: int, parameter: int) -> int:
    """Write lengths as what they are above the least; return where they end."""
    for length in lengths:
        position = write_rice(words, position, length - least, parameter)
    return position


@kernel
def unpack_lengths(
    words: Words, position: int, end: int, least: int, parameter: int, lengths: Ints
) -> int:
    """Read what `pack_lengths` wrote."""
    for document in range(len(lengths)):
        above, position = read_rice(words, position, end, parameter)
        if position < 0:
            return -1
        lengths[document] = least + above
    return position


@kernel
def pack_lists(
    words: Words, position: int, starts: Ints, documents: Int32s, counts: Int32s, n_named: int
) -> int:
    """Write lists, each with its documents rising; return where they end."""
    for term in range(len(starts) - 1):
        parameter = rice_parameter(n_named, starts[term + 1] - starts[term])
        last = -1
        for place in range(starts[term], starts[term + 1]):
            position = write_rice(words, position, documents[place] - last - 1, parameter)
            position = write_gamma(words, position, counts[place])
            last = documents[place]
    return position


@kernel
def unpack_lists(
    words: Words,
    position: int,
    end: int,
    starts: Ints,
    documents: Int32s,
    counts: Int32s,
    n_named: int,
) -> int:
    """Read what `pack_lists` wrote."""
    for term in range(len(starts) - 1):
        parameter = rice_parameter(n_named, starts[term + 1] - starts[term])
        last = -1
        for place in range(starts[term], starts[term + 1]):
            gap, position = read_rice(words, position, end, parameter)
            last += gap + 1
            if position < 0 or last >= n_named:
                return -1
            count, position = read_gamma(words, position, end)
            if position < 0 or count > _MAX_COUNT:
                return -1
            documents[place], counts[place] = last, count
    return position


@kernel
def list_section_bits(
    listed: Ints, starts: Ints, documents: Int32s, counts: Int32s, lengths: Ints
) -> int:
    """Return how many bits some terms' lists take, with the lengths of documents in them.

    Parameters
    ----------
    listed
        The terms.
    starts, documents, counts
        Lists of all terms, each with its documents rising.
    lengths
        Of all documents.
    """
    number = np.zeros(len(lengths), np.int64)
    for term in listed:
        number[documents[starts[term] : starts[term + 1]]] = 1
    named = np.flatnonzero(number)
    number[named] = np.arange(len(named))
    n_named = len(named)
    least, parameter = length_code(lengths[named])
    bits = 0
    for document in named:
        bits += rice_bits(lengths[document] - least, parameter)
    for term in listed:
        parameter = rice_parameter(n_named, starts[term + 1] - starts[term])
        last = -1
        for place in range(starts[term], starts[term + 1]):
            gap = number[documents[place]] - last - 1
            bits += rice_bits(gap, parameter) + gamma_bits(counts[place])
            last = number[documents[place]]
    return bits


@kernel
def sort_lists(
    starts: Ints,
    documents: Int32s,
    counts: Int32s,
    lengths: Ints,
    at_zero: float,
    by_length: float,
) -> None:
    """Put each list into the order of weights, largest first; of equal ones the number decides."""
    count_of = np.empty(len(lengths), np.int32)
    for term in range(len(starts) - 1):
        begin, end = starts[term], starts[term + 1]
        found, weights = np.empty(end - begin, np.int32), np.empty(end - begin, np.float64)
        for place in range(begin, end):
            document, count = documents[place], counts[place]
            count_of[document] = count
            weight = count / (count + at_zero + by_length * lengths[document])
            keep_best(found, weights, place - begin, document, weight)
        sort_best(found, weights, end - begin)
        for place in range(begin, end):
            documents[place] = found[place - begin]
            counts[place] = count_of[found[place - begin]]
