"""Fang's attack on Trimmed Mean and Median: just beyond the extremes, on the wrong side.

Fang, Cao, Jia and Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning",
USENIX Security 2020, section 4.3; thesis section 5.2.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cloister.adversary.poisoning.attack import Floats, Known, ModelPoisoning, reversed_signs
from cloister.core.random import stream

__all__ = ["FangTrimmedMean", "beyond_extremes", "beyond_spread"]

STRETCH: Final = 2.0  # Fang et al.'s b: how far beyond an extreme a model may lie
NEAR: Final = 3.0  # standard deviations from the mean, beyond which honest models are rare
FAR: Final = 4.0


class FangTrimmedMean(ModelPoisoning):
    """Each attacker draws each parameter of its model beyond the extremes of honest models.

    s is the direction against the mean update. With full knowledge the intervals are those of
    `beyond_extremes`, over all models before the attack; with partial knowledge those of
    `beyond_spread`, from the attackers' own. A parameter that nobody moves on average stays at
    the mean. Intervals are of models, as printed: the model of a client is the round's model plus
    its update. Those of `beyond_extremes` are therefore wide where the round's model is large.
    """

    name = "fang-trim"

    def crafted(self, known: Known) -> Floats:
        """Return a row for each attacker, drawn anew."""
        models = known.model + known.before
        signs = reversed_signs(known.before)
        bounds = beyond_extremes if self.knowledge == "full" else beyond_spread
        low, high = bounds(models, signs)
        drawn = stream(self.seed, self.name, known.round).random(known.own.shape)
        crafted: Floats = low + drawn * (high - low) - known.model
        return crafted


def beyond_extremes(models: Floats, signs: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals with full knowledge.

    Where s_j is 1: from max_j to 2 max_j if max_j > 0, else from max_j to max_j / 2. Where s_j is
    -1: from min_j / 2 to min_j if min_j > 0, else from 2 min_j to min_j. Where it is 0: the mean.

    Examples
    --------
    >>> models = np.array([[1.0, -1.0, 1.0, -1.0], [2.0, -4.0, 2.0, -4.0]])
    >>> low, high = beyond_extremes(models, np.array([1.0, 1.0, -1.0, -1.0]))
    >>> low.tolist(), high.tolist()
    ([2.0, -1.0, 0.5, -8.0], [4.0, -0.5, 1.0, -4.0])
    """
    highest, lowest, mean = models.max(axis=0), models.min(axis=0), models.mean(axis=0)
    above = np.where(highest > 0, highest * STRETCH, highest / STRETCH)
    below = np.where(lowest > 0, lowest / STRETCH, lowest * STRETCH)
    low = np.where(signs > 0, highest, np.where(signs < 0, below, mean))
    high = np.where(signs > 0, above, np.where(signs < 0, lowest, mean))
    return low, high


def beyond_spread(models: Floats, signs: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals with partial knowledge.

    Where s_j is 1: from mu_j + 3 sigma_j to mu_j + 4 sigma_j. Where it is -1: from
    mu_j - 4 sigma_j to mu_j - 3 sigma_j. Where it is 0: mu_j.

    Examples
    --------
    >>> low, high = beyond_spread(np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([1.0, -1.0]))
    >>> low.tolist(), high.tolist()
    ([5.0, -2.0], [6.0, -1.0])
    """
    mean, spread = models.mean(axis=0), models.std(axis=0)
    near, far = mean + NEAR * signs * spread, mean + FAR * signs * spread
    return np.minimum(near, far), np.maximum(near, far)
