"""Term closures by a series of thresholds and a size p that closures shall reach.

Every term begins alone. The thresholds are gone through from the highest to the lowest; at each,
pairs of terms at least so similar are taken in falling similarity, and their closures united if
both are still smaller than p. So a closure ends with p to 2p - 2 terms, made of the most similar
ones that were free. After a threshold no two closures smaller than p have a pair of terms that
similar: that is exact, all similarities being computed, in tiles, in single precision. (Within a
threshold the order of pairs is falling among each term's 16 nearest free terms at a time.)

What is still smaller than p after the lowest threshold is united further with no threshold at all
(``remainder="merge"``), the last one with the closure of its nearest term; or it stays
(``"keep"``), and `TermClosures.report` says how many terms that are.

The same vectors give the same closures on one machine. 100,000 terms of 100 numbers each take 28 s
of one core (p = 5, thresholds 0.3 to 0.9; made-up vectors in groups of uneven size).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from cloister.cloud.term_closures import TermClosures, hashed_groups, unit_vectors
from cloister.cloud.term_closures_kernel import keep_nearest, merge_small
from cloister.core.settings import Settings

__all__ = ["AdaptiveThresholds", "adaptive_closures"]

TILE: Final = 1024  # terms a side: a tile of 4 MB
N_NEAREST: Final = 16  # neighbours that are kept of a term; searched again when used up
NO_THRESHOLD: Final = -2.0  # below every cosine


class AdaptiveThresholds(Settings):
    """Closures by falling thresholds.

    Parameters
    ----------
    thresholds
        Rising, as the slides write them: the last is used first. The first is what their tables
        name, 0.3 or 0.7.
    min_size
        p: the size from which a closure is left alone.
    remainder
        What becomes of closures that are smaller at the end.

    Examples
    --------
    >>> AdaptiveThresholds(thresholds=(0.7, 0.3))
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: thresholds: thresholds must rise ...
    """

    thresholds: tuple[float, ...] = Field(default=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), min_length=1)
    min_size: int = Field(default=5, ge=1)
    remainder: Literal["merge", "keep"] = "merge"

    @field_validator("thresholds")
    @classmethod
    def _rise(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if any(a >= b for a, b in itertools.pairwise(given)):
            raise ValueError("thresholds must rise")
        if not (given[0] > -1 and given[-1] <= 1):
            raise ValueError("thresholds lie above -1 and up to 1")
        return given


def adaptive_closures(
    terms: Sequence[str],
    vectors: NDArray[Any],
    settings: AdaptiveThresholds | None = None,
    *,
    salt: bytes = b"",
) -> TermClosures:
    """Put terms into closures that reach a size, the most similar first.

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
    >>> angles = np.array([0.0, 0.1, 1.5, 1.6, 3.0])
    >>> vectors = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> adaptive_closures(list("abcde"), vectors, AdaptiveThresholds(min_size=2)).labels.tolist()
    [0, 0, 1, 1, 1]
    """
    settings = settings or AdaptiveThresholds()
    units = unit_vectors(terms, vectors)
    known: NDArray[np.bool_] = np.asarray(units.any(axis=1))
    growth = _Growth(units[known], settings.min_size, settings.thresholds[0])
    for threshold in reversed(settings.thresholds):
        growth.expand(threshold)
    merging = settings.remainder == "merge"
    if merging:
        growth.expand(NO_THRESHOLD)
        growth.absorb_last()
    roots = np.empty(len(terms), np.int64)
    roots[known] = growth.roots()
    unknown = [term for term, has in zip(terms, known.tolist(), strict=True) if not has]
    if merging and 0 < len(unknown) < settings.min_size and known.any():
        found, sizes = np.unique(roots[known], return_counts=True)
        roots[~known] = found[sizes.argmin()]
    else:
        roots[~known] = len(terms) + hashed_groups(unknown, settings.min_size, salt=salt)
    return TermClosures.numbered(roots)


class _Growth:
    """Closures of terms with vectors while they grow, and each term's nearest free terms."""

    def __init__(self, units: NDArray[np.float32], min_size: int, least: float) -> None:
        n = len(units)
        self._units, self._min_size = units, min_size
        self._parent = np.arange(n, dtype=np.int32)
        self._sizes = np.ones(n, np.int32)
        self._similarities = np.full((n, N_NEAREST), NO_THRESHOLD - 1, np.float32)
        self._neighbours = np.full((n, N_NEAREST), -1, np.int32)
        self._missing = np.full(n, np.inf, np.float32)  # neighbours up to here may be missing
        self._least = least
        if min_size > 1:
            self._search_all()

    def expand(self, threshold: float) -> None:
        """Unite small closures until none has a term so similar to one of another."""
        self._least = min(self._least, threshold)
        while True:
            groups = self.roots()
            free = (self._sizes[groups] < self._min_size) & (self._min_size > 1)
            edges = self._edges(groups, free, threshold)
            used_up = free & ~edges.any(axis=1) & (self._missing >= np.float32(threshold))
            if used_up.any():
                self._search(np.flatnonzero(used_up), np.flatnonzero(free), groups)
                edges = self._edges(groups, free, threshold)
            if not edges.any():
                return
            self._merge(edges)

    def absorb_last(self) -> None:
        """Unite the one closure that is still small with that of its nearest term."""
        groups = self.roots()
        small = self._sizes[groups] < self._min_size
        if small.any() and not small.all():
            others = np.flatnonzero(~small)
            nearest = (self._units[small] @ self._units[others].T).max(axis=0).argmax()
            root = groups[others[nearest]]
            self._parent[groups[small]] = root
            self._sizes[root] += int(small.sum())

    def roots(self) -> NDArray[np.int32]:
        """Return the term that stands for each term's closure."""
        roots = self._parent
        while not np.array_equal(roots, roots[roots]):
            roots = roots[roots]
        self._parent = roots
        return roots

    def _edges(
        self, groups: NDArray[np.int32], free: NDArray[np.bool_], threshold: float
    ) -> NDArray[np.bool_]:
        """Say which entries of the lists join two small closures and are similar enough."""
        listed = self._similarities >= np.float32(threshold)
        listed &= free[:, None] & free[self._neighbours]
        listed &= groups[:, None] != groups[self._neighbours]
        return listed

    def _merge(self, edges: NDArray[np.bool_]) -> None:
        firsts = np.nonzero(edges)[0].astype(np.int32)
        seconds = self._neighbours[edges]
        low, high = np.minimum(firsts, seconds), np.maximum(firsts, seconds)
        order = np.lexsort((high, low, -self._similarities[edges]))
        merge_small(low[order], high[order], self._parent, self._sizes, self._min_size)

    def _search_all(self) -> None:
        numbers = np.arange(len(self._units), dtype=np.int32)
        for begin in range(0, len(numbers), TILE):
            for other in range(begin, len(numbers), TILE):
                rows, columns = numbers[begin : begin + TILE], numbers[other : other + TILE]
                self._look(rows, columns, numbers, both_ways=True)
        self._note(numbers)

    def _search(
        self, wanted: NDArray[np.int64], free: NDArray[np.int64], groups: NDArray[np.int32]
    ) -> None:
        """Find the nearest free terms of other closures anew, for some terms."""
        self._similarities[wanted] = NO_THRESHOLD - 1
        self._neighbours[wanted] = -1
        rows, columns = wanted.astype(np.int32), free.astype(np.int32)
        for begin in range(0, len(rows), TILE):
            for other in range(0, len(columns), TILE):
                parts = rows[begin : begin + TILE], columns[other : other + TILE]
                self._look(*parts, groups, both_ways=False)
        self._note(rows)

    def _look(
        self,
        rows: NDArray[np.int32],
        columns: NDArray[np.int32],
        groups: NDArray[np.int32],
        *,
        both_ways: bool,
    ) -> None:
        tile = self._units[rows] @ self._units[columns].T
        lists = (self._similarities, self._neighbours)
        keep_nearest(tile, rows, columns, groups, float(np.float32(self._least)), both_ways, *lists)

    def _note(self, rows: NDArray[np.int32]) -> None:
        """Note down to where the lists of some terms are complete."""
        last = self._similarities[rows, -1]
        below = np.nextafter(np.float32(self._least), np.float32(-np.inf))
        self._missing[rows] = np.where(self._neighbours[rows, -1] >= 0, last, below)
