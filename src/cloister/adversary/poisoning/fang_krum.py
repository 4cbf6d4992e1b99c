"""Fang's attack on Krum and Multi-Krum: as far back from the round's model as Krum still chooses.

Fang, Cao, Jia and Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning",
USENIX Security 2020, section 4.2; thesis section 5.2.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from cloister.adversary.poisoning.attack import (
    Floats,
    Knowledge,
    Known,
    ModelPoisoning,
    reversed_signs,
)
from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.federate.rules.distances import krum_scores
from cloister.federate.rules.krum import KrumScored
from cloister.federate.rules.norm_bounding import lengths

__all__ = ["FangKrum", "fang_upper_bound"]

SMALLEST: Final = 1e-5  # lambda under which Fang et al. give up


class FangKrum(ModelPoisoning):
    """The attackers send the round's model moved by lambda against the mean update, or near it.

    theta_g + lambda s, with s the direction against the mean of what is known. lambda is halved
    from `fang_upper_bound` until Krum chooses a crafted update, or until it is under 1e-5: then
    that is sent, which is next to no update at all.

    With full knowledge the crafted updates stand beside the others' own, and Krum expects what
    the rule expects. With partial knowledge the attackers' own updates serve as the benign ones,
    and Krum expects as many attackers as there are crafted updates: first one, then one more
    until some lambda will do, as Fang et al. have it. So few updates are a guess at a whole round:
    its Krum may choose otherwise.

    Parameters
    ----------
    attackers, knowledge, seed
        As for every attack.
    rule
        What is attacked, of which the number of attackers that it expects and its kind of distance
        are known. Without it: as many as there are, and the thesis's distances.
    nearness
        The most by which the updates of other attackers than the first lie from the first's.
    """

    name = "fang-krum"

    def __init__(
        self,
        *,
        attackers: Iterable[int],
        knowledge: Knowledge = "partial",
        seed: int,
        rule: KrumScored | None = None,
        nearness: float = 1e-3,
    ) -> None:
        super().__init__(attackers=attackers, knowledge=knowledge, seed=seed)
        if not 0 <= nearness < math.inf:
            raise SettingsError(f"at least 0 (given: {nearness})", where="nearness")
        self.nearness = nearness
        self._expected = None if rule is None else rule.n_attackers
        self._squared = rule is not None and rule.squared

    def crafted(self, known: Known) -> Floats:
        """Return a row for each attacker, the first exactly theta_g + lambda s."""
        signs = reversed_signs(known.before)
        offsets = self._offsets(known)
        crafted: Floats = self._lambda(known, signs, offsets) * signs + offsets
        return crafted

    def _lambda(self, known: Known, signs: Floats, offsets: Floats) -> float:
        if self.knowledge == "full":
            n_attackers = known.n_attackers
            expected = n_attackers if self._expected is None else self._expected
            return self._halved(known.benign, signs, offsets, expected)
        found = 0.0
        for n_crafted in range(1, known.n_attackers + 1):
            found = self._halved(known.benign, signs, offsets[:n_crafted], n_crafted)
            if found >= SMALLEST:
                break
        return found

    def _halved(self, benign: Floats, signs: Floats, offsets: Floats, expected: int) -> float:
        """Return the first lambda of the halving with which Krum chooses a crafted update."""
        n_crafted = len(offsets)
        rows = np.concatenate((offsets, benign))
        found = fang_upper_bound(benign, n_crafted)
        while found >= SMALLEST:
            rows[:n_crafted] = found * signs + offsets
            if krum_scores(rows, expected, squared=self._squared).argmin() < n_crafted:
                break
            found /= 2
        return found

    def _offsets(self, known: Known) -> Floats:
        """Return zeros for the first attacker, and vectors no longer than nearness for others."""
        offsets = np.zeros(known.own.shape)
        if known.n_attackers > 1 and self.nearness > 0:
            rng = stream(self.seed, self.name, known.round)
            offsets[1:] = rng.standard_normal(offsets[1:].shape)
            reach = self.nearness * rng.random(len(offsets) - 1) / lengths(offsets[1:])
            offsets[1:] *= reach[:, None]
        return offsets


def fang_upper_bound(benign: Floats, n_attackers: int) -> float:
    """Return the lambda above which Krum cannot choose the crafted updates (theorem 1 there).

    The least, over i, sum of distances from i to its n - m - 2 nearest benign others, over
    (n - 2m - 1) sqrt(d); and the length of the longest update over sqrt(d), where i runs over n - m
    benign updates. Where n - 2m - 1 is below 1, Krum's bound is broken and 1 is taken.

    Parameters
    ----------
    benign
        Benign updates.
    n_attackers
        How many crafted ones stand beside them.

    Examples
    --------
    >>> fang_upper_bound(np.array([[3.0], [4.0], [6.0]]), n_attackers=1)  # n = 4
    7.0
    """
    nearest = float(krum_scores(benign, 0, squared=False).min())
    furthest = float(lengths(benign).max())
    room = max(1, len(benign) - n_attackers - 1)
    return (nearest / room + furthest) / math.sqrt(benign.shape[1])
