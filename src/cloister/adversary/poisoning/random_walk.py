"""A random walk: attackers push together, in a direction that is new in each round.

The pushes have mean zero, so a rule that adds up directions over rounds never finds them. They cost
the ranker precision all the same: the model wanders.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cloister.adversary.poisoning.attack import (
    Floats,
    Knowledge,
    Known,
    ModelPoisoning,
    usual_distance,
)
from cloister.core.errors import SettingsError
from cloister.core.random import stream

__all__ = ["RandomWalk"]


class RandomWalk(ModelPoisoning):
    """All attackers send the mean of the updates they know plus one shared random step.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack; at least two attackers, or the usual distance is unknown.
    reach
        The step's length, in usual distances of an update from the mean, above 0.

    Examples
    --------
    >>> from cloister.federate.tampering import Sent
    >>> honest = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    >>> attack = RandomWalk(attackers=[0, 1], seed=1, reach=1.0)
    >>> arrived = attack.tampered(Sent(honest, np.arange(3), np.zeros(2), 0))
    >>> round(float(np.linalg.norm(arrived[0] - [2.0, 0.0])), 6)  # the usual distance, sqrt(2)
    1.414214
    """

    name = "random-walk"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        reach: float = 3.0,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not reach > 0:
            raise SettingsError(f"must be above 0 (given: {reach})", where="reach")
        self.reach = reach

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        step = stream(self.seed, "random walk", known.round).standard_normal(known.own.shape[1])
        step *= self.reach * usual_distance(known.before) / float(np.linalg.norm(step))
        return np.broadcast_to(known.before.mean(axis=0) + step, known.own.shape)
