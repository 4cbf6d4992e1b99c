"""L-BFGS: how a slope changes along a step, from the steps and changes seen so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import summing_kernel

__all__ = ["hessian_times"]

Floats = NDArray[np.float64]


@summing_kernel
def hessian_times(steps: Floats, changes: Floats, vectors: Floats) -> Floats:
    """Return the L-BFGS estimate of the Hessian times each vector.

    BFGS's formula, unrolled (Nocedal and Wright, Numerical Optimization, section 7.2), from the
    multiple of the identity that fits the newest pair. The estimate is positive definite, and the
    newest step times it is the newest change.

    Parameters
    ----------
    steps, changes
        Pairs x parameters, oldest first: how the point moved, and how the gradient changed by it.
        Each step has a positive product with its change.
    vectors
        What to multiply, a row each.

    Examples
    --------
    >>> hessian_times(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]]))
    array([[2., 2.]])
    """
    n_pairs, d = steps.shape
    result = np.zeros_like(vectors)
    if n_pairs == 0:
        return result
    scale = _dot(changes[-1], steps[-1]) / _dot(steps[-1], steps[-1])
    added, removed = np.empty((n_pairs, d)), np.empty((n_pairs, d))
    for pair in range(n_pairs):
        added[pair] = changes[pair] / np.sqrt(_dot(changes[pair], steps[pair]))
        _multiply(scale, added[:pair], removed[:pair], steps[pair], removed[pair])
        removed[pair] /= np.sqrt(_dot(steps[pair], removed[pair]))
    for row in range(len(vectors)):
        _multiply(scale, added, removed, vectors[row], result[row])
    return result


@summing_kernel
def _dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@summing_kernel
def _multiply(scale: float, added: Floats, removed: Floats, vector: Floats, result: Floats) -> None:
    """Write the estimate made of some pairs, times a vector, to the result."""
    for j in range(len(vector)):
        result[j] = scale * vector[j]
    for pair in range(len(added)):
        plus, minus = _dot(added[pair], vector), _dot(removed[pair], vector)
        for j in range(len(vector)):
            result[j] += plus * added[pair, j] - minus * removed[pair, j]
