"""Trimmed mean: by coordinate, without the m largest and m smallest (Yin et al. 2018; eq. 5.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.federate.rules.rule import Chosen, Received, Rule

__all__ = ["TrimmedMean", "within"]

Floats = NDArray[np.float64]


class TrimmedMean(Rule):
    """The mean of each coordinate's values but the m largest and the m smallest.

    Where at most m of n > 2m clients attack, each coordinate of the outcome lies between honest
    clients' values. They can still move all coordinates at once toward that edge.

    Examples
    --------
    >>> rule = TrimmedMean(n_attackers=1)
    >>> rule.aggregate([[1.0, 5.0], [2.0, 6.0], [99.0, -99.0]], clients=range(3)).update
    array([2., 5.])
    """

    name = "trimmed-mean"

    def most_attackers(self, n: int) -> int:
        """Return the largest m with n > 2m."""
        return (n - 1) // 2

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Sort each coordinate, cut both ends, and average."""
        kept = np.sort(received.updates, axis=0)[n_attackers : received.n - n_attackers]
        return Chosen(kept.sum(axis=0) / len(kept), within(received.updates, kept))


def within(updates: Floats, kept: Floats) -> NDArray[np.bool_]:
    """Say which rows have at least one number among those kept of its coordinate.

    Parameters
    ----------
    updates
        Clients x parameters.
    kept
        Of each coordinate, the sorted values that were averaged.

    Examples
    --------
    >>> within(np.array([[1.0], [2.0], [9.0]]), np.array([[2.0]]))
    array([False,  True, False])
    """
    inside: NDArray[np.bool_] = ((updates >= kept[0]) & (updates <= kept[-1])).any(axis=1)
    return inside
