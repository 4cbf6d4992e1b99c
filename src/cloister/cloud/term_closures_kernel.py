"""Kernels of term closures: nearest neighbours from tiles of similarities, merging, greedy groups.

Similarities are made a tile at a time by a matrix product in single precision; these kernels read
the tile while it is in the cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel

__all__ = ["greedy_groups", "keep_nearest", "merge_small", "root_of", "unite_similar"]

Similarities = NDArray[np.float32]
Numbers = NDArray[np.int32]


@kernel
def root_of(parent: Numbers, term: int) -> int:
    """Return the term that stands for a term's group, and shorten the way to it."""
    while parent[term] != term:
        parent[term] = parent[parent[term]]
        term = parent[term]
    return term


@kernel
def _offer(
    similarities: Similarities, neighbours: Numbers, term: int, other: int, found: float
) -> None:
    """Put a neighbour into a term's falling list; the one that was there first wins a tie."""
    place = similarities.shape[1] - 1
    while place > 0 and similarities[term, place - 1] < found:
        similarities[term, place] = similarities[term, place - 1]
        neighbours[term, place] = neighbours[term, place - 1]
        place -= 1
    similarities[term, place] = found
    neighbours[term, place] = other


@kernel
def keep_nearest(
    tile: Similarities,
    rows: Numbers,
    columns: Numbers,
    groups: Numbers,
    least: float,
    both_ways: bool,
    similarities: Similarities,
    neighbours: Numbers,
) -> None:
    """Keep each row's most similar columns of other groups; with both ways, also the reverse.

    Pairs within a tile on the diagonal are taken once, the row before the column.
    """
    last = similarities.shape[1] - 1
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(columns)):
            found = tile[i, j]
            if found < least:
                continue
            column = columns[j]
            if groups[row] == groups[column] or (both_ways and column <= row):
                continue
            if found > similarities[row, last]:
                _offer(similarities, neighbours, row, column, found)
            if both_ways and found > similarities[column, last]:
                _offer(similarities, neighbours, column, row, found)


@kernel
def merge_small(
    firsts: Numbers, seconds: Numbers, parent: Numbers, sizes: Numbers, min_size: int
) -> int:
    """Unite pairs in their order where both groups are still smaller than asked for."""
    n_merged = 0
    for edge in range(len(firsts)):
        a, b = root_of(parent, firsts[edge]), root_of(parent, seconds[edge])
        if a != b and sizes[a] < min_size and sizes[b] < min_size:
            low, high = min(a, b), max(a, b)
            parent[high] = low
            sizes[low] += sizes[high]
            n_merged += 1
    return n_merged


@kernel
def unite_similar(
    tile: Similarities, rows: Numbers, columns: Numbers, threshold: float, parent: Numbers
) -> None:
    """Unite all pairs of a tile that are similar enough."""
    for i in range(len(rows)):
        own = root_of(parent, rows[i])
        for j in range(len(columns)):
            if tile[i, j] >= threshold and parent[columns[j]] != own:
                other = root_of(parent, columns[j])
                if other != own:
                    low, high = min(own, other), max(own, other)
                    parent[high] = low
                    own = low


@kernel
def greedy_groups(
    tile: Similarities,
    seeds: Numbers,
    columns: Numbers,
    vectors: Similarities,
    threshold: float,
    groups: Numbers,
) -> None:
    """Let each seed without a group take free columns, nearest first, that fit all it has."""
    for i in range(len(seeds)):
        seed = seeds[i]
        if groups[seed] >= 0:
            continue
        groups[seed] = seed
        near = np.flatnonzero(tile[i] >= threshold)
        near = near[np.argsort(-tile[i][near], kind="mergesort")]
        taken = np.empty(len(near), np.int32)
        n_taken = 0
        for j in near:
            term = columns[j]
            if groups[term] >= 0:
                continue
            fits = True
            for member in taken[:n_taken]:
                if np.dot(vectors[term], vectors[member]) < threshold:
                    fits = False
                    break
            if fits:
                groups[term] = seed
                taken[n_taken] = term
                n_taken += 1
