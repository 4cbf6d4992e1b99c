"""RTK-Sketch and its kin in plain Python, as slow and as literal as can be."""

from __future__ import annotations

import heapq
from collections import defaultdict
from statistics import median
from typing import Any

import numpy as np
from hypothesis import strategies as st

from cloister.index.term_counts import TermCounts
from cloister.sketch.keyed_hash import HashedTerms, HashKey, SketchShape

KEY = HashKey(bytes(range(32)))
VOCABULARY = tuple(f"t{i}" for i in range(12))


def world(table: np.ndarray, vocabulary: tuple[str, ...] = VOCABULARY) -> TermCounts:
    """Return the counts of a table, documents x terms."""
    starts = np.concatenate([[0], np.cumsum((table > 0).sum(1))])
    terms = np.nonzero(table)[1]
    return TermCounts(starts, terms.astype(np.int32), table[table > 0].astype(np.int32), vocabulary)


def tables() -> st.SearchStrategy[np.ndarray]:
    """Return small tables of counts."""
    return st.builds(
        lambda n, seed: np.random.default_rng(seed).geometric(0.6, (n, 12)) - 1,
        st.integers(1, 25),
        st.integers(0, 2**32),
    )


def shapes() -> st.SearchStrategy[SketchShape]:
    """Return small shapes."""
    return st.builds(SketchShape, n_rows=st.integers(1, 6), n_columns=st.integers(2, 8))


Cells = list[list[dict[int, int]]]  # [row][column][document]


def sketches(counts: TermCounts, hashed: HashedTerms) -> Cells:
    """Return the value of every document in every cell (algorithm 2)."""
    rows, columns = hashed.shape.n_rows, hashed.shape.n_columns
    cells: Cells = [
        [dict.fromkeys(range(counts.n_documents), 0) for _ in range(columns)] for _ in range(rows)
    ]
    for document in range(counts.n_documents):
        for i in range(counts.starts[document], counts.starts[document + 1]):
            term = counts.terms[i]
            for row in range(rows):
                signed = int(hashed.signs[term, row]) * int(counts.counts[i])
                cells[row][hashed.columns[term, row]][document] += signed
    return cells


def order(cell: dict[int, int], sign: int) -> list[tuple[int, int]]:
    """Return all documents of a cell, best first: (document, value with sign)."""
    return sorted(((d, sign * v) for d, v in cell.items()), key=lambda e: (-e[1], e[0]))


def naive(cells: Cells, hashed: HashedTerms, term: int, k: int, *, signed: bool = True) -> Any:
    """Algorithm 3."""
    estimates = {}
    for document in cells[0][0]:
        estimates[document] = median(
            (int(hashed.signs[term, row]) if signed else 1) * row_cells[column][document]
            for row, (row_cells, column) in enumerate(zip(cells, hashed.columns[term], strict=True))
        )
    return best(estimates, k)


def signed_heap(
    cells: Cells, hashed: HashedTerms, term: int, k: int, heap_size: int, beta: float
) -> Any:
    """Algorithms 4 and 5 as printed, with the sign that equation 3 forgets."""
    found = defaultdict(list)
    for row, column in enumerate(hashed.columns[term]):
        heap: list[tuple[int, int]] = []
        for document, value in cells[row][column].items():
            heapq.heappush(heap, (value, -document))
            if len(heap) > heap_size:
                heapq.heappop(heap)
        for value, negative in heap:
            found[-negative].append(int(hashed.signs[term, row]) * value)
    least = beta * len(cells)
    return best({d: median(v) for d, v in found.items() if len(v) >= least}, k)


def two_sided(
    cells: Cells,
    hashed: HashedTerms,
    term: int,
    k: int,
    *,
    cell_size: int,
    beta: float,
    n_true_rows: int,
    floor: bool,
) -> Any:
    """Ours: two lists, missing rows imputed, ties of medians by the clipped mean.

    Returns the best k as (document, median), and every candidate's score.
    """
    found: dict[int, dict[int, int]] = defaultdict(dict)
    imputed = []
    for row in range(n_true_rows):
        column, sign = hashed.columns[term, row], int(hashed.signs[term, row])
        ordered = order(cells[row][column], sign)
        for document, value in ordered[:cell_size]:
            found[document][row] = value
        left_out = len(ordered) - min(cell_size, len(ordered))
        if left_out == 0:
            imputed.append(0.0)
        elif floor:
            imputed.append(float(ordered[cell_size][1]))
        else:
            imputed.append(-sum(value for _, value in ordered[:cell_size]) / left_out)
    scores, medians = {}, {}
    for document, present in found.items():
        if len(present) < beta * n_true_rows - 1e-9:
            continue
        rows = [float(present.get(row, imputed[row])) for row in range(n_true_rows)]
        medians[document] = median(rows)
        clipped = [min(max(v - medians[document], -1.5), 1.5) for v in rows]
        scores[document] = medians[document] + 1e-3 * (sum(clipped) / len(rows)) / 1.5
    return [(d, medians[d]) for d, _ in best(scores, k)], scores


def best(estimates: dict[int, float], k: int) -> list[tuple[int, float]]:
    """Return the k best, of equal ones the smaller number first."""
    return sorted(estimates.items(), key=lambda e: (-e[1], e[0]))[:k]
