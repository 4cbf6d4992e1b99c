"""Little Is Enough: sent a little off the mean, within what honest clients differ by.

Baruch, Baruch and Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
NeurIPS 2019; thesis section 5.2.3.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np

from cloister.adversary.poisoning.attack import Floats, Known, ModelPoisoning

__all__ = ["LittleIsEnough", "lie_deviation"]


class LittleIsEnough(ModelPoisoning):
    """All attackers send mu - z sigma, a parameter at a time.

    mu and sigma are the mean and the standard deviation of the updates that are known: the
    attackers' own before the attack, as in the thesis, or all of them with full knowledge. z is
    `lie_deviation`.

    Examples
    --------
    >>> from cloister.federate.tampering import Sent
    >>> updates = np.array([[1.0], [3.0], [9.0], [9.0], [9.0], [9.0], [9.0], [9.0], [9.0], [9.0]])
    >>> attack = LittleIsEnough(attackers=[0, 1], seed=1)
    >>> attack.tampered(Sent(updates, np.arange(10), np.zeros(1), 0))[:3].ravel()
    array([2., 2., 9.])
    """

    name = "lie"

    def crafted(self, known: Known) -> Floats:
        """Return the same row for each attacker."""
        before = known.before
        z = lie_deviation(known.n_participants, known.n_attackers)
        row = before.mean(axis=0) - z * before.std(axis=0)
        return np.broadcast_to(row, known.own.shape)


@lru_cache
def lie_deviation(n: int, n_attackers: int) -> float:
    """Return z, by which a majority of n clients seems to be nearer to the attackers than not.

    The attackers need s = floor(n / 2 + 1) - m honest clients on their side: z is where the normal
    distribution leaves so few beyond, (n - m - s) / (n - m) of it lying below. It is negative
    where the attackers are so few that the mean itself is too far off. Where attackers are a
    majority s is taken to be 1; where the formula has no value, z is 0.

    Examples
    --------
    >>> [round(lie_deviation(10, m), 2) for m in (1, 2, 3, 4)]
    [-0.14, 0.0, 0.18, 0.43]
    """
    n_honest = n - n_attackers
    n_needed = max(1, n // 2 + 1 - n_attackers)
    if n_needed >= n_honest:
        return 0.0
    return NormalDist().inv_cdf((n_honest - n_needed) / n_honest)
