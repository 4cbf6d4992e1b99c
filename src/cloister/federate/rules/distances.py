"""How far updates are from each other, and Krum's score: shared by Krum, Multi-Krum and Bulyan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import summing_kernel

__all__ = ["distances", "krum_scores", "n_neighbours"]

Floats = NDArray[np.float64]


@summing_kernel
def distances(updates: Floats, squared: bool) -> Floats:
    """Return the Euclidean distance of each two rows, or its square.

    Differences are taken before squares, so that nothing cancels.

    Examples
    --------
    >>> distances(np.array([[0.0, 0.0], [3.0, 4.0]]), False)
    array([[0., 5.],
           [5., 0.]])
    """
    n, d = updates.shape
    result = np.zeros((n, n))
    for a in range(n):
        first = updates[a]
        for b in range(a):
            second = updates[b]
            total = 0.0
            for j in range(d):
                difference = first[j] - second[j]
                total += difference * difference
            result[a, b] = total if squared else np.sqrt(total)
            result[b, a] = result[a, b]
    return result


def n_neighbours(n: int, n_attackers: int) -> int:
    """Return how many nearest others Krum's score sums over: n - m - 2.

    At least one where there is another, since one client or two are also to be aggregated.

    Examples
    --------
    >>> n_neighbours(10, 4), n_neighbours(2, 0), n_neighbours(1, 0)
    (4, 1, 0)
    """
    return min(max(1, n - n_attackers - 2), n - 1)


def krum_scores(updates: Floats, n_attackers: int, *, squared: bool) -> Floats:
    """Return Krum's score of each row: the sum of its shortest distances (thesis eq. 5.2).

    Sums run over sorted distances: rows with the same distances have the same score to the bit.

    Examples
    --------
    >>> krum_scores(np.array([[0.0], [1.0], [2.0], [9.0], [9.5]]), 1, squared=False)
    array([3. , 2. , 3. , 7.5, 8. ])
    """
    nearest = np.sort(distances(updates, squared), axis=1)
    k = n_neighbours(len(updates), n_attackers)
    scores: Floats = nearest[:, 1 : k + 1].sum(axis=1)  # the first is the row itself, at 0
    return scores
