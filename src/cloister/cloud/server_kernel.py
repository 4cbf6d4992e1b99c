"""Kernels of the server: where documents stand in a list, their values, and their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.model_box import PAIR_SOURCE, TERM_SOURCE
from cloister.core.kernel import kernel

__all__ = ["code_rows", "find_places", "gather_rows", "weighted_sums"]

Integers = NDArray[np.int64]


@kernel
def find_places(candidates: Integers, documents: NDArray[np.int32], places: Integers) -> None:
    """Find each candidate among rising documents; -1 where it is not one of them."""
    for i in range(len(candidates)):
        wanted = candidates[i]
        low, high = 0, len(documents)
        while low < high:
            middle = (low + high) // 2
            if documents[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        places[i] = low if low < len(documents) and documents[low] == wanted else -1


@kernel
def gather_rows(places: Integers, values: NDArray[Any], rows: NDArray[Any]) -> None:
    """Copy the values at the places; a row without a place stays as it is."""
    for i in range(len(places)):
        if places[i] >= 0:
            for column in range(values.shape[1]):
                rows[i, column] = values[places[i], column]


@kernel
def code_rows(
    sources: NDArray[np.int32],
    documents: Integers,
    term_slots: NDArray[np.int32],
    of_terms: Integers,
    pair_slots: NDArray[np.int32],
    of_pairs: Integers,
    of_documents: Integers,
    rows: Integers,
) -> None:
    """Put the codes of terms, pairs and documents where a forest's trees look for them.

    ``sources`` are those of :mod:`cloister.cloud.model_box`. ``of_terms`` and ``of_pairs`` have a
    row of codes for each slot and document; slots are found by place, and by two places.
    """
    for column in range(len(sources)):
        kind, first, second, code = sources[column]
        for i in range(len(documents)):
            if kind == TERM_SOURCE:
                rows[i, column] = of_terms[term_slots[first], i, code]
            elif kind == PAIR_SOURCE:
                rows[i, column] = of_pairs[pair_slots[first, second], i, code]
            else:
                rows[i, column] = of_documents[documents[i], code]


@kernel
def weighted_sums(
    phi: NDArray[np.float64],
    weights: NDArray[np.float64],
    bias: float,
    scores: NDArray[np.float64],
) -> None:
    """Return w . phi + b of each row, added up in one order: equal rows have equal scores."""
    for row in range(len(phi)):
        total = 0.0
        for column in range(len(weights)):
            total += weights[column] * phi[row, column]
        scores[row] = total + bias
