"""Reverse top-K by RTK-Sketch as printed, as mended, and by NAIVE: cover, time, space."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from pydantic import Field

from cloister.core.random import stream
from cloister.lab.reproduce.cs_f_ltr.corpus import SearchedCorpus, cover_figures, open_corpus
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance
from cloister.sketch.keyed_hash import HashedTerms, HashKey, SketchShape
from cloister.sketch.naive import Naive
from cloister.sketch.rtk_lists import RtkLists, select_row
from cloister.sketch.rtk_query import ReverseTop, RtkQuery
from cloister.sketch.signed_heap import SignedHeap

__all__ = ["DEFAULTS", "SWEEPS", "VARIANTS", "Point", "RtkSettings", "measure", "system_at"]

PRINTED, MENDED, NAIVE = "RTK as printed", "RTK as mended", "NAIVE"
VARIANTS: Final = (PRINTED, MENDED, NAIVE)

Search = Callable[[HashedTerms], ReverseTop]


class Point(NamedTuple):
    """The parameters of figure 4, by the paper's names; its defaults are the paper's."""

    alpha: int = 5
    beta: float = 0.1
    K: int = 150
    w: int = 200
    z: int = 30

    @property
    def shape(self) -> SketchShape:
        """Rows and columns."""
        return SketchShape(n_rows=self.z, n_columns=self.w)

    @property
    def heap_size(self) -> int:
        """Entries of a cell, both sides together."""
        return self.alpha * self.K


DEFAULTS: Final = Point()
SWEEPS: Final[dict[str, tuple[float, ...]]] = {
    "alpha": (1, 2, 5, 10),
    "beta": (0.1, 0.2, 0.3, 0.5),
    "K": (50, 100, 150, 200),
    "w": (50, 100, 200, 400),
    "z": (10, 30, 50, 70),
}


class RtkSettings(StudySettings):
    """One repetition of figure 4.

    Parameters
    ----------
    data, seed
        The corpus; the seed also gives the hash key and the terms.
    n_documents
        How many documents of a collection are drawn; all where None.
    n_terms
        Terms drawn by frequency.
    n_timed
        Queries that are timed, one by one.
    """

    n_documents: int | None = Field(default=None, ge=1)
    n_terms: int = Field(default=1000, ge=1)
    n_timed: int = Field(default=100, ge=1)


def system_at(variant: str, parameter: str, value: float) -> str:
    """Return the name of a variant at a point of a sweep.

    Examples
    --------
    >>> system_at("NAIVE", "w", 50)
    'NAIVE, w 50'
    """
    return f"{variant}, {parameter} {value:g}"


def measure(settings: RtkSettings, advance: Advance) -> Figures:
    """Return cover rate, milliseconds a query and bytes of every variant at every point."""
    corpus = open_corpus(
        settings.data,
        seed=settings.seed,
        n_terms=settings.n_terms,
        n_documents=settings.n_documents,
    )
    key = HashKey(stream(settings.seed, "cs-f-ltr", "hash key").bytes(32))
    points = {
        (parameter, value): _point(parameter, value)
        for parameter, values in SWEEPS.items()
        for value in values
    }
    found: dict[Point, dict[str, dict[str, float]]] = {}
    shapes = list(dict.fromkeys(point.shape for point in points.values()))
    for done, shape in enumerate(shapes, 1):
        here = list(dict.fromkeys(point for point in points.values() if point.shape == shape))
        found |= dict(_measured(corpus, key, shape, here, settings.n_timed))
        advance(done, len(shapes))
    return {
        system_at(variant, parameter, value): dict(found[point][variant])
        for (parameter, value), point in points.items()
        for variant in VARIANTS
    }


def _point(parameter: str, value: Any) -> Point:
    return DEFAULTS._replace(**{parameter: value})


def _measured(
    corpus: SearchedCorpus, key: HashKey, shape: SketchShape, points: list[Point], n_timed: int
) -> Iterator[tuple[Point, dict[str, dict[str, float]]]]:
    """Build each structure once for a shape, at its largest, and measure all points on it."""
    words = key.hash_terms(corpus.counts.vocabulary, shape)
    terms = key.hash_terms(corpus.terms, shape)
    largest = max(point.heap_size for point in points)
    naive = Naive(corpus.counts, words)
    lists = _two_sided(naive, max(1, largest // 2))
    heaps = SignedHeap(corpus.counts, words, largest)
    naive_ms: dict[int, dict[str, float]] = {}
    for point in points:
        if point.K not in naive_ms:  # nothing else of a point of this shape concerns NAIVE
            search = _naive_search(naive, point)
            naive_ms[point.K] = _figures(corpus, terms, search, naive.size_bytes, n_timed)
        side = max(1, point.heap_size // 2)
        query = RtkQuery(lists, shape, corpus.counts.n_documents, cell_size=side)
        smaller = _cut(heaps, point.heap_size)
        mended_bytes = lists.n_cells * 2 * (6 * min(side, lists.capacity) + 6)
        figures = {
            NAIVE: naive_ms[point.K],
            MENDED: _figures(corpus, terms, _query_search(query, point), mended_bytes, n_timed),
            PRINTED: _figures(
                corpus, terms, _heap_search(smaller, point), smaller.size_bytes, n_timed
            ),
        }
        for one in figures.values():
            one["times_faster"] = figures[NAIVE]["ms"] / one["ms"]
            one["share_of_naive"] = one["bytes"] / figures[NAIVE]["bytes"]
        yield point, figures


def _two_sided(naive: Naive, cell_size: int) -> RtkLists:
    shape = naive.shape
    lists = RtkLists.empty(shape.n_cells, cell_size)
    for row in range(shape.n_rows):
        cells = naive.cells[row * shape.n_columns : (row + 1) * shape.n_columns]
        select_row(cells, cell_size, lists, row)
    return lists


def _cut(heaps: SignedHeap, heap_size: int) -> SignedHeap:
    """Return smaller heaps: a prefix of larger ones, since those are in falling order."""
    smaller = copy.copy(heaps)
    smaller.ids = np.ascontiguousarray(heaps.ids[:, :heap_size])
    smaller.values = np.ascontiguousarray(heaps.values[:, :heap_size])
    return smaller


def _naive_search(naive: Naive, point: Point) -> Search:
    return lambda terms: naive.top(terms, point.K)


def _query_search(query: RtkQuery, point: Point) -> Search:
    return lambda terms: query.top(terms, point.K, beta=point.beta)


def _heap_search(heaps: SignedHeap, point: Point) -> Search:
    return lambda terms: heaps.top(terms, point.K, beta=point.beta)


def _figures(
    corpus: SearchedCorpus, terms: HashedTerms, search: Search, size_bytes: int, n_timed: int
) -> dict[str, float]:
    return {
        **cover_figures(corpus, search(terms)),
        "ms": _milliseconds(terms, search, n_timed),
        "bytes": float(size_bytes),
    }


def _milliseconds(terms: HashedTerms, search: Search, n_timed: int) -> float:
    """Return the median time of single queries; the first search of all terms compiled it."""
    times: list[Any] = []
    for i in range(min(n_timed, terms.n_terms)):
        one = terms._replace(columns=terms.columns[i : i + 1], signs=terms.signs[i : i + 1])
        start = time.perf_counter()
        search(one)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1000
