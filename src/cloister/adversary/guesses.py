"""How often an attack guesses right between two inputs, and how often it may."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.privacy.releases.noisy_tables import NoisyTable

__all__ = [
    "Guesses",
    "advantage_bound",
    "count_guesses",
    "guess_by_score",
    "joined",
    "laplace_accuracy",
    "laplace_accuracy_of_shifts",
    "noisy_accuracy",
    "normal_accuracy",
]

RISK: Final = 0.05  # of an interval
FAR: Final = 3.0  # standard errors from what was predicted: one run in 370 by chance

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

    def agrees_with(self, predicted: float) -> bool:
        """Say whether a predicted share of right guesses is within three standard errors.

        Examples
        --------
        >>> found = count_guesses(np.arange(1000) < 620)
        >>> found.agrees_with(0.6), found.agrees_with(0.7)
        (True, False)
        """
        error = math.sqrt(predicted * (1 - predicted) / self.n_trials)
        # Half a guess more, so that a share that no number of guesses meets exactly is no miss.
        return abs(self.accuracy - predicted) <= FAR * error + 0.5 / self.n_trials


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


def normal_accuracy(distance: float) -> float:
    """Return how often the best guess is right where noise is normal: Phi(distance / 2).

    Discrete noise that is not narrow comes to the same.

    Parameters
    ----------
    distance
        Between the two inputs, in standard deviations: the root of the sum, over all values that
        are seen, of (shift / sigma) squared.

    Examples
    --------
    >>> round(normal_accuracy(2.0), 4)
    0.8413
    """
    return 0.5 * (1 + math.erf(distance / math.sqrt(8)))


def laplace_accuracy(scale: float, *, shift: int = 1, n_values: int = 1) -> float:
    """Return how often the best guess is right where values have discrete Laplace noise each.

    Of a value y, the log likelihood ratio is that of y cut to 0..shift. The sum over the values
    speaks for one of the inputs, or a coin does.

    Parameters
    ----------
    scale
        Of the noise.
    shift
        By which one of the inputs moves each value.
    n_values
        How many values, with noise of their own.

    Examples
    --------
    >>> keep = math.e / (1 + math.e)  # one value moved by 1: randomised response
    >>> math.isclose(laplace_accuracy(1.0), keep)
    True
    """
    return laplace_accuracy_of_shifts(scale, {shift: n_values})


def laplace_accuracy_of_shifts(scale: float, shifts: Mapping[int, int]) -> float:
    """Return the same where values are moved by different steps: how many by each step.

    Examples
    --------
    >>> laplace_accuracy_of_shifts(2.0, {1: 2}) == laplace_accuracy(2.0, n_values=2)
    True
    """
    ratio = math.exp(-1 / scale)
    total = np.ones(1)  # chances of the cut values' sum, where nothing was added
    for shift, n_values in shifts.items():
        at = np.arange(shift + 1)
        chances: Floats = np.asarray((1 - ratio) / (1 + ratio) * ratio**at, np.float64)
        chances[0], chances[-1] = 1 / (1 + ratio), ratio**shift / (1 + ratio)
        total = np.convolve(total, _many(chances, n_values))
    middle = sum(shift * n for shift, n in shifts.items()) / 2
    place = np.arange(len(total))
    return float(total[place < middle].sum() + total[place == middle].sum() / 2)


def noisy_accuracy(tables: Sequence[NoisyTable], n_rounds: int = 1) -> float:
    """Return how often the best guess about one unit is right, where all noisy values are seen.

    Each value that the unit moves, by one step, has noise of its table's family. A value with
    Laplace noise speaks for one of the inputs by as much either way; those with normal noise add up
    to one normal number.

    Examples
    --------
    >>> cells = NoisyTable(name="cells", family="discrete-laplace", width=1.0, n_moved=1)
    >>> math.isclose(noisy_accuracy([cells]), laplace_accuracy(1.0))
    True
    """
    laplace = [table for table in tables if table.family == "discrete-laplace"]
    normal = sum(t.n_moved / t.width**2 for t in tables if t.family == "discrete-gaussian")
    distance = math.sqrt(n_rounds * normal)
    said, chances = np.zeros(1), np.ones(1)  # log ratio of the Laplace values where the unit is in
    for table in laplace:
        n = n_rounds * table.n_moved
        right = 1 / (1 + math.exp(-1 / table.width))
        steps = np.arange(n + 1)
        said = np.add.outer(said, (2 * steps - n) / table.width).ravel()
        chances = np.outer(chances, _many(np.array([1 - right, right]), n)).ravel()
    if not distance:
        return float(chances[said > 0].sum() + chances[said == 0].sum() / 2)
    return float(
        sum(
            chance * _normal_below(log_ratio / distance + distance / 2)
            for log_ratio, chance in zip(said, chances, strict=True)
        )
    )


def _normal_below(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _many(chances: Floats, n: int) -> Floats:
    """Return the chances of the sum of n independent variables, by doubling."""
    total = np.ones(1)
    while n:
        if n % 2:
            total = np.convolve(total, chances)
        chances, n = np.convolve(chances, chances), n // 2
    return total
