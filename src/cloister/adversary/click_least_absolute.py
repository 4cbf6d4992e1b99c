"""Click inference by least absolute deviations: what most coordinates of an update agree on.

The paper's noise leaves most coordinates of a single message practically untouched and strikes few
of them hard. Least squares spreads such errors over all weights; least absolute deviations ignores
them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_clipped_squares import unknowns, weights_of
from cloister.adversary.click_inference import ROUNDING, SURE, Guess, without_rounding

__all__ = ["least_absolute_deviations"]

Floats = NDArray[np.float64]

SWEEPS: Final = 60
_STEP: Final = 0.15  # decades by which a sweep is less forgiving than the one before


def least_absolute_deviations(rows: Floats, updates: Floats, parameters: Floats) -> Guess:
    """Solve for the weights that leave the least sum of absolute deviations.

    Least squares again and again, each coordinate weighted by one over how far off it was. With
    noise in few coordinates these end with no say. As in
    :mod:`cloister.adversary.click_clipped_squares`, weights add up to 0, and clipping is known.

    Parameters
    ----------
    rows, updates
        As for `least_squares`; one page an observation.
    parameters
        Of the global ranker.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows, weights = rng.normal(size=(1, 3, 20)), np.array([0.4, -0.3, -0.1])
    >>> seen = weights @ rows
    >>> seen[0, 7] += 100.0
    >>> least_absolute_deviations(rows, seen, np.zeros(20)).values.round(4)
    array([[ 0.4, -0.3, -0.1]])
    """
    unit = ROUNDING * max(float(np.abs(parameters).max(initial=0.0)), 1e-30)
    solution, errors = _reweighted(unknowns(rows, parameters), updates, unit)
    weights = weights_of(solution)
    largest = errors[:, :-1].max(axis=1, keepdims=True)  # for the last, which is found from all
    bar = SURE * np.concatenate([errors[:, :-1], largest], axis=1)
    return Guess(without_rounding(weights), weights > bar)


def _reweighted(design: Floats, updates: Floats, unit: float) -> tuple[Floats, Floats]:
    """Return solutions, and the standard error of each that rounding alone explains."""
    scale = np.abs(updates).max(axis=1, initial=0.0)[:, None]
    trust = np.ones(updates.shape)
    identity = np.eye(design.shape[1])
    for sweep in range(SWEEPS):
        weighted = design * np.sqrt(trust)[:, None, :]
        gram = weighted @ weighted.transpose(0, 2, 1)
        ridge = 1e-12 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
        target = np.einsum("odp,op->od", weighted, np.sqrt(trust) * updates)
        solution = np.linalg.solve(gram + ridge * identity, target[..., None])[..., 0]
        off = np.abs(updates - np.einsum("od,odp->op", solution, design))
        floor = np.maximum(scale * 10.0 ** (-_STEP * sweep), unit)  # less and less forgiving
        trust = np.minimum(1.0, floor / np.maximum(off, 1e-300))
    inverse = np.linalg.inv(gram + ridge * identity)
    return solution, unit * np.sqrt(np.maximum(np.einsum("odd->od", inverse), 0.0))
