"""The neural ranker: one hidden layer.

A document's score is ``v . s(W'x + b)``, with s the rectifier or the logistic function. An output
bias would move all scores alike and change no ranking, so there is none. Parameters lie in one
vector: W (features x hidden units, row by row), b, v.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import summing_kernel
from cloister.core.single_precision import exp32

__all__ = ["RECTIFIER", "SIGMOID", "add_mlp_gradient", "n_mlp_parameters", "score_mlp"]

Floats = NDArray[np.float32]

RECTIFIER: Final = 0
SIGMOID: Final = 1


def n_mlp_parameters(n_features: int, n_hidden: int) -> int:
    """Return the length of the parameter vector.

    Examples
    --------
    >>> n_mlp_parameters(46, 64)
    3072
    """
    return (n_features + 2) * n_hidden


@summing_kernel
def score_mlp(
    parameters: Floats,
    n_features: int,
    n_hidden: int,
    activation: int,
    features: NDArray[Any],
    rows: NDArray[np.int64],
    first: int,
    n: int,
    hidden: Floats,
    out: Floats,
) -> None:
    """Score ``n`` documents inside a kernel; nothing is checked.

    Parameters are as for :func:`cloister.rank.linear.score_linear`. ``hidden`` (documents x hidden
    units) receives what the hidden units put out, for `add_mlp_gradient`.
    """
    bias = n_features * n_hidden
    weights = parameters[:bias]
    whole = n_features - n_features % 4
    for i in range(n):
        x = features[first + i if len(rows) == 0 else rows[first + i]]
        h = hidden[i]
        for k in range(n_hidden):
            h[k] = parameters[bias + k]
        for f in range(0, whole, 4):  # four features at once: fewer passes over the hidden units
            x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
            w0 = weights[f * n_hidden : (f + 1) * n_hidden]
            w1 = weights[(f + 1) * n_hidden : (f + 2) * n_hidden]
            w2 = weights[(f + 2) * n_hidden : (f + 3) * n_hidden]
            w3 = weights[(f + 3) * n_hidden : (f + 4) * n_hidden]
            for k in range(n_hidden):
                h[k] += x0 * w0[k] + x1 * w1[k] + x2 * w2[k] + x3 * w3[k]
        for f in range(whole, n_features):
            for k in range(n_hidden):
                h[k] += x[f] * weights[f * n_hidden + k]
        score = np.float32(0.0)
        if activation == RECTIFIER:
            for k in range(n_hidden):
                h[k] = max(h[k], np.float32(0.0))
                score += h[k] * parameters[bias + n_hidden + k]
        else:
            for k in range(n_hidden):
                h[k] = np.float32(1.0) / (np.float32(1.0) + exp32(-h[k]))
                score += h[k] * parameters[bias + n_hidden + k]
        out[i] = score


@summing_kernel
def add_mlp_gradient(
    target: Floats,
    parameters: Floats,
    n_features: int,
    n_hidden: int,
    activation: int,
    features: NDArray[Any],
    rows: NDArray[np.int64],
    first: int,
    page: NDArray[np.int64],
    coefficients: Floats,
    hidden: Floats,
    slopes: Floats,
) -> None:
    """Add each shown document's coefficient times the gradient of its score to ``target``.

    ``page`` holds the documents' places among the candidates and ``hidden`` is what `score_mlp`
    left there. ``slopes`` (page x hidden units) is room to work in. ``target`` may be
    ``parameters`` itself: all slopes are found before anything is added.
    """
    bias = n_features * n_hidden
    top = bias + n_hidden
    for p in range(len(page)):
        h = hidden[page[p]]
        slope = slopes[p]
        for k in range(n_hidden):
            steepness = h[k] * (np.float32(1.0) - h[k])
            if activation == RECTIFIER:
                steepness = np.float32(1.0) if h[k] > np.float32(0.0) else np.float32(0.0)
            slope[k] = coefficients[p] * parameters[top + k] * steepness
    for p in range(len(page)):
        if coefficients[p] == np.float32(0.0):
            continue
        h = hidden[page[p]]
        slope = slopes[p]
        for k in range(n_hidden):
            target[top + k] += coefficients[p] * h[k]
            target[bias + k] += slope[k]
        place = first + page[p]
        x = features[place if len(rows) == 0 else rows[place]]
        for f in range(n_features):
            part = target[f * n_hidden : (f + 1) * n_hidden]
            for k in range(n_hidden):
                part[k] += x[f] * slope[k]
