"""DP-FTRL: noise for the sums of the first 1, 2, ... rounds from a tree (Kairouz et al. 2021).

Independent noise in each round adds up over rounds like a random walk, unless each round is
protected by sampling that nobody can see. Where sampling cannot be enforced, the noise of
rounds is made to cancel: the sum of the first t rounds is the sum of a few nodes of a binary tree
over rounds, each of which has noise of its own, so that the noise of any sum is that of about
log2(t) nodes. The estimate of a node is bettered by those of its children (Honaker 2015, bottom
up), which costs nothing: it is computed from what is released anyway.

The noise of a node that spans rounds must be known in one place. Whoever adds it, the server, sees
the exact sum of each round: this protects from everybody who sees rankers, not from the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TreeNoise", "prefix_variance"]

Floats = NDArray[np.float64]


class _Node(NamedTuple):
    """A completed node: its height, the error of its estimate, and that error's variance."""

    height: int
    error: Floats
    variance: float


class TreeNoise:
    """The noise in the sum of the first 1, 2, 3, ... rounds.

    Parameters
    ----------
    draw
        Returns new noise of variance 1 for all values of one node; called once a node.
    sigma
        Standard deviation of a node's noise.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> noise = TreeNoise(lambda: rng.standard_normal(100_000), sigma=2.0)
    >>> [round(float(noise.next().var())) for _ in range(4)]
    [4, 3, 7, 2]
    >>> [round(4 * prefix_variance(t)) for t in range(1, 5)]
    [4, 3, 7, 2]
    """

    def __init__(self, draw: Callable[[], Floats], *, sigma: float) -> None:
        self._draw = draw
        self._sigma = sigma
        self._complete: list[_Node] = []

    def next(self) -> Floats:
        """Return the noise in the sum of one round more than before."""
        node = _Node(0, self._sigma * self._draw(), self._sigma**2)
        while self._complete and self._complete[-1].height == node.height:
            node = self._joined(self._complete.pop(), node)
        self._complete.append(node)
        total: Floats = np.sum([node.error for node in self._complete], axis=0)
        return total

    def _joined(self, left: _Node, right: _Node) -> _Node:
        """Return the parent: its own noisy sum and that of its children, weighted by precision."""
        of_children = left.variance + right.variance
        own = of_children / (of_children + self._sigma**2)
        error = own * self._sigma * self._draw() + (1 - own) * (left.error + right.error)
        return _Node(left.height + 1, error, own * self._sigma**2)


def prefix_variance(n_rounds: int) -> float:
    """Return the variance of the noise in the sum of the first rounds, for nodes of variance 1.

    Examples
    --------
    >>> prefix_variance(1), round(prefix_variance(2), 3), round(prefix_variance(3), 3)
    (1.0, 0.667, 1.667)
    """
    total, of_node = 0.0, 1.0
    for height in range(n_rounds.bit_length()):
        if n_rounds >> height & 1:
            total += of_node
        of_node = 2 * of_node / (2 * of_node + 1)
    return total
