"""Compiled arithmetic of cross matches: n-grams of texts composed, compared and pooled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, summing_kernel
from cloister.rank.kernel_pooling_kernel import gaussian_kernels

__all__ = [
    "add_keys",
    "add_slopes",
    "compare_grams",
    "compose_backward",
    "compose_forward",
    "pool_keys",
]

Floats = NDArray[Any]  # of single or of double precision
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@summing_kernel
def compare_grams(
    rows: Integers,
    query_starts: Integers,
    query_words: Integers,
    query_known: Bools,
    query_vectors: Floats,
    document_starts: Integers,
    document_words: Integers,
    document_known: Bools,
    document_vectors: Floats,
    cosines: Floats,
    counted: Bools,
    shares: Bools,
    same: Bools,
) -> None:
    """Fill the last four, one cell after the other: rows, then query and document n-grams.

    Each of the rows is a query and a document. The n-grams of text t are those from ``starts[t]``
    to ``starts[t + 1]``.
    """
    n_query, n_document = query_words.shape[1], document_words.shape[1]
    cell = 0
    for row in range(len(rows)):
        query, document = rows[row]
        for i in range(query_starts[query], query_starts[query + 1]):
            for j in range(document_starts[document], document_starts[document + 1]):
                n_places_same = 0
                for a in range(n_query):
                    for b in range(n_document):
                        if query_words[i, a] == document_words[j, b]:
                            shares[cell] = True
                            n_places_same += a == b
                if n_query == n_document == n_places_same:
                    same[cell] = counted[cell] = True
                    cosines[cell] = 1
                elif query_known[i] and document_known[j]:
                    counted[cell] = True
                    cosine = query_vectors[i, 0] * document_vectors[j, 0]
                    for place in range(1, query_vectors.shape[1]):
                        cosine += query_vectors[i, place] * document_vectors[j, place]
                    cosines[cell] = cosine
                cell += 1


@kernel
def pool_keys(
    sizes: Integers,
    cosines: Floats,
    counted: Bools,
    masked: Bools,
    means: Doubles,
    widths: Doubles,
) -> Doubles:
    """Return the kernel values of each key: each query n-gram of each row.

    ``sizes`` are the cells of each key.
    """
    pooled = np.zeros((len(sizes), len(means)))
    first = 0
    for key in range(len(sizes)):
        last = first + sizes[key]
        values = gaussian_kernels(
            cosines[first:last], counted[first:last], masked[first:last], means, widths
        )
        for cell in range(last - first):
            for column in range(len(means)):
                pooled[key, column] += values[cell, column]
        first = last
    return pooled


@kernel
def add_keys(features: Doubles, key_counts: Integers, sums: Floats) -> None:
    """Add the features of the keys of each row to its sums."""
    key = 0
    for row in range(len(key_counts)):
        for _ in range(key_counts[row]):
            for column in range(features.shape[1]):
                sums[row, column] += features[key, column]
            key += 1


@kernel
def add_slopes(
    slopes: Doubles,
    rows: Integers,
    query_starts: Integers,
    query_vectors: Floats,
    document_starts: Integers,
    document_vectors: Floats,
    cosines: Floats,
    counted: Bools,
    masked: Bools,
    same: Bools,
    means: Doubles,
    widths: Doubles,
    query_gradients: Floats,
    document_gradients: Floats,
) -> None:
    """Add to the last two the gradients of a loss whose slope in each kernel value is given.

    ``slopes`` has a row for each key, and 0 for a kernel that is no feature.
    """
    size = query_vectors.shape[1]
    key, cell = 0, 0
    for row in range(len(rows)):
        query, document = rows[row]
        begin, end = document_starts[document], document_starts[document + 1]
        for i in range(query_starts[query], query_starts[query + 1]):
            own = slice(cell, cell + end - begin)
            values = gaussian_kernels(cosines[own], counted[own], masked[own], means, widths)
            for j in range(begin, end):
                slope = 0.0
                for column in range(len(means)):
                    away = (means[column] - cosines[cell]) / (widths[column] * widths[column])
                    slope += slopes[key, column] * values[j - begin, column] * away
                if slope != 0 and not same[cell]:  # an n-gram is like itself whatever its vector
                    step = query_vectors.dtype.type(slope)
                    for place in range(size):
                        query_gradients[i, place] += step * document_vectors[j, place]
                        document_gradients[j, place] += step * query_vectors[i, place]
                cell += 1
            key += 1


@summing_kernel
def compose_forward(
    projected: Floats, shifts: Floats, words: Integers, composed: Floats, lengths: Floats
) -> None:
    """Fill in unit vectors: relu of the shifts and of the projected words of each n-gram.

    ``projected[w, p]`` is word w as the filters of place p have it. ``lengths`` are those before
    the vectors were brought to the length 1.
    """
    size = len(shifts)
    for gram in range(len(words)):
        vector = composed[gram]
        vector[:] = shifts
        for place in range(words.shape[1]):
            part = projected[words[gram, place], place]
            for i in range(size):
                vector[i] += part[i]
        total = vector[0] * 0
        for i in range(size):
            vector[i] = max(vector[i], vector[0] * 0)
            total += vector[i] * vector[i]
        lengths[gram] = np.sqrt(total)
        if lengths[gram] > 0:
            for i in range(size):
                vector[i] /= lengths[gram]


@summing_kernel
def compose_backward(
    gradients: Floats,
    composed: Floats,
    lengths: Floats,
    words: Integers,
    projected_gradients: Floats,
    shift_gradients: Floats,
) -> None:
    """Add to the last two what the gradients of unit vectors come to; see `compose_forward`."""
    size = composed.shape[1]
    for gram in range(len(words)):
        if lengths[gram] <= 0:
            continue
        vector, gradient = composed[gram], gradients[gram]
        along = vector[0] * gradient[0]
        for i in range(1, size):
            along += vector[i] * gradient[i]
        for i in range(size):
            if vector[i] > 0:
                gradient[i] = (gradient[i] - along * vector[i]) / lengths[gram]
            else:
                gradient[i] = 0
            shift_gradients[i] += gradient[i]
        for place in range(words.shape[1]):
            part = projected_gradients[words[gram, place], place]
            for i in range(size):
                part[i] += gradient[i]
