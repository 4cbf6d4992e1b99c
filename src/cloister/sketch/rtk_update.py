"""Kernels that add documents to the lists of an RTK-Sketch and delete them.

A list is a prefix of the order of all documents, by value and then by number. Both kernels keep it
one: a document is inserted only where it stands before everything that was ever left out.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel
from cloister.sketch.rtk_lists import LARGEST_VALUE, NO_DOCUMENT, NO_FLOOR, RtkLists

__all__ = ["insert_documents", "remove_document"]


@parallel_kernel
def insert_documents(
    lists: RtkLists,
    loose: NDArray[np.bool_],
    cells: NDArray[Any],
    first: int,
    n_before: int,
) -> None:
    """Add documents to the lists of a row, numbered from ``first``, above all that are there.

    ``cells`` is columns x new documents; ``n_before`` documents are there already.
    """
    ids, values, sizes, floors = lists
    for cell in numba.prange(len(cells)):
        for side in range(2):
            for i in range(cells.shape[1]):
                value = int(cells[cell, i]) if side == 0 else -int(cells[cell, i])
                value = min(max(value, -LARGEST_VALUE), LARGEST_VALUE)
                size = sizes[cell, side]
                capacity = ids.shape[2]
                floor = floors[cell, side]
                full = size == capacity
                if full and value <= values[cell, side, size - 1]:
                    fits = False
                else:
                    fits = full or size == n_before + i or value > floor
                if not fits:
                    if value >= floor:
                        floors[cell, side] = value
                        loose[cell, side] = False
                    continue
                if full:  # the last one goes; it is at least as large as all left out before
                    floors[cell, side] = values[cell, side, size - 1]
                    loose[cell, side] = False
                    size -= 1
                _insert(ids[cell, side], values[cell, side], size, first + i, value)
                sizes[cell, side] = size + 1


@kernel
def _insert(
    ids: NDArray[np.int32], values: NDArray[np.int16], size: int, document: int, value: int
) -> None:
    place = size
    while place > 0 and values[place - 1] < value:
        ids[place], values[place] = ids[place - 1], values[place - 1]
        place -= 1
    ids[place], values[place] = document, value


@parallel_kernel
def remove_document(
    lists: RtkLists,
    loose: NDArray[np.bool_],
    document: int,
    n_after: int,
) -> None:
    """Take a document out of all lists; ``n_after`` documents are left.

    Where it was left out of a list it may have been the largest left out: that floor is loose now.
    """
    ids, values, sizes, floors = lists
    for cell in numba.prange(len(ids)):
        for side in range(2):
            size = sizes[cell, side]
            place = 0
            while place < size and ids[cell, side, place] != document:
                place += 1
            if place == size:
                loose[cell, side] = True
            else:
                for i in range(place, size - 1):
                    ids[cell, side, i] = ids[cell, side, i + 1]
                    values[cell, side, i] = values[cell, side, i + 1]
                size -= 1
                ids[cell, side, size] = NO_DOCUMENT
                values[cell, side, size] = 0
                sizes[cell, side] = size
            if size == n_after:
                floors[cell, side] = NO_FLOOR
                loose[cell, side] = False
