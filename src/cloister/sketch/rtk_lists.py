"""The lists of an RTK-Sketch: in each cell the documents with the largest +C and the largest -C.

CS-F-LTR keeps one min-heap of signed counts in each cell. Where a term's sign is -1 that heap has
thrown away just the documents in which the term is frequent. Here each cell has two lists, and a
query reads the one that matches the sign.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel, parallel_kernel

__all__ = [
    "LARGEST_VALUE",
    "NO_DOCUMENT",
    "NO_FLOOR",
    "RtkLists",
    "select_cells",
    "select_row",
]

NO_DOCUMENT: Final = -1  # an empty place
NO_FLOOR: Final = -(2**15)  # nothing is missing from the list
LARGEST_VALUE: Final = 2**15 - 1  # larger values, and smaller than its negative, are cut to it


class RtkLists(NamedTuple):
    """Two lists for each cell: side 0 has the largest +C, side 1 the largest -C.

    A list is a prefix of the order of all documents: by value, the largest first, and of equal
    values the smaller document number first. Every document has a place in that order, also where
    its cell is zero.

    Examples
    --------
    >>> lists = RtkLists.empty(n_cells=2, cell_size=2)
    >>> select_row(np.array([[3, 0, -5], [0, 0, 1]], np.int16), 2, lists, row=0)
    >>> lists.ids[0].tolist(), lists.values[0].tolist(), lists.floors[0].tolist()
    ([[0, 1], [2, 1]], [[3, 0], [5, 0]], [-5, -3])
    """

    ids: NDArray[np.int32]  # [n_cells, 2, capacity]: document numbers; -1: an empty place
    values: NDArray[np.int16]  # [n_cells, 2, capacity]: +C on side 0, -C on side 1
    sizes: NDArray[np.int32]  # [n_cells, 2]: how many entries are there
    floors: NDArray[np.int16]  # [n_cells, 2]: no document left out has more than this

    @classmethod
    def empty(cls, n_cells: int, cell_size: int) -> RtkLists:
        """Return lists with nothing in them, and nothing left out."""
        return cls(
            np.full((n_cells, 2, cell_size), NO_DOCUMENT, np.int32),
            np.zeros((n_cells, 2, cell_size), np.int16),
            np.zeros((n_cells, 2), np.int32),
            np.full((n_cells, 2), NO_FLOOR, np.int16),
        )

    def part(self, first: int, n_cells: int) -> RtkLists:
        """Return the lists of some cells, in the same memory."""
        own = slice(first, first + n_cells)
        return RtkLists(self.ids[own], self.values[own], self.sizes[own], self.floors[own])

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.ids)

    @property
    def capacity(self) -> int:
        """How many entries a list has room for."""
        return int(self.ids.shape[2])

    @property
    def size_bytes(self) -> int:
        """Memory of all lists: four bytes an id, two a value, six a list."""
        return self.ids.nbytes + self.values.nbytes + self.sizes.nbytes + self.floors.nbytes


def select_row(cells: NDArray[Any], cell_size: int, lists: RtkLists, row: int) -> None:
    """Fill the lists of one row of the sketch.

    Parameters
    ----------
    cells
        The cells of that row for all documents, columns x documents, exact or with noise.
    cell_size
        How many documents each list gets, at most the lists' capacity.
    lists
        What to fill: the cells from ``row * n_columns`` on.
    row
        Which row of the sketch.
    """
    select_cells(cells, cell_size, lists, row * cells.shape[0])


def select_cells(cells: NDArray[Any], cell_size: int, lists: RtkLists, first: int) -> None:
    """Fill the lists of some cells of the sketch, from the number ``first`` on; as `select_row`."""
    n_cells = cells.shape[0]
    if not (1 <= cell_size <= lists.capacity and 0 <= first <= lists.n_cells - n_cells):
        raise DataError(
            f"{n_cells} cells from {first} on with {cell_size} entries do not fit into "
            f"{lists.n_cells} cells with {lists.capacity}",
            where="select_cells",
        )
    _select(np.ascontiguousarray(cells), cell_size, *lists.part(first, n_cells))


@parallel_kernel
def _select(
    cells: NDArray[Any],
    cell_size: int,
    ids: NDArray[np.int32],
    values: NDArray[np.int16],
    sizes: NDArray[np.int32],
    floors: NDArray[np.int16],
) -> None:
    for column in numba.prange(len(cells)):
        _select_cell(
            cells[column], cell_size, ids[column], values[column], sizes[column], floors[column]
        )


@kernel
def _select_cell(
    cell: NDArray[Any],
    cell_size: int,
    ids: NDArray[np.int32],
    values: NDArray[np.int16],
    sizes: NDArray[np.int32],
    floors: NDArray[np.int16],
) -> None:
    """Select both sides by counting: how often each value occurs says where its documents go."""
    low, high = _extremes(cell)
    occurrences = _occurrences(cell, low, high)
    places_up, least_up, floors[0] = _places(occurrences[::-1], -high, cell_size)
    places_down, least_down, floors[1] = _places(occurrences, low, cell_size)
    least, most = -least_up, least_down  # selected: value >= -least_up, or value <= least_down
    for document in range(len(cell)):
        value = min(max(int(cell[document]), low), high)
        if value >= least:
            _put(document, value, places_up, high - value, cell_size, ids[0], values[0])
        if value <= most:
            _put(document, -value, places_down, value - low, cell_size, ids[1], values[1])
    for side in range(2):
        sizes[side] = min(cell_size, len(cell))
        ids[side, sizes[side] :] = NO_DOCUMENT
        values[side, sizes[side] :] = 0


@kernel
def _extremes(cell: NDArray[Any]) -> tuple[int, int]:
    """Return the smallest and the largest value, after cutting."""
    low = high = cell.dtype.type(0)
    for value in cell:
        low = min(low, value)
        high = max(high, value)
    return max(int(low), -LARGEST_VALUE), min(int(high), LARGEST_VALUE)


@kernel
def _occurrences(cell: NDArray[Any], low: int, high: int) -> NDArray[np.int32]:
    """Count each value; two counters a value, since most neighbours are equal (zero)."""
    even = np.zeros(high - low + 1, np.int32)
    odd = np.zeros(high - low + 1, np.int32)
    for i in range(0, len(cell) - 1, 2):
        even[min(max(int(cell[i]), low), high) - low] += 1
        odd[min(max(int(cell[i + 1]), low), high) - low] += 1
    if len(cell) % 2:
        even[min(max(int(cell[-1]), low), high) - low] += 1
    return even + odd


@kernel
def _places(
    occurrences: NDArray[np.int32], first: int, cell_size: int
) -> tuple[NDArray[np.int32], int, int]:
    """Return where each value's documents begin, the last value selected, and the floor.

    Values go up from ``first``, and the small ones are wanted: -C for the list of the largest +C.
    """
    places = np.empty(len(occurrences), np.int32)
    n_before = 0
    last = first
    floor = NO_FLOOR
    for i in range(len(occurrences)):
        places[i] = n_before
        n_before += occurrences[i]
        if occurrences[i] and places[i] < cell_size:
            last = first + i
        if n_before > cell_size:
            floor = -(first + i)
            break
    return places, last, floor


@kernel
def _put(
    document: int,
    value: int,
    places: NDArray[np.int32],
    position: int,
    cell_size: int,
    ids: NDArray[np.int32],
    values: NDArray[np.int16],
) -> None:
    place = places[position]
    if place < cell_size:
        ids[place] = document
        values[place] = value
        places[position] = place + 1
