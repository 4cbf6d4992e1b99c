"""Checks on ragged arrays: flat rows, and offsets where each query's rows begin."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = ["MAX_CUTOFF", "checked_cutoff", "checked_offsets"]

MAX_CUTOFF: Final = 2**31 - 1  # no ranking is longer


def checked_offsets(offsets: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return offsets that begin at 0, never go down and end at ``n_rows``, else raise.

    Examples
    --------
    >>> checked_offsets([0, 2, 2, 3], 3)
    array([0, 2, 2, 3])
    >>> checked_offsets([0, 2], 3)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: offsets: they do not lead from 0 up to the 3 rows...
    """
    given: NDArray[Any] = np.asarray(offsets)
    sound = (
        given.ndim == 1
        and len(given) >= 1
        and given.dtype.kind in "iu"
        and given[0] == 0
        and given[-1] == n_rows
        and bool((given[1:] >= given[:-1]).all())
    )
    if not sound:
        raise DataError(
            f"they do not lead from 0 up to the {n_rows} rows",
            where="offsets",
            remedy="give the first row of each query, and the number of rows at the end",
        )
    return np.ascontiguousarray(given, np.int64)


def checked_cutoff(k: int, *, name: str = "k") -> int:
    """Return a cut-off of 1 to `MAX_CUTOFF`, else raise.

    Examples
    --------
    >>> checked_cutoff(10)
    10
    """
    if k < 1:
        raise SettingsError(f"a cut-off is at least 1 (given: {k})", where=name)
    if k > MAX_CUTOFF:
        raise SettingsError(f"a cut-off is at most {MAX_CUTOFF} (given: {k})", where=name)
    return int(k)
