"""Krum: the one update that lies nearest to its neighbours (Blanchard et al. 2017; eq. 5.2)."""

from __future__ import annotations

import numpy as np

from cloister.federate.rules.distances import krum_scores
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["Krum", "KrumScored"]


class KrumScored(Rule):
    """What Krum and Multi-Krum share: the score and the bound.

    Parameters
    ----------
    n_attackers, beyond
        As for every rule.
    squared
        Whether scores are sums of squared distances, as Blanchard et al. have them. The thesis
        (eq. 5.2) sums distances. The proof of resilience is for squares, n >= 2m + 3, honest
        updates drawn independently from one distribution, and a spread that is small beside their
        mean; for sums of distances the same bound is taken over, without a proof.
    """

    def __init__(
        self, *, n_attackers: int = 0, beyond: Beyond = "refuse", squared: bool = False
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        self.squared = squared

    def most_attackers(self, n: int) -> int:
        """Return the largest m with n >= 2m + 3; 0 where there is none."""
        return max(0, (n - 3) // 2)

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say whether a score has a neighbour to look at: n - m - 2 >= 1."""
        return n_attackers == 0 or n - n_attackers - 2 >= 1


class Krum(KrumScored):
    """The update with the smallest sum of distances to its n - m - 2 nearest others.

    It takes one client's update and leaves the others' out, which costs much where all are honest.
    Of equal scores the lexicographically smallest update is taken.

    Examples
    --------
    >>> rule = Krum(n_attackers=1)
    >>> outcome = rule.aggregate([[1.0], [2.0], [3.0], [2.0], [99.0]], clients=range(5))
    >>> outcome.update, outcome.used
    (array([2.]), array([False,  True, False, False, False]))
    """

    name = "krum"

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Take the update with the smallest score."""
        scores = krum_scores(received.updates, n_attackers, squared=self.squared)
        best = int(scores.argmin())
        used = np.zeros(received.n, np.bool_)
        used[best] = True
        return Chosen(received.updates[best].copy(), used)
