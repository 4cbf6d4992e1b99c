"""Online performance: what users saw while the ranker was learning, early pages weighing most.

Thesis eq. 2.1: the sum over t = 1 .. T of nDCG(R_t) * gamma^(t-1). In federated training t counts
rounds and the value is the mean over a round's interactions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import DataError, SettingsError

__all__ = ["GAMMA", "DiscountedSum", "discounted_sum"]

GAMMA: Final = 0.9995  # thesis, section 2.2.1


def discounted_sum(values: ArrayLike, *, gamma: float = GAMMA) -> float:
    """Return the sum of ``values[t] * gamma**t``, t from 0.

    Examples
    --------
    >>> discounted_sum([1.0, 0.5, 0.5], gamma=0.5)
    1.375
    """
    array = _checked_values(values)
    weights = _checked_gamma(gamma) ** np.arange(len(array), dtype=np.float64)
    return float((array * weights).sum())


class DiscountedSum(NamedTuple):
    """Online performance so far; each round gives a new one.

    Parameters
    ----------
    total
        The discounted sum over the rounds added.
    n_rounds
        How many rounds were added.
    gamma
        What a round is worth beside the one before.

    Examples
    --------
    >>> performance = DiscountedSum(gamma=0.5)
    >>> performance = performance.add_round([1.0, 0.5]).add_round([0.5, 0.25, 0.0])
    >>> performance.total, performance.n_rounds
    (0.875, 2)
    """

    total: float = 0.0
    n_rounds: int = 0
    gamma: float = GAMMA

    def add_round(self, values: ArrayLike) -> DiscountedSum:
        """Add the mean over a round's interactions, discounted by the rounds before it."""
        array = _checked_values(values)
        if not len(array):
            raise DataError(
                "a round without interactions has no mean",
                where=f"round {self.n_rounds}",
                remedy="leave the round out, or count it by add_round([0.0])",
            )
        worth = _checked_gamma(self.gamma) ** self.n_rounds
        return self._replace(
            total=self.total + float(array.mean()) * worth, n_rounds=self.n_rounds + 1
        )


def _checked_gamma(gamma: float) -> float:
    if not 0.0 < gamma <= 1.0:
        raise SettingsError(f"gamma lies in (0, 1] (given: {gamma})", where="gamma")
    return float(gamma)


def _checked_values(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise DataError(
            "online performance needs one finite number an interaction",
            where="values",
            remedy='count queries with nothing relevant as 0: nothing_relevant="zero"',
        )
    return array
