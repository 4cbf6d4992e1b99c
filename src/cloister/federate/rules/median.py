"""Median: of each coordinate (Yin et al. 2018; thesis eq. 5.5)."""

from __future__ import annotations

import numpy as np

from cloister.federate.rules.rule import Chosen, Received, Rule
from cloister.federate.rules.trimmed_mean import within

__all__ = ["Median"]


class Median(Rule):
    """The median of each coordinate; of an even number the mean of the middle two.

    It need not be told how many attackers there are. Where fewer than half of the clients attack,
    each coordinate of the outcome lies between honest clients' values.

    Examples
    --------
    >>> Median(n_attackers=1).aggregate([[1.0], [2.0], [99.0]], clients=range(3)).update
    array([2.])
    """

    name = "median"

    def most_attackers(self, n: int) -> int:
        """Return the largest m with n > 2m."""
        return (n - 1) // 2

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that a median can always be taken."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Take the middle of each sorted coordinate."""
        n = received.n
        middle = np.sort(received.updates, axis=0)[(n - 1) // 2 : n // 2 + 1]
        return Chosen(middle.sum(axis=0) / len(middle), within(received.updates, middle))
