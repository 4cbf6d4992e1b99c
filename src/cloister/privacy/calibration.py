"""How much noise a training needs: the least with which all its rounds cost what they may.

`planned_noise` asks the filter that refuses releases (:mod:`cloister.privacy.filters`): so many
rounds fit a limit of that epsilon, that delta and the plan's order, and at most a few in a thousand
more, since noise is rounded up at its fourth figure. `noise_multiplier` asks the accountants of
fixed plans, which need 6 to 8 % less noise; with it the ledger would refuse the last rounds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.privacy.accounting import FINE_STEP, Accounting, composed_epsilon, divergence
from cloister.privacy.filters import ORDERS, PrivacyFilter
from cloister.privacy.loss import Loss

__all__ = ["PlannedNoise", "noise_multiplier", "planned_noise", "rounded_up"]

MOST_EPSILON: Final = 1e5  # what costs more promises nothing
COARSE_STEP: Final = 10 * FINE_STEP  # while searching; what is found is checked with fine steps
CLOSE: Final = 1e-5  # relative: how near the least noise of the filter is found


@lru_cache(maxsize=64)
def noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    n_rounds: int,
    sampling_rate: float = 1.0,
    method: Accounting,
) -> float:
    """Return the least normal noise, over sensitivity, with which so many rounds cost ``epsilon``.

    That holds of rounds that are planned beforehand; a limit asks for more (`planned_noise`). The
    result is rounded up at the fourth figure, so that it is never too little.

    Examples
    --------
    >>> noise_multiplier(4.5, 1e-5, n_rounds=200, method="pld")
    13.81
    >>> planned_noise(4.5, 1e-5, n_rounds=200).multiplier
    14.84
    """
    _check_plan(epsilon, delta, n_rounds, sampling_rate)
    question = _Question(epsilon, delta, n_rounds, sampling_rate)
    # Enough without sampling by concentrated privacy (Bun and Steinke 2016, proposition 1.3),
    # hence enough with it: 1/(2 z^2) + sqrt(2 log(1/delta))/z = epsilon.
    root = math.sqrt(math.log(1 / delta))
    ample = math.sqrt(n_rounds / 2) * (math.sqrt(root**2 + epsilon) + root) / epsilon
    quick = _least_noise(question, "rdp", ample)
    return rounded_up(quick if method == "rdp" else _least_noise(question, method, quick))


def _check_plan(epsilon: float, delta: float, n_rounds: int, sampling_rate: float) -> None:
    if not (0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise SettingsError(
            f"epsilon above 0 (at most {MOST_EPSILON:g}) and delta between 0 and 1 are needed "
            f"(given: {epsilon}, {delta})",
            where="epsilon",
        )
    if n_rounds < 1 or not 0 < sampling_rate <= 1:
        raise SettingsError(
            "at least one round and a sampling rate in (0, 1] are needed", where="noise_multiplier"
        )


class PlannedNoise(NamedTuple):
    """The least noise with which a plan fits a limit, and the limit's order that allows it.

    The order is to be fixed with the limit, before the first round.
    """

    multiplier: float
    order: float


@lru_cache(maxsize=64)
def planned_noise(
    epsilon: float, delta: float, *, n_rounds: int, sampling_rate: float = 1.0
) -> PlannedNoise:
    """Return the least noise at which so many divergences fit the budget of some order.

    The best order for normal noise is the one to begin with. A sampled release with little noise
    diverges much faster at high orders: smaller ones are tried.

    Examples
    --------
    >>> planned_noise(4.5, 1e-5, n_rounds=1000, sampling_rate=0.01)
    PlannedNoise(multiplier=0.7484, order=4.084)
    """
    _check_plan(epsilon, delta, n_rounds, sampling_rate)
    usual = PrivacyFilter.of(epsilon, delta)
    if usual.budget <= 0:
        raise SettingsError(
            f"no order gives epsilon {epsilon} at delta {delta}",
            where="epsilon",
            remedy="take a larger epsilon or delta",
        )
    # Enough without sampling, hence with it.
    found = PlannedNoise(math.sqrt(usual.order * n_rounds / (2 * usual.budget)), usual.order)
    if sampling_rate < 1:
        for order in (order for order in reversed(ORDERS) if order <= usual.order):
            budget = PrivacyFilter.of(epsilon, delta, order=order).budget / n_rounds
            if not (budget > 0 and _fits(found.multiplier, sampling_rate, order, budget)):
                break
            noise = _least_fitting(found.multiplier, sampling_rate, order, budget)
            found = PlannedNoise(noise, order)
    return PlannedNoise(rounded_up(found.multiplier), found.order)


def _fits(noise: float, sampling_rate: float, order: float, budget: float) -> bool:
    return divergence(Loss("gaussian", noise, sampling_rate=sampling_rate), order) <= budget


def _least_fitting(high: float, sampling_rate: float, order: float, budget: float) -> float:
    low = high / 2
    while _fits(low, sampling_rate, order, budget):
        low, high = low / 2, low
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        if _fits(middle, sampling_rate, order, budget):
            high = middle
        else:
            low = middle
    return high


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


def rounded_up(value: float, figures: int = 4) -> float:
    """Round up to so many figures."""
    unit = 10.0 ** (math.floor(math.log10(value)) - figures + 1)
    up = math.ceil(value / unit) * unit
    return float(f"{up:.{figures}g}")
