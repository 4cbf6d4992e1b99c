"""Multi-Krum: the mean of the n - m updates with the best Krum scores (thesis eq. 5.3)."""

from __future__ import annotations

import numpy as np

from cloister.federate.rules.arrival import mean_of
from cloister.federate.rules.distances import krum_scores
from cloister.federate.rules.krum import KrumScored
from cloister.federate.rules.rule import Chosen, Received

__all__ = ["MultiKrum"]


class MultiKrum(KrumScored):
    """The mean of as many updates as there are honest clients, those with the smallest scores.

    The thesis sets f = n - m. Blanchard et al. prove their bound for one chosen update; it is taken
    over here without a proof. Of those averaged up to m can be attackers' that hide among the
    honest.

    Examples
    --------
    >>> rule = MultiKrum(n_attackers=1)
    >>> rule.aggregate([[1.0], [2.0], [3.0], [2.0], [99.0]], clients=range(5)).update
    array([2.])
    """

    name = "multi-krum"

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Average the best; of equal scores the lexicographically smallest go first."""
        scores = krum_scores(received.updates, n_attackers, squared=self.squared)
        n_chosen = max(1, received.n - n_attackers)
        used = np.zeros(received.n, np.bool_)
        used[scores.argsort(kind="stable")[:n_chosen]] = True
        return Chosen(mean_of(received.updates, used.astype(np.float64), n_chosen), used)
