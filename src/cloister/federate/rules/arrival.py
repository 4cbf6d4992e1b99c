"""Which updates of a round are usable, and the order in which rules look at them.

Rules get rows in one order whatever order they arrived in: lexicographic by their numbers, and by
client where two rows are equal. A tie between scores then goes to the lexicographically smallest
update, sums add up in one order, and an outcome has the same bits however clients are ordered.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel

__all__ = ["LARGEST", "arranged", "mean_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST: Final = 1e100  # the most that a number of an update may be: squares stay finite


@kernel
def arranged(updates: Floats, clients: Ints, claimed: Floats) -> tuple[Ints, Floats, bool]:
    """Return which rows are usable, in order; those rows; and whether a client is there twice.

    Usable is a row whose numbers are all finite and not above `LARGEST`, and whose claim of
    interactions is so too, and not negative. In the rows, zero has no sign.

    Examples
    --------
    >>> order, rows, repeated = arranged(
    ...     np.array([[2.0], [np.nan], [1.0]]), np.array([4, 5, 6]), np.ones(3))
    >>> order, rows.ravel(), repeated
    (array([2, 0]), array([1., 2.]), False)
    """
    order = np.empty(len(updates), np.int64)
    n = 0
    for row in range(len(updates)):
        if 0.0 <= claimed[row] <= LARGEST and _is_usable(updates[row]):
            order[n] = row
            n += 1
    order = _sorted(updates, clients, order[:n])
    rows = np.empty((n, updates.shape[1]))
    for i in range(n):
        for j in range(updates.shape[1]):
            rows[i, j] = updates[order[i], j] + 0.0  # minus zero becomes zero
    numbers = np.sort(clients)
    repeated = False
    for i in range(1, len(numbers)):
        repeated |= numbers[i] == numbers[i - 1]
    return order, rows, repeated


@kernel
def _is_usable(update: Floats) -> bool:
    usable = True
    for value in update:
        usable &= abs(value) <= LARGEST  # not for what is not a number
    return usable


@kernel
def _comes_before(updates: Floats, clients: Ints, a: int, b: int) -> bool:
    for j in range(updates.shape[1]):
        if updates[a, j] != updates[b, j]:
            return bool(updates[a, j] < updates[b, j])
    return bool(clients[a] < clients[b])


@kernel
def _sorted(updates: Floats, clients: Ints, order: Ints) -> Ints:
    """Sort row numbers by merging runs of 1, 2, 4 ... rows."""
    n = len(order)
    merged = np.empty(n, np.int64)
    width = 1
    while width < n:
        for first in range(0, n, 2 * width):
            left, right = first, min(first + width, n)
            left_end, right_end = right, min(first + 2 * width, n)
            for place in range(first, right_end):
                take_left = right >= right_end or (
                    left < left_end
                    and not _comes_before(updates, clients, order[right], order[left])
                )
                if take_left:
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@kernel
def mean_of(rows: Floats, weights: Floats, total: float) -> Floats:
    """Return the sum of weighted rows over ``total``, added up from the first row to the last.

    Examples
    --------
    >>> mean_of(np.array([[1.0], [4.0]]), np.array([2.0, 1.0]), 3.0)
    array([2.])
    """
    mean = np.zeros(rows.shape[1])
    for i in range(len(rows)):
        if weights[i] != 0.0:
            for j in range(rows.shape[1]):
                mean[j] += weights[i] * rows[i, j]
    for j in range(rows.shape[1]):
        mean[j] /= total
    return mean
