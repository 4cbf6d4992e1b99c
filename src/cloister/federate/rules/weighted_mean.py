"""FedAvg's weighted mean as a rule: no protection, and the measure of all others."""

from __future__ import annotations

import numpy as np

from cloister.federate.rules.arrival import mean_of
from cloister.federate.rules.rule import Chosen, Received, Rule

__all__ = ["WeightedMean"]


class WeightedMean(Rule):
    """The mean of updates, weighted by interactions (thesis eq. 3.16); tolerates no attacker.

    One attacker moves the mean wherever it likes.

    Examples
    --------
    >>> rule = WeightedMean()
    >>> rule.aggregate([[1.0], [4.0]], clients=[0, 1], n_interactions=[2, 1]).update
    array([2.])
    >>> rule.aggregate([[1.0], [float("nan")]], clients=[7, 9]).refused
    (9,)
    """

    name = "fedavg"

    def most_attackers(self, n: int) -> int:
        """Return 0: no attacker is borne."""
        return 0

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that a mean can always be taken."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Take the weighted mean; the plain one where nobody claims an interaction."""
        weights = received.n_interactions
        total = float(weights.sum())
        if total <= 0:
            weights, total = np.ones(received.n), float(received.n)
        return Chosen(mean_of(received.updates, weights, total), np.ones(received.n, np.bool_))
