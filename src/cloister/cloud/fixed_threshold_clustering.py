"""Term closures by one similarity threshold for all.

The slides say of a closure that any two of its terms have at least this similarity; their condition
on the map (what holds for a term holds for the terms similar to it) asks for connected components.
Both are here. Neither bounds a closure's size from below, and components have no bound above: at
low thresholds one of them takes nearly the whole vocabulary.

The search is exact: all similarities are computed, in tiles, in single precision. The same vectors
give the same closures on one machine; a pair whose similarity equals the threshold to the last bit
may fall otherwise on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.cloud.term_closures import TermClosures, hashed_groups, unit_vectors
from cloister.cloud.term_closures_kernel import greedy_groups, root_of, unite_similar
from cloister.core.settings import Settings

__all__ = ["FixedThreshold", "fixed_closures"]

TILE: Final = 1024  # terms a side: a tile of 4 MB
SEEDS: Final = 128  # rows of similarities with all free terms that are held at a time


class FixedThreshold(Settings):
    """Closures by one threshold.

    Parameters
    ----------
    threshold
        Cosine similarity; the slides try 0.3 and 0.7.
    linkage
        ``complete``: any two terms of a closure are similar enough. Terms open closures in their
        order in the vocabulary, and each takes what fits, nearest first. ``single``: connected
        components.
    min_size
        Terms without a vector make closures of this size. The others' sizes are as they come.
    """

    threshold: float = Field(default=0.7, gt=-1, le=1)
    linkage: Literal["complete", "single"] = "complete"
    min_size: int = Field(default=5, ge=1)


def fixed_closures(
    terms: Sequence[str],
    vectors: NDArray[Any],
    settings: FixedThreshold | None = None,
    *,
    salt: bytes = b"",
) -> TermClosures:
    """Put terms into closures by a fixed threshold.

    Parameters
    ----------
    terms
        The vocabulary.
    vectors
        A row for each term, of zeros where a term has none.
    salt
        For terms without a vector, see `hashed_groups`.

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> fixed_closures(["flu", "influenza", "bone"], vectors).labels.tolist()
    [0, 0, 1]
    """
    settings = settings or FixedThreshold()
    units = unit_vectors(terms, vectors)
    known: NDArray[np.bool_] = np.asarray(units.any(axis=1))
    group = _complete if settings.linkage == "complete" else _components
    roots = np.empty(len(terms), np.int64)
    roots[known] = np.flatnonzero(known)[group(units[known], float(np.float32(settings.threshold)))]
    unknown = [term for term, has in zip(terms, known.tolist(), strict=True) if not has]
    roots[~known] = len(terms) + hashed_groups(unknown, settings.min_size, salt=salt)
    return TermClosures.numbered(roots)


def _components(units: NDArray[np.float32], threshold: float) -> NDArray[np.int64]:
    """Return the first term of each term's connected component."""
    n = len(units)
    parent = np.arange(n, dtype=np.int32)
    numbers = np.arange(n, dtype=np.int32)
    for begin in range(0, n, TILE):
        for other in range(begin, n, TILE):
            rows, columns = numbers[begin : begin + TILE], numbers[other : other + TILE]
            if _united(parent, rows, columns):
                continue
            tile = units[begin : begin + TILE] @ units[other : other + TILE].T
            unite_similar(tile, rows, columns, threshold, parent)
    return np.array([root_of(parent, i) for i in range(n)], np.int64)


def _united(parent: NDArray[np.int32], rows: NDArray[np.int32], columns: NDArray[np.int32]) -> bool:
    """Say whether all these terms are in one component, where no pair can change anything."""
    first = root_of(parent, int(rows[0]))
    return all(
        bool((parent[part] == first).all()) or all(root_of(parent, int(i)) == first for i in part)
        for part in (rows, columns)
    )


def _complete(units: NDArray[np.float32], threshold: float) -> NDArray[np.int64]:
    """Return the seed of each term's group, in which all pairs are similar enough."""
    groups = np.full(len(units), -1, np.int32)
    free = np.arange(len(units), dtype=np.int32)
    while len(free):
        seeds = free[:SEEDS]
        tile = units[seeds] @ units[free].T
        greedy_groups(tile, seeds, free, units, threshold, groups)
        free = free[groups[free] < 0]
    return groups.astype(np.int64)
