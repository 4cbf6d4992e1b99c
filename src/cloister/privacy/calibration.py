"""How much noise a training needs: the least with which all its rounds cost what they may."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.privacy.accounting import FINE_STEP, Accounting, composed_epsilon
from cloister.privacy.loss import Loss

__all__ = ["noise_multiplier"]

MOST_EPSILON: Final = 1e5  # what costs more promises nothing
COARSE_STEP: Final = 10 * FINE_STEP  # while searching; what is found is checked with fine steps


@lru_cache(maxsize=64)
def noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    n_rounds: int,
    sampling_rate: float = 1.0,
    method: Accounting = "tightest",
) -> float:
    """Return the least normal noise, over sensitivity, with which so many rounds cost ``epsilon``.

    The result is rounded up at the fourth figure, so that it is never too little.

    Examples
    --------
    >>> noise_multiplier(4.5, 1e-5, n_rounds=200, method="rdp")
    14.77
    """
    if not (0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise SettingsError(
            f"epsilon above 0 (at most {MOST_EPSILON:g}) and delta between 0 and 1 are needed "
            f"(given: {epsilon}, {delta})",
            where="noise_multiplier",
        )
    if n_rounds < 1 or not 0 < sampling_rate <= 1:
        raise SettingsError(
            "at least one round and a sampling rate in (0, 1] are needed", where="noise_multiplier"
        )
    question = _Question(epsilon, delta, n_rounds, sampling_rate)
    # Enough without sampling by concentrated privacy (Bun and Steinke 2016, proposition 1.3),
    # hence enough with it: 1/(2 z^2) + sqrt(2 log(1/delta))/z = epsilon.
    root = math.sqrt(math.log(1 / delta))
    ample = math.sqrt(n_rounds / 2) * (math.sqrt(root**2 + epsilon) + root) / epsilon
    quick = _least_noise(question, "rdp", ample)
    return _rounded_up(quick if method == "rdp" else _least_noise(question, method, quick))


class _Question(NamedTuple):
    epsilon: float
    delta: float
    n_rounds: int
    sampling_rate: float

    def excess(self, noise: float, method: Accounting, step: float = COARSE_STEP) -> float:
        """Return by how much the rounds cost more than they should with so much noise."""
        loss = Loss("gaussian", noise, sampling_rate=self.sampling_rate)
        cost = composed_epsilon({loss: self.n_rounds}, self.delta, method=method, step=step)
        return min(cost.epsilon, 2 * MOST_EPSILON) - self.epsilon


def _least_noise(question: _Question, method: Accounting, start: float) -> float:
    """Search downwards from a start, for noise that is enough by two parts in 10^4."""
    from scipy.optimize import brentq

    high = start
    while question.excess(high, method) > 0:  # Renyi's orders end: it may ask for more
        high *= 2
    while question.excess(high / 2, method) <= 0:
        high /= 2
    found = brentq(lambda noise: question.excess(noise, method), high / 2, high, rtol=1e-4)
    while question.excess(found, method, FINE_STEP) > 0:
        found *= 1 + 1e-4
    return float(found)


def _rounded_up(value: float, figures: int = 4) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - figures + 1)
    up = math.ceil(value / unit - 1e-9) * unit
    return float(f"{up:.{figures}g}")
