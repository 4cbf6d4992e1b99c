"""Kernels that count the terms of many documents whose words are numbered.

Words come as `cloister.index.tokenising_kernel` leaves them: those of document ``d`` lie in
``tokens`` from place ``bounds[d] // 2``, and ``n_tokens`` says how many. Each document's words are
replaced by its terms, sorted (radix sort) and counted in their place; then the gaps are closed.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel

__all__ = ["copy_entries", "count_entries", "count_entries_in_parallel"]

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


@kernel
def _radix_sort(values: Int32s, spare: Int32s, begin: int, end: int, largest: int) -> None:
    """Sort some values, none negative, by their bytes from the lowest; both arrays are written."""
    places = np.empty(256, np.int64)
    for shift in range(0, 32, 8):
        if largest >> shift == 0:
            break
        places[:] = 0
        for i in range(begin, end):
            places[(values[i] >> shift) & 255] += 1
        place = begin
        for byte in range(256):
            place, places[byte] = place + places[byte], place
        for i in range(begin, end):
            byte = (values[i] >> shift) & 255
            spare[places[byte]] = values[i]
            places[byte] += 1
        for i in range(begin, end):
            values[i] = spare[i]


@kernel
def count_entries(
    bounds: Int64s,
    first: int,
    last: int,
    term_of_word: Int32s,
    tokens: Int32s,
    counts: Int32s,
    n_tokens: Int64s,
    n_entries: Int64s,
) -> None:
    """Put each document's terms, rising, in the place of its words, and write their counts.

    ``term_of_word`` is -1 for a word that is left out.
    """
    for document in range(first, last):
        begin = bounds[document] // 2
        end, largest = begin, 0
        for token in range(begin, begin + n_tokens[document]):
            term = term_of_word[tokens[token]]
            if term >= 0:
                tokens[end] = term
                end += 1
                largest = max(largest, term)
        _radix_sort(tokens, counts, begin, end, largest)
        entry = begin - 1
        for token in range(begin, end):
            if entry >= begin and tokens[token] == tokens[entry]:
                counts[entry] += 1
            else:
                entry += 1
                tokens[entry] = tokens[token]
                counts[entry] = 1
        n_entries[document] = entry + 1 - begin


@parallel_kernel
def count_entries_in_parallel(
    bounds: Int64s,
    parts: Int64s,
    term_of_word: Int32s,
    tokens: Int32s,
    counts: Int32s,
    n_tokens: Int64s,
    n_entries: Int64s,
) -> None:
    """Do the same for all documents; ``parts`` says where each thread's share begins."""
    for part in numba.prange(len(parts) - 1):
        begin, end = parts[part], parts[part + 1]
        count_entries(bounds, begin, end, term_of_word, tokens, counts, n_tokens, n_entries)


@kernel
def copy_entries(bounds: Int64s, starts: Int64s, sparse: Int32s, dense: Int32s) -> None:
    """Close the gaps between the documents' entries."""
    for document in range(len(bounds) - 1):
        begin = bounds[document] // 2
        for i in range(starts[document + 1] - starts[document]):
            dense[starts[document] + i] = sparse[begin + i]
