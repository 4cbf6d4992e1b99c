"""The distinguishing attack: a lower bound on epsilon from guesses about neighbouring inputs.

An adversary who tells two neighbouring inputs apart better than epsilon and delta allow shows that
they do not hold: of any event E, P(E | one) <= exp(epsilon) P(E | other) + delta. Here the event is
"the score is beyond a threshold". The threshold is chosen on one half of the trials; on the other
half both chances are bounded by Clopper and Pearson's exact intervals, so that the bound holds with
the stated confidence whatever the score is. A poor score gives a low bound, never a wrong one.

The bound speaks of the neighbouring inputs that were tried. It proves a guarantee false, or leaves
it standing; it never proves one true.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = [
    "LowerBound",
    "epsilon_ceiling",
    "epsilon_lower_bound",
    "laplace_log_ratio",
    "normal_log_ratio",
]

Floats = NDArray[np.float64]

N_INTERVALS: Final = 4  # two chances in each of two directions share what may go wrong
GRID: Final = 1.02  # between the numbers of false alarms at which thresholds are tried
FAR: Final = 500.0  # a log likelihood ratio whose exponential still is a number
BEYOND: Final = 1e300  # stands for infinite scores, so that there is a middle between any two


class LowerBound(NamedTuple):
    """What an attack showed.

    Parameters
    ----------
    epsilon
        No smaller epsilon holds, together with ``delta``; at least 0.
    ceiling
        What so many trials show at most: the bound of an attack that is never wrong.
    confidence
        The least chance, before the trials, that the bound will be a true one.
    delta
        The chance that is conceded to the guarantee.
    n_trials
        Trials of each of the two inputs; half of them choose the threshold.
    true_positive_rate
        The lower confidence limit of the chance of the event under the input that it speaks for.
    false_positive_rate
        The upper confidence limit of its chance under the other input.
    """

    epsilon: float
    ceiling: float
    confidence: float
    delta: float
    n_trials: int
    true_positive_rate: float
    false_positive_rate: float


def epsilon_lower_bound(
    first_scores: ArrayLike,
    second_scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
) -> LowerBound:
    """Bound epsilon from below by the scores of trials with two neighbouring inputs.

    Parameters
    ----------
    first_scores, second_scores
        One number for each trial, as many of each input, all trials apart from each other. High
        scores speak for the second input.
    delta
        Of the guarantee that is tried.
    confidence
        Of the bound as a whole.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> first, second = rng.laplace(0, 1, 100_000), rng.laplace(1, 1, 100_000)  # true epsilon: 1
    >>> 0.9 < epsilon_lower_bound(first, second).epsilon < 1
    True
    >>> epsilon_lower_bound(first, first[::-1]).epsilon < 0.05
    True
    """
    first, second = _checked(first_scores), _checked(second_scores)
    if len(first) != len(second):
        raise DataError(
            f"as many trials of each input are needed ({len(first)} and {len(second)})",
            where="scores",
        )
    ceiling = epsilon_ceiling(len(first), delta=delta, confidence=confidence)
    risk = (1 - confidence) / N_INTERVALS
    found = max(
        _one_direction(first, second, delta, risk), _one_direction(-second, -first, delta, risk)
    )
    epsilon, hits, alarms = found
    return LowerBound(epsilon, ceiling, confidence, delta, len(first), hits, alarms)


def epsilon_ceiling(n_trials: int, *, delta: float = 0.0, confidence: float = 0.99) -> float:
    """Return the bound of an attack that is never wrong in ``n_trials`` of each input.

    Examples
    --------
    >>> [round(epsilon_ceiling(n), 1) for n in (1000, 100_000, 1_000_000)]
    [4.4, 9.0, 11.3]
    """
    if n_trials < 2:
        raise SettingsError(f"at least 2 (given: {n_trials})", where="n_trials")
    if not 0 <= delta < 1:
        raise SettingsError(f"must be at least 0 and below 1 (given: {delta})", where="delta")
    if not 0 < confidence < 1:
        raise SettingsError(f"must lie between 0 and 1 (given: {confidence})", where="confidence")
    n_judged = n_trials - n_trials // 2
    risk = (1 - confidence) / N_INTERVALS
    return float(_bounds(np.array([n_judged]), np.array([0]), n_judged, delta, risk)[0][0])


def normal_log_ratio(
    values: ArrayLike, shift: float, sigma: float, *, sampling_rate: float = 1.0
) -> Floats:
    """Return how much more likely values are if ``shift`` was added before normal noise.

    Parameters
    ----------
    values
        What was seen: noise around 0 or around ``shift``. For discrete normal noise and whole
        numbers the ratio is the same.
    shift
        What one of the inputs adds.
    sigma
        Standard deviation of the noise; of discrete noise, its width.
    sampling_rate
        The chance that it was added at all, unknown to whoever sees the values.

    Examples
    --------
    >>> normal_log_ratio([0.5, 1.0], shift=1.0, sigma=1.0)
    array([0. , 0.5])
    """
    seen = np.asarray(values, np.float64)
    ratio: Floats = (seen - shift / 2) * (shift / sigma**2)
    if sampling_rate == 1:
        return ratio
    near = np.minimum(ratio, FAR)  # beyond, the sampled ratio is a constant below the plain one
    mixed: Floats = np.log1p(sampling_rate * np.expm1(near)) + (ratio - near)
    return mixed


def laplace_log_ratio(values: ArrayLike, shift: float, scale: float) -> Floats:
    """Return how much more likely values are if ``shift`` was added before Laplace noise.

    For discrete Laplace noise and whole numbers the ratio is the same.

    Examples
    --------
    >>> laplace_log_ratio([-3.0, 0.5, 3.0], shift=1.0, scale=2.0)
    array([-0.5,  0. ,  0.5])
    """
    seen = np.asarray(values, np.float64)
    # |y| - |y - shift|, which is flat on both sides
    between = np.clip(seen, min(0.0, shift), max(0.0, shift))
    ratio: Floats = (2 * between - shift) * (math.copysign(1.0, shift) / scale)
    return ratio


def _checked(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, np.float64)
    if values.ndim != 1:
        raise DataError("one number for each trial is needed", where="scores")
    if np.isnan(values).any():
        raise DataError("some are not numbers", where="scores")
    return np.clip(values, -BEYOND, BEYOND)


def _one_direction(
    calm: Floats, loud: Floats, delta: float, risk: float
) -> tuple[float, float, float]:
    """Choose a threshold on the first half; bound the event "above it" on the second."""
    n = len(calm) // 2
    threshold = _best_threshold(np.sort(calm[:n]), np.sort(loud[:n]), delta, risk)
    hits = np.count_nonzero(loud[n:] > threshold)
    alarms = np.count_nonzero(calm[n:] > threshold)
    bounds = _bounds(np.array([hits]), np.array([alarms]), len(calm) - n, delta, risk)
    epsilon, low, high = (float(values[0]) for values in bounds)
    return epsilon, low, high


def _best_threshold(calm: Floats, loud: Floats, delta: float, risk: float) -> float:
    """Return the threshold with the highest bound; scores come sorted."""
    n = len(calm)
    edges = np.unique(calm[n - 1 - _tried_alarms(n)])
    # Halfway to the next score above, so that unseen scores near either side fall on that side.
    above = np.minimum(_next_above(calm, edges), _next_above(loud, edges))
    middle = edges / 2 + above / 2
    thresholds = np.where((middle < above) & (middle > edges), middle, edges)
    hits = n - np.searchsorted(loud, thresholds, side="right")
    alarms = n - np.searchsorted(calm, thresholds, side="right")
    epsilon, low, high = _bounds(hits, alarms, n, delta, risk)
    # Where nothing can be shown the rates still say which threshold is the best.
    return float(thresholds[np.lexsort((low - high, epsilon))[-1]])


def _tried_alarms(n: int) -> NDArray[np.int64]:
    """Return numbers of false alarms below ``n``: all small ones, then ever fewer."""
    steps = math.ceil(math.log(n) / math.log(GRID)) + 1
    return np.unique(np.minimum(np.r_[0, GRID ** np.arange(steps)], n - 1).astype(np.int64))


def _next_above(ordered: Floats, edges: Floats) -> Floats:
    """Return, for each edge, the least value that is greater."""
    places = np.searchsorted(ordered, edges, side="right")
    padded: Floats = np.append(ordered, 2 * BEYOND)
    return padded[places]


def _bounds(
    hits: NDArray[Any], alarms: NDArray[Any], n: int, delta: float, risk: float
) -> tuple[Floats, Floats, Floats]:
    """Return the bounds on epsilon, and the limits of both chances that they follow from."""
    low, high = _lower_limit(hits, n, risk), _upper_limit(alarms, n, risk)
    ratio = np.maximum(low - delta, 0.0) / high
    return np.log(np.maximum(ratio, 1.0)), low, high


def _lower_limit(k: NDArray[Any], n: int, risk: float) -> Floats:
    """Return the chance with which k or more of n have the chance ``risk`` (Clopper-Pearson)."""
    from scipy.special import betaincinv

    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, risk), 0.0)


def _upper_limit(k: NDArray[Any], n: int, risk: float) -> Floats:
    """Return the chance with which k or fewer of n have the chance ``risk``."""
    from scipy.special import betainccinv

    return np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), risk), 1.0)
