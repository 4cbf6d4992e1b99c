"""Whether draws come from a distribution: exact chances, and tests against them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# A right sampler fails one comparison in a million: no test here may fail by chance.
SIGNIFICANCE = 1e-6

Chances = Callable[[NDArray[np.int64]], NDArray[np.float64]]


def discrete_laplace(scale: float) -> Chances:
    q = np.exp(-1 / scale)
    return lambda x: (1 - q) / (1 + q) * q ** np.abs(x)


def discrete_gaussian(sigma: float) -> Chances:
    support = np.arange(-int(40 * sigma) - 40, int(40 * sigma) + 41)
    total = np.exp(-0.5 * (support / sigma) ** 2).sum()
    return lambda x: np.exp(-0.5 * (x / sigma) ** 2) / total


def fit_of_whole_numbers(drawn: NDArray[np.int64], chances: Chances) -> float:
    """Return the p-value of a chi-square test; values expected under 20 times are joined."""
    x = np.arange(-4000, 4001)
    expected = chances(x) * len(drawn)
    common = x[expected >= 20]
    low, high = common.min(), common.max()
    inside = (x >= low) & (x <= high)
    seen = np.bincount(np.clip(drawn, low - 1, high + 1) - low + 1, minlength=high - low + 3)
    rest = len(drawn) - expected[inside].sum()
    wanted = np.concatenate(([rest / 2], expected[inside], [rest / 2]))
    if rest < 20:
        seen[1] += seen[0]
        seen[-2] += seen[-1]
        wanted[1] += wanted[0]
        wanted[-2] += wanted[-1]
        seen, wanted = seen[1:-1], wanted[1:-1]
    return float(stats.chisquare(seen, wanted).pvalue)


def fit_of_reals(drawn: NDArray[np.float64], distribution: str, width: float) -> float:
    """Return the p-value of a Kolmogorov-Smirnov test."""
    return float(stats.kstest(drawn / width, distribution).pvalue)
