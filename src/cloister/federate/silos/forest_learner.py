"""Forests learnt across silos: each party grows trees on its own rows, and all score with all.

Trees cannot be handed from party to party as parameters are. Two ways are left. *Mixed*, which is
what is done here: each party grows a forest on its own rows and sends the trees; everybody scores
by the mean of all forests. Thresholds (feature values of single rows) and the labels' pull on each
leaf cross. *Pooled*: one forest on the rows of all parties, for which every party would have to
send its rows: features and labels of every pair of query and document, which tell far more.
`pooled` does that, as the best that could be reached with nothing held back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cloister.core.ids import PartyId
from cloister.federate.silos.augmentation import appended
from cloister.federate.silos.runs import PartyRows, Scorer
from cloister.rank.forest import Forest, ForestMixture, ForestSettings, fit_forest

__all__ = ["ForestLearner"]


@dataclass(frozen=True)
class ForestLearner:
    """Learns LambdaMART at each party and mixes the forests.

    Parameters
    ----------
    settings
        How trees grow.
    pooled
        One forest on all parties' rows in one place, in the place of a mixture.
    """

    settings: ForestSettings = field(default_factory=ForestSettings)
    pooled: bool = False

    @property
    def what_crosses(self) -> str:
        """What parties give each other while they learn."""
        return "feature rows and labels" if self.pooled else "trees"

    def learn(self, rows: Mapping[PartyId, PartyRows], *, seed: int) -> Scorer:
        """Return the forest of one party, the mixture of several, or the pooled forest."""
        if self.pooled:
            together = PartyRows(
                appended([one.data for one in rows.values()]),
                np.concatenate([one.weights for one in rows.values()]),
            )
            return self._grown(together, seed)
        forests = [self._grown(one, seed) for one in rows.values()]
        return forests[0] if len(forests) == 1 else ForestMixture(forests)

    def n_crossing(self, scorer: Scorer) -> int:
        """Return about how many numbers one party sends.

        A threshold and a value for each leaf, and the spread of its scores.
        """
        forests = scorer.forests if isinstance(scorer, ForestMixture) else [scorer]
        n_trees = max((one.n_trees for one in forests if isinstance(one, Forest)), default=1)
        return 2 * n_trees * self.settings.n_leaves + 1

    def _grown(self, rows: PartyRows, seed: int) -> Forest:
        return fit_forest(rows.data, self.settings, seed=seed, weights=rows.weights)
