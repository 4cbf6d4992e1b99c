"""Norm bounding: no update is longer than a bound (Sun et al. 2019)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import summing_kernel
from cloister.federate.rules.arrival import mean_of
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["NormBounding", "lengths"]

Floats = NDArray[np.float64]


class NormBounding(Rule):
    """The mean of updates, each scaled down to a bound where it is longer.

    No attacker is kept out: each pulls the outcome by up to the bound over n, every round, in the
    direction that it likes. With a bound from the round itself and fewer than half of the clients
    attacking, the bound is at most ``factor`` times the longest honest update.

    Parameters
    ----------
    n_attackers, beyond
        As for every rule. Since the rule tolerates none in the sense of the others, it works with
        attackers expected only where beyond is ``mark``.
    bound
        The most that an update's Euclidean length may be; from the round's lengths unless given.
    factor
        Without a bound: the median length of the round, times this, is the bound.

    Examples
    --------
    >>> rule = NormBounding(bound=2.0)
    >>> rule.aggregate([[1.0], [1.0], [-99.0], [2.0]], clients=range(4)).update
    array([0.5])
    """

    name = "norm-bounding"

    def __init__(
        self,
        *,
        n_attackers: int = 0,
        beyond: Beyond = "refuse",
        bound: float | None = None,
        factor: float = 1.0,
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        for where, value in (("bound", bound), ("factor", factor)):
            if value is not None and not 0 < value < math.inf:
                raise SettingsError(f"must be finite and above 0 (given: {value!r})", where=where)
        self.bound = bound
        self.factor = factor

    def most_attackers(self, n: int) -> int:
        """Return 0: each attacker's pull is limited, none is borne."""
        return 0

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say that lengths can always be bounded."""
        return True

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Scale down what is too long, and average."""
        found = lengths(received.updates)
        bound = self.factor * _median(found) if self.bound is None else self.bound
        weights = np.ones(received.n)
        too_long = found > bound
        weights[too_long] = bound / found[too_long]
        used = weights > 0  # a bound of 0, where most updates are zero, leaves no other any part
        return Chosen(mean_of(received.updates, weights, received.n), used)


@summing_kernel
def lengths(updates: Floats) -> Floats:
    """Return the Euclidean length of each row.

    Examples
    --------
    >>> lengths(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([5., 0.])
    """
    result = np.empty(len(updates))
    for i in range(len(updates)):
        total = 0.0
        for value in updates[i]:
            total += value * value
        result[i] = np.sqrt(total)
    return result


def _median(values: Floats) -> float:
    n = len(values)
    middle = np.sort(values)[(n - 1) // 2 : n // 2 + 1]
    return float(middle[0] + middle[-1]) / 2
