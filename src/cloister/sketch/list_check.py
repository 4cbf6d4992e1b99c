"""Lists that came from others, checked before a kernel reads them.

Kernels take document numbers from the lists as places in memory. A file can be made by anyone, and
its checksums with it, so what it says is looked at first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.sketch.rtk_lists import NO_DOCUMENT, RtkLists

__all__ = ["require_array", "require_sound_lists"]


def require_array(
    name: str, array: NDArray[Any], dtype: type[np.generic], shape: tuple[int, ...], where: str
) -> None:
    """Raise `DataError` unless an array has this type and shape.

    Examples
    --------
    >>> require_array("lengths", np.zeros(3, np.int32), np.int32, (3,), "a.sketch")
    """
    if array.dtype != dtype or array.shape != shape:
        raise DataError(
            f"{name} are {array.dtype} of shape {array.shape}, where {np.dtype(dtype)} of shape "
            f"{shape} are needed",
            where=where,
        )


def require_sound_lists(
    lists: RtkLists, n_cells: int, capacity: int, present: NDArray[np.bool_], where: str
) -> None:
    """Raise `DataError` unless lists can be read without harm.

    Each has its entries first and empty places after them; each entry names a document that is
    there, and none twice. Whether the values are true nobody can tell.

    Parameters
    ----------
    lists
        What to check.
    n_cells, capacity
        The sizes that they must have.
    present
        By number, whether the document is there.
    where
        What is said of where they come from.

    Examples
    --------
    >>> require_sound_lists(RtkLists.empty(2, 3), 2, 3, np.ones(5, np.bool_), "a.sketch")
    """
    entries, each = (n_cells, 2, capacity), (n_cells, 2)
    require_array("ids", lists.ids, np.int32, entries, where)
    require_array("values", lists.values, np.int16, entries, where)
    require_array("sizes", lists.sizes, np.int32, each, where)
    require_array("floors", lists.floors, np.int16, each, where)
    if lists.sizes.size and not 0 <= lists.sizes.min() <= lists.sizes.max() <= capacity:
        raise DataError(f"a list has less than 0 or more than {capacity} entries", where=where)
    wrong = _first_wrong(lists.ids, lists.sizes, present)
    if wrong >= 0:
        raise DataError(
            f"the list of cell {wrong // 2}, side {wrong % 2}, names a document twice or one that "
            "is not there, or is not filled from the front",
            where=where,
        )


@kernel
def _first_wrong(
    ids: NDArray[np.int32], sizes: NDArray[np.int32], present: NDArray[np.bool_]
) -> int:
    """Return the first list that is not sound, counting both sides of each cell; else -1."""
    seen_in = np.full(len(present), -1, np.int64)
    for cell in range(len(ids)):
        for side in range(2):
            number = 2 * cell + side
            for i in range(ids.shape[2]):
                document = ids[cell, side, i]
                if i >= sizes[cell, side]:
                    if document != NO_DOCUMENT:
                        return number
                    continue
                if not 0 <= document < len(present) or not present[document]:
                    return number
                if seen_in[document] == number:
                    return number
                seen_in[document] = number
    return -1
