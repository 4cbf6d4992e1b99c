"""Compiled arithmetic of many keys: entries of some documents, and Gaussians summed over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel, summing_kernel
from cloister.rank.kernel_pooling_kernel import FARTHEST

__all__ = ["entries_of", "pool_keys", "row_products"]

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Numbers = NDArray[np.int32]


@kernel
def entries_of(
    starts: Integers, places: Numbers, counts: Numbers, documents: Integers, n_grams: int
) -> tuple[Integers, Integers, Numbers, Numbers]:
    """Return the different n-grams of some documents, and the documents' entries over these."""
    own_starts = np.zeros(len(documents) + 1, np.int64)
    for row in range(len(documents)):
        n = starts[documents[row] + 1] - starts[documents[row]]
        own_starts[row + 1] = own_starts[row] + n
    slots = np.full(n_grams, -1, np.int32)
    own_places = np.empty(own_starts[-1], np.int32)
    own_counts = np.empty(own_starts[-1], np.int32)
    rows = np.empty(own_starts[-1], np.int64)
    n_rows = 0
    for row in range(len(documents)):
        first = starts[documents[row]]
        for place in range(own_starts[row], own_starts[row + 1]):
            entry = first + place - own_starts[row]
            gram = places[entry]
            if slots[gram] < 0:
                slots[gram] = n_rows
                rows[n_rows] = gram
                n_rows += 1
            own_places[place] = slots[gram]
            own_counts[place] = counts[entry]
    return rows[:n_rows].copy(), own_starts, own_places, own_counts


@summing_kernel
def row_products(vectors: Floats, table: Floats, rows: Integers) -> Floats:
    """Return the scalar product of each vector with some rows of a table: [vector, row].

    For a few vectors and many rows: nothing is copied. A product does not depend on which others
    are asked for, as that of a matrix product may in its last bits.
    """
    products = np.empty((len(vectors), len(rows)), np.float32)
    for i in range(len(rows)):
        row = table[rows[i]]
        for v in range(len(vectors)):
            vector = vectors[v]
            total = np.float32(0)
            for column in range(len(row)):
                total += vector[column] * row[column]
            products[v, i] = total
    return products


@inline_kernel
def _shares_a_word(own: Any, words: Any) -> bool:
    shares = False
    for word in words:
        if word == own[0] or word == own[1]:
            shares = True
    return shares


@inline_kernel
def _is_same(own: Any, words: Any) -> bool:
    second = words[1] if len(words) == 2 else np.int32(-1)
    return bool(words[0] == own[0] and second == own[1])


@kernel
def pool_keys(
    cosines: Floats,
    key_known: NDArray[np.bool_],
    gram_known: NDArray[np.bool_],
    own: Integers,
    words: Numbers,
    entries: tuple[Integers, Numbers, Numbers],
    mask_exact: bool,
    means: NDArray[np.float64],
    widths: NDArray[np.float64],
) -> Floats:
    """Add up the Gaussians of a key and each n-gram over documents: [key, document, kernel].

    Sums run in double precision. From one soft kernel to the next the quotient falls by the same
    factor each time, see `gaussian_kernels`. A key's missing second word is -1, a word that no
    n-gram has another negative number. Nothing is checked.
    """
    starts, places, counts = entries
    n_soft = len(means) - 1
    n_documents = len(starts) - 1
    spacing = (means[1] - means[0]) / widths[0]
    fall = math.exp(-spacing * spacing)
    pooled = np.zeros((len(cosines), n_documents, n_soft + 1), np.float32)
    values = np.empty((cosines.shape[1], n_soft + 1))
    sums = np.empty(n_soft + 1)
    for key in range(len(cosines)):
        for gram in range(cosines.shape[1]):
            row = values[gram]
            row[:] = 0.0
            same = _is_same(own[key], words[gram])
            if not (same or (key_known[key] and gram_known[gram])):
                continue
            cosine = 1.0 if same else np.float64(cosines[key, gram])
            off = (cosine - means[n_soft]) / widths[n_soft]
            if abs(off) < FARTHEST:
                row[n_soft] = math.exp(-0.5 * off * off)
            if mask_exact and _shares_a_word(own[key], words[gram]):
                continue
            off = (cosine - means[0]) / widths[0]
            value = math.exp(-0.5 * off * off)
            quotient = math.exp(spacing * off - 0.5 * spacing * spacing)
            for column in range(n_soft):
                row[column] = value
                value *= quotient
                quotient *= fall
        for document in range(n_documents):
            sums[:] = 0.0
            for entry in range(starts[document], starts[document + 1]):
                row = values[places[entry]]
                for column in range(n_soft + 1):
                    sums[column] += counts[entry] * row[column]
            for column in range(n_soft + 1):
                pooled[key, document, column] = sums[column]
    return pooled
