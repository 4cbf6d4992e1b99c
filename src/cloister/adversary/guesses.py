"""How often an attack guesses right between two inputs, and how often it may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError

__all__ = ["Guesses", "advantage_bound", "count_guesses", "guess_by_score", "joined"]

RISK: Final = 0.05  # of an interval

Floats = NDArray[np.float64]


class Guesses(NamedTuple):
    """Right guesses, with Clopper and Pearson's exact interval at 95 %.

    Parameters
    ----------
    accuracy, low, high
        Share of right guesses between two inputs that are equally likely; chance is 0.5.
    n_trials
        How many guesses.
    """

    accuracy: float
    low: float
    high: float
    n_trials: int

    @property
    def advantage(self) -> tuple[float, float, float]:
        """True less false positives, with its interval: twice the accuracy less 1."""
        return 2 * self.accuracy - 1, 2 * self.low - 1, 2 * self.high - 1


def joined(parts: Sequence[Guesses]) -> Guesses:
    """Return the guesses of several runs as one."""
    n = sum(part.n_trials for part in parts)
    k = sum(round(part.accuracy * part.n_trials) for part in parts)
    return count_guesses(np.arange(n) < k)


def count_guesses(right: NDArray[np.bool_]) -> Guesses:
    """Count right guesses.

    Examples
    --------
    >>> found = count_guesses(np.ones(1000, bool))
    >>> found.accuracy, round(found.low, 3)
    (1.0, 0.996)
    """
    from scipy.special import betaincinv

    n = len(right)
    if not n:
        raise DataError("no guess was made", where="guesses")
    k = int(np.count_nonzero(right))
    low = float(betaincinv(k, n - k + 1, RISK / 2)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - RISK / 2)) if k < n else 1.0
    return Guesses(k / n, low, high, n)


def guess_by_score(
    scores: Floats, truth: NDArray[np.bool_], *, rng: np.random.Generator
) -> Guesses:
    """Guess "yes" where a score is above 0, "no" below, and throw a coin at 0."""
    coin = rng.integers(2, size=len(scores)).astype(np.bool_)
    guess = np.where(scores == 0, coin, scores > 0)
    return count_guesses(guess == truth)


def advantage_bound(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest advantage that epsilon and delta allow: (e^eps - 1 + 2 delta)/(e^eps + 1).

    Examples
    --------
    >>> round(advantage_bound(1.0), 4), advantage_bound(math.inf)
    (0.4621, 1.0)
    """
    shrunk = math.exp(-epsilon)
    return min(1.0, (1 - shrunk + 2 * delta * shrunk) / (1 + shrunk))
