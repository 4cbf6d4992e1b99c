"""Click inference by least squares from clients that clip their whole ranker.

Two things are known and used. PDGD's weights of a page add up to 0. And a client that clips its
parameters, and not its update, sends s (w + u) with an unknown s: less the global ranker w that is
s u and a multiple of w, which is one more unknown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_inference import Guess, pseudoinverse, without_rounding

__all__ = ["clipped_least_squares", "unknowns", "weights_of"]

Floats = NDArray[np.float64]


def clipped_least_squares(rows: Floats, updates: Floats, parameters: Floats) -> Guess:
    """Solve for weights that add up to 0, beside a multiple of the global ranker.

    Parameters
    ----------
    rows, updates
        As for `least_squares`; one page an observation.
    parameters
        Of the global ranker.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows, ranker = rng.normal(size=(1, 3, 20)), rng.normal(size=20)
    >>> client = ranker + np.array([0.4, -0.3, -0.1]) @ rows[0]
    >>> clipped_least_squares(rows, 0.5 * client[None] - ranker, ranker).values.round(6)
    array([[ 0.2 , -0.15, -0.05]])
    """
    solution = np.einsum("opd,op->od", pseudoinverse(unknowns(rows, parameters)), updates)
    weights = without_rounding(weights_of(solution))
    return Guess(weights, weights > 0)


def unknowns(rows: Floats, parameters: Floats) -> Floats:
    """Return what is solved for: all documents less the last, then the ranker."""
    whole = np.broadcast_to(parameters, (len(rows), 1, rows.shape[2]))
    return np.concatenate([rows[:, :-1] - rows[:, -1:], whole], axis=1)


def weights_of(solution: Floats) -> Floats:
    """Return the weights of all documents from a solution for `unknowns`."""
    some = solution[:, :-1]
    return np.concatenate([some, -some.sum(axis=1, keepdims=True)], axis=1)
