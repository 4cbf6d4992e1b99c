"""How much noise a number of term-frequency queries needs, by release policy."""

from __future__ import annotations

import math
from typing import NamedTuple

from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.sketch.per_query_release import IndependentNoise, OwnerMedian

__all__ = ["QueryNoise", "laplace_cost", "median_cost", "query_noise"]


class QueryNoise(NamedTuple):
    """Standard deviations of the noise with which so many answers fit a limit of one epsilon.

    Parameters
    ----------
    n_answers
        How many different queries are answered, to whomsoever.
    laplace, gaussian
        Fresh noise on every counter of every answer.
    median
        Fresh Laplace noise on one number, a median taken by the owner.
    once
        Normal noise on every cell, once and for all answers; that of the one-shot release.
    """

    n_answers: int
    laplace: float
    gaussian: float
    median: float
    once: float


def query_noise(epsilon: float, delta: float, *, n_rows: int, n_answers: int) -> QueryNoise:
    """Return the noise that a number of answers needs. Laplace noise goes by the plain sum.

    Examples
    --------
    >>> few, many = (query_noise(8.0, 1e-6, n_rows=30, n_answers=n) for n in (1, 2400))
    >>> round(many.laplace / few.laplace), many.once == few.once
    (2400, True)
    """
    gaussian, once = (
        IndependentNoise.calibrated(epsilon, delta=delta, n_rows=n_rows, n_answers=n).width
        for n in (n_answers, 1)
    )
    laplace = math.sqrt(2) * n_answers / epsilon
    return QueryNoise(n_answers, n_rows * laplace, gaussian, laplace, once)


def laplace_cost(epsilon: float, delta: float, *, n_rows: int, n_answers: int) -> float:
    """Return what so many answers with Laplace noise of ``epsilon`` each cost together."""
    noise = IndependentNoise.calibrated(epsilon, n_rows=n_rows, noise="laplace")
    one = noise.mechanism(n_rows).release(n_rows)
    return composed_epsilon(losses_of([one] * n_answers, Level.TOKEN), delta).epsilon


def median_cost(policy: OwnerMedian, delta: float, *, n_answers: int) -> float:
    """Return what so many medians taken by the owner cost together, each of one term.

    Examples
    --------
    >>> round(median_cost(OwnerMedian(epsilon=0.5), 1e-6, n_answers=1), 3)
    0.5
    """
    one = policy.mechanism(sensitivity=2).release(1)
    return composed_epsilon(losses_of([one] * n_answers, Level.TOKEN), delta).epsilon
