"""Arithmetic of pointwise linear rankers; nothing is checked here.

Parameters lie output by output: the weights of the features, then the bias. One output is linear
regression, several are the logits of as many grades.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel

__all__ = ["add_gradient", "run_pass", "score_rows"]

Floats = NDArray[np.float64]


@kernel
def _outputs(parameters: Floats, n_outputs: int, x: NDArray[Any], out: Floats) -> None:
    """Write the linear functions of a row; for several, their softmax."""
    width = len(x) + 1
    for k in range(n_outputs):
        total = parameters[k * width + len(x)]
        for f in range(len(x)):
            total += parameters[k * width + f] * x[f]
        out[k] = total
    if n_outputs > 1:
        highest = out[0]
        for k in range(1, n_outputs):
            highest = max(highest, out[k])
        total = 0.0
        for k in range(n_outputs):
            out[k] = np.exp(out[k] - highest)
            total += out[k]
        for k in range(n_outputs):
            out[k] /= total


@kernel
def score_rows(parameters: Floats, n_outputs: int, features: NDArray[Any], scores: Floats) -> None:
    """Score all rows: the output, or the grade to be expected."""
    out = np.empty(n_outputs)
    for row in range(len(features)):
        _outputs(parameters, n_outputs, features[row], out)
        if n_outputs == 1:
            scores[row] = out[0]
        else:
            expected = 0.0
            for k in range(n_outputs):
                expected += k * out[k]
            scores[row] = expected


@kernel
def add_gradient(
    parameters: Floats,
    n_outputs: int,
    features: NDArray[Any],
    labels: NDArray[np.int64],
    weights: Floats,
    rows: NDArray[np.int64],
    gradient: Floats,
) -> float:
    """Add the gradient of the rows' losses, without the penalty; return the sum of the losses."""
    width = features.shape[1] + 1
    out = np.empty(n_outputs)
    loss = 0.0
    for row in rows:
        x, weight = features[row], weights[row]
        _outputs(parameters, n_outputs, x, out)
        if n_outputs == 1:
            out[0] -= labels[row]
            loss += weight * 0.5 * out[0] * out[0]
        else:
            loss -= weight * np.log(max(out[labels[row]], 1e-300))
            out[labels[row]] -= 1.0
        for k in range(n_outputs):
            slope = weight * out[k]
            for f in range(width - 1):
                gradient[k * width + f] += slope * x[f]
            gradient[k * width + width - 1] += slope
    return loss


@kernel
def run_pass(
    parameters: Floats,
    n_outputs: int,
    features: NDArray[Any],
    labels: NDArray[np.int64],
    weights: Floats,
    order: NDArray[np.int64],
    batch_rows: int,
    step: float,
    l2: float,
) -> None:
    """Take one step a batch of rows, in place."""
    width = features.shape[1] + 1
    gradient = np.empty_like(parameters)
    for first in range(0, len(order), batch_rows):
        rows = order[first : first + batch_rows]
        gradient[:] = 0.0
        add_gradient(parameters, n_outputs, features, labels, weights, rows, gradient)
        for p in range(len(parameters)):
            penalty = 0.0 if p % width == width - 1 else l2 * parameters[p]
            parameters[p] -= step * (gradient[p] / len(rows) + penalty)
