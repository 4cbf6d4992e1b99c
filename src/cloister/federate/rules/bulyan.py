"""Bulyan: Krum chooses again and again, then coordinates near the median are averaged.

El Mhamdi, Guerraoui and Rouault (2018), with Krum as the rule inside: of n updates theta = n - 2m
are chosen, each by Krum among those left; each coordinate of the outcome is the mean of the
beta = theta - 2m chosen values that lie nearest to their median.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.federate.rules.distances import distances, n_neighbours
from cloister.federate.rules.rule import Beyond, Chosen, Received, Rule

__all__ = ["Bulyan"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Bulyan(Rule):
    """The mean of what lies nearest to the median, of updates that Krum chose one by one.

    Krum alone bounds the distance to the honest, which an attacker may spend on one coordinate;
    Bulyan bounds each coordinate. With no attackers expected it is the plain mean. Krum's
    last choices have fewer updates left than its own bound asks for; a score then looks at one
    neighbour at least.

    Parameters
    ----------
    n_attackers, beyond
        As for every rule.
    squared
        Whether Krum's scores are sums of squared distances, which the proof is for; the thesis
        sums distances.

    Examples
    --------
    >>> rule = Bulyan(n_attackers=1)
    >>> updates = [[1.0], [2.0], [3.0], [2.0], [2.0], [2.0], [99.0]]
    >>> rule.aggregate(updates, clients=range(7)).update
    array([2.])
    """

    name = "bulyan"

    def __init__(
        self, *, n_attackers: int = 0, beyond: Beyond = "refuse", squared: bool = False
    ) -> None:
        super().__init__(n_attackers=n_attackers, beyond=beyond)
        self.squared = squared

    def most_attackers(self, n: int) -> int:
        """Return the largest m with n >= 4m + 3; 0 where there is none."""
        return max(0, (n - 3) // 4)

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say whether a value is left of each coordinate: beta = n - 4m >= 1."""
        return n - 4 * n_attackers >= 1

    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Choose by Krum, then average near the median."""
        updates, n = received.updates, received.n
        if n_attackers:
            apart = distances(updates, self.squared)
            numbers = np.array([n_neighbours(left, n_attackers) for left in range(1, n + 1)])
            chosen = _chosen_by_krum(apart, apart.argsort(axis=1), numbers, n - 2 * n_attackers)
        else:
            chosen = np.ones(n, np.bool_)
        columns = np.sort(updates[chosen], axis=0)
        mean, lowest, highest = _near_median(columns, n - 4 * n_attackers)
        inside = ((updates >= lowest) & (updates <= highest)).any(axis=1)
        return Chosen(mean, chosen & inside)


@kernel
def _chosen_by_krum(apart: Floats, nearest: Ints, n_neighbours_of: Ints, n_chosen: int) -> Flags:
    """Choose rows by Krum's score among those left, one by one.

    When a row is taken away, another loses either it or the last of its neighbours from its score:
    one subtraction, where summing anew would take a walk along all neighbours.

    Parameters
    ----------
    apart
        Distances.
    nearest
        Of each row, all rows by distance.
    n_neighbours_of
        For 1, 2 ... rows left, over how many neighbours a score sums.
    n_chosen
        How many to choose.
    """
    n = len(apart)
    left = np.ones(n, np.bool_)
    place = np.empty((n, n), np.int32)  # of each row, where each other stands in `nearest`
    for i in range(n):
        for position in range(n):
            place[i, nearest[i, position]] = position
    scores, last = np.empty(n), np.empty(n, np.int64)
    k = 0
    for n_left in range(n, n - n_chosen, -1):
        n_needed = n_neighbours_of[n_left - 1]
        # Two rows that are each other's nearest have equal scores: no rounding may part them.
        if n_needed != k - 1 or n_needed == 1:
            for i in range(n):
                if left[i]:
                    scores[i], last[i] = _summed(apart[i], nearest[i], left, i, n_needed)
        k = n_needed
        best = _smallest(scores, left)
        left[best] = False
        for i in range(n):
            if left[i]:
                _forget(apart[i], nearest[i], place[i, best], best, left, i, scores, last)
    return ~left


@kernel
def _summed(apart: Floats, nearest: Ints, left: Flags, own: int, k: int) -> tuple[float, int]:
    """Sum the k shortest distances to rows that are left; say also where the last of them stands.

    A row itself is at distance 0, wherever among equal ones it is sorted.
    """
    total, found, position, last = 0.0, 0, 0, -1
    while found < k:
        other = nearest[position]
        if left[other] and other != own:
            total += apart[other]
            last = position
            found += 1
        position += 1
    return total, last


@kernel
def _smallest(scores: Floats, left: Flags) -> int:
    best = -1
    for i in range(len(scores)):
        if left[i] and (best < 0 or scores[i] < scores[best]):
            best = i
    return best


@kernel
def _forget(
    apart: Floats,
    nearest: Ints,
    gone_place: int,
    gone: int,
    left: Flags,
    own: int,
    scores: Floats,
    last: Ints,
) -> None:
    """Take one neighbour from a score: the row that is gone if it was one, else the farthest."""
    end = last[own]
    if end < 0:
        return
    if gone_place > end:
        scores[own] -= apart[nearest[end]]
        end -= 1
    else:
        scores[own] -= apart[gone]
    while end >= 0 and (not left[nearest[end]] or nearest[end] == own):
        end -= 1
    last[own] = end


@kernel
def _near_median(columns: Floats, n_kept: int) -> tuple[Floats, Floats, Floats]:
    """Return by coordinate the mean, smallest and largest of the values nearest to the median.

    Columns are sorted. Of two values equally near, the larger goes.
    """
    n, d = columns.shape
    mean, lowest, highest = np.zeros(d), np.empty(d), np.empty(d)
    for j in range(d):
        median = (columns[(n - 1) // 2, j] + columns[n // 2, j]) / 2
        first, end = 0, n - 1
        while end - first + 1 > n_kept:
            if columns[end, j] - median >= median - columns[first, j]:
                end -= 1
            else:
                first += 1
        lowest[j], highest[j] = columns[first, j], columns[end, j]
        for i in range(first, end + 1):
            mean[j] += columns[i, j]
        mean[j] /= n_kept
    return mean, lowest, highest
