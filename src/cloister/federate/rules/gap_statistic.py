"""The gap statistic: do values fall into two clusters, or is one enough (Tibshirani et al. 2001).

Values are split in two so that squares within are smallest (2-means, exact on a line). How much
smaller they are than in one cluster is compared with the same for values drawn uniformly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream

__all__ = ["Split", "gap_to_one_cluster", "two_means"]

Floats = NDArray[np.float64]

N_REFERENCES: Final = 200
REFERENCE_SEED: Final = 2001  # the reference is a table of constants, the same in every run
_EQUAL: Final = 1e-9  # values that differ by less, beside the largest, are one cluster


class Split(NamedTuple):
    """Values in two clusters.

    Parameters
    ----------
    upper
        Which values are in the cluster of the larger ones; none where all are equal.
    log_ratio
        Logarithm of the squares in one cluster over those in two.
    """

    upper: NDArray[np.bool_]
    log_ratio: float


def two_means(values: Floats) -> Split:
    """Split values in two where the sum of squared distances to the clusters' means is smallest.

    Examples
    --------
    >>> two_means(np.array([1.0, 9.0, 1.5, 2.0])).upper
    array([False,  True, False, False])
    """
    ordered = np.sort(values)
    n, spread = len(values), float(ordered[-1] - ordered[0])
    if spread <= _EQUAL * max(abs(ordered[0]), abs(ordered[-1])):
        return Split(np.zeros(n, np.bool_), 0.0)
    scaled = (ordered - ordered[0]) / spread
    one, two, first = _squares(scaled)
    ratio = np.inf if two <= _EQUAL**2 else np.log(one / two)
    return Split(values >= ordered[first], float(ratio))


def _squares(ordered: Floats) -> tuple[float, float, int]:
    """Return the squares in one cluster and in the best two, and where the second begins."""
    n = len(ordered)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered * ordered)
    sizes = np.arange(1, n)
    below = squares[:-1] - sums[:-1] ** 2 / sizes
    above = (squares[-1] - squares[:-1]) - (sums[-1] - sums[:-1]) ** 2 / (n - sizes)
    within = np.where(ordered[1:] > ordered[:-1], below + above, np.inf)
    best = int(within.argmin())
    return float(squares[-1] - sums[-1] ** 2 / n), max(0.0, float(within[best])), best + 1


def gap_to_one_cluster(n: int, log_ratio: float) -> float:
    """Return by how many standard errors two clusters explain n values better than chance.

    Above 1, the rule of Tibshirani et al. finds more than one cluster: Gap(1) < Gap(2) - s(2).

    Examples
    --------
    >>> values = np.array([1.0, 1.1, 1.2, 0.9, 0.8, 5.0, 5.1])
    >>> gap_to_one_cluster(7, two_means(values).log_ratio) > 1
    True
    """
    expected, error = _reference(n)
    return (log_ratio - expected) / error


@lru_cache(maxsize=4096)
def _reference(n: int) -> tuple[float, float]:
    """Return the mean logarithm of the ratio for n uniform values, and s(2)."""
    values = np.sort(stream(REFERENCE_SEED, "gap statistic", n).random((N_REFERENCES, n)))
    squares = np.array([_squares(row)[:2] for row in values])
    logs = np.log(np.maximum(squares, _EQUAL**2))
    error = logs[:, 1].std() * np.sqrt(1 + 1 / N_REFERENCES)
    return float((logs[:, 0] - logs[:, 1]).mean()), float(error)
