"""Bootstrap intervals (Efron, 1979) for a mean and for the mean difference of paired values."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.measure.significance import paired_differences

__all__ = ["Interval", "mean_difference_interval", "mean_interval"]

Method = Literal["percentile", "BCa"]

N_RESAMPLES: Final = 9_999
FEWEST_RESAMPLES: Final = 100  # fewer say nothing about the tails
_BATCH: Final = 4_000_000  # numbers drawn at once: 32 MB


class Interval(NamedTuple):
    """A mean with its confidence interval; ``n`` values were used."""

    estimate: float
    low: float
    high: float
    confidence: float
    n: int


def mean_interval(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    method: Method = "percentile",
) -> Interval:
    """Return the mean of the values that are not NaN, with its bootstrap interval.

    Parameters
    ----------
    values
        One value a query, fold or seed; at least two.
    rng
        Draws the resamples.
    confidence
        How often such intervals hold the true mean, about; too seldom with few values.
    n_resamples
        How many resamples to draw.
    method
        ``"percentile"``, or ``"BCa"``: corrected for bias and skew, and slower.

    Examples
    --------
    >>> interval = mean_interval(range(100), rng=np.random.default_rng(1))
    >>> interval.estimate, bool(43 < interval.low < 45), bool(54 < interval.high < 56)
    (49.5, True, True)
    """
    _check_settings(confidence, n_resamples, method)
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise DataError(f"one list of values, not the shape {array.shape}", where="values")
    array = array[~np.isnan(array)]
    if len(array) < 2 or np.isinf(array).any():
        raise DataError(
            f"a bootstrap needs two finite values or more; there are {array.size}",
            where="values",
            remedy="measure more queries, folds or seeds",
        )
    if np.ptp(array) == 0.0:  # every resample is the same
        estimate = low = high = float(array[0])
    else:
        estimate = float(array.mean())
        low, high = _resample(array, rng, confidence, n_resamples, method)
    return Interval(estimate, low, high, confidence, len(array))


def mean_difference_interval(
    system: ArrayLike,
    baseline: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    method: Method = "percentile",
) -> Interval:
    """Return the mean of system less baseline over the same queries, with its interval.

    Pairs are resampled as pairs; those that hold a NaN are left out. Other parameters are those
    of `mean_interval`.

    Examples
    --------
    >>> mean_difference_interval([0.75, 0.5], [0.5, 0.25], rng=np.random.default_rng(1))
    Interval(estimate=0.25, low=0.25, high=0.25, confidence=0.95, n=2)
    """
    differences, _ = paired_differences(system, baseline)
    return mean_interval(
        differences, rng=rng, confidence=confidence, n_resamples=n_resamples, method=method
    )


def _check_settings(confidence: float, n_resamples: int, method: Method) -> None:
    if not 0.0 < confidence < 1.0:
        raise SettingsError(f"confidence lies in (0, 1) (given: {confidence})", where="confidence")
    if n_resamples < FEWEST_RESAMPLES:
        raise SettingsError(
            f"at least {FEWEST_RESAMPLES} (given: {n_resamples})", where="n_resamples"
        )
    if method not in get_args(Method):
        raise SettingsError(
            f"unknown method {method!r}", where="method", remedy='use "percentile" or "BCa"'
        )


def _resample(
    values: NDArray[np.float64],
    rng: np.random.Generator,
    confidence: float,
    n_resamples: int,
    method: Method,
) -> tuple[float, float]:
    from scipy.stats import bootstrap  # takes 1.2 s to import

    outcome = bootstrap(
        (values,),
        np.mean,
        vectorized=True,
        confidence_level=confidence,
        n_resamples=n_resamples,
        batch=max(1, _BATCH // len(values)),
        method=method,
        rng=rng,
    )
    interval = outcome.confidence_interval
    return float(interval.low), float(interval.high)
