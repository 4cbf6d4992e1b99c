"""The mean of a measure over queries, and what becomes of queries with nothing relevant.

Two conventions are in use, and they change the figures. Offline evaluation in online learning to
rank leaves such queries out; online performance counts them as 0, since a user was shown the page.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import SettingsError

__all__ = ["NothingRelevant", "mean", "settle"]

NothingRelevant = Literal["skip", "zero"]


def settle(
    values: NDArray[np.float64], has_relevant: NDArray[np.bool_], convention: NothingRelevant
) -> NDArray[np.float64]:
    """Give queries with nothing relevant NaN (``"skip"``) or 0 (``"zero"``).

    Examples
    --------
    >>> settle(np.array([0.5, 0.25]), np.array([True, False]), "skip")
    array([0.5, nan])
    """
    if convention not in get_args(NothingRelevant):
        raise SettingsError(
            f"unknown convention {convention!r}",
            where="nothing_relevant",
            remedy='use "skip" or "zero"',
        )
    return np.where(has_relevant, values, np.nan if convention == "skip" else 0.0)


def mean(values: ArrayLike) -> float:
    """Return the mean of the values that are not NaN; NaN where there is none.

    Examples
    --------
    >>> mean([0.5, float("nan"), 1.0])
    0.75
    """
    array = np.asarray(values, np.float64)
    counted = array[~np.isnan(array)]
    return float(counted.mean()) if counted.size else float("nan")
