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
    whole = n - n % 4
    for i in range(0, whole, 4):
        _four_inputs(parameters, n_features, n_hidden, features, rows, first + i, hidden[i : i + 4])
    for i in range(whole, n):
        x = features[first + i if len(rows) == 0 else rows[first + i]]
        h = hidden[i]
        for k in range(n_hidden):
            h[k] = parameters[bias + k]
        for f in range(n_features):
            weights = parameters[f * n_hidden : (f + 1) * n_hidden]
            for k in range(n_hidden):
                h[k] += x[f] * weights[k]
    outer = parameters[bias + n_hidden :]
    for i in range(n):
        h = hidden[i]
        score = np.float32(0.0)
        if activation == RECTIFIER:
            for k in range(n_hidden):
                h[k] = max(h[k], np.float32(0.0))
                score += h[k] * outer[k]
        else:
            for k in range(n_hidden):
                h[k] = np.float32(1.0) / (np.float32(1.0) + exp32(-h[k]))
                score += h[k] * outer[k]
        out[i] = score


@summing_kernel
def _four_inputs(
    parameters: Floats,
    n_features: int,
    n_hidden: int,
    features: NDArray[Any],
    rows: NDArray[np.int64],
    first: int,
    hidden: Floats,
) -> None:
    """Write what comes into the hidden units for four documents.

    Four documents share each pass over the weights, and four features share each pass over the
    hidden units: the weights do not fit into the nearest cache.
    """
    direct = len(rows) == 0
    a = features[first if direct else rows[first]]
    b = features[first + 1 if direct else rows[first + 1]]
    c = features[first + 2 if direct else rows[first + 2]]
    d = features[first + 3 if direct else rows[first + 3]]
    into_a, into_b, into_c, into_d = hidden[0], hidden[1], hidden[2], hidden[3]
    bias = parameters[n_features * n_hidden :]
    for k in range(n_hidden):
        into_a[k] = into_b[k] = into_c[k] = into_d[k] = bias[k]
    whole = n_features - n_features % 4
    for f in range(0, whole, 4):
        a0, a1, a2, a3 = a[f], a[f + 1], a[f + 2], a[f + 3]
        b0, b1, b2, b3 = b[f], b[f + 1], b[f + 2], b[f + 3]
        c0, c1, c2, c3 = c[f], c[f + 1], c[f + 2], c[f + 3]
        d0, d1, d2, d3 = d[f], d[f + 1], d[f + 2], d[f + 3]
        start = f * n_hidden
        weights_0 = parameters[start : start + n_hidden]
        weights_1 = parameters[start + n_hidden : start + 2 * n_hidden]
        weights_2 = parameters[start + 2 * n_hidden : start + 3 * n_hidden]
        weights_3 = parameters[start + 3 * n_hidden : start + 4 * n_hidden]
        for k in range(n_hidden):
            w0, w1, w2, w3 = weights_0[k], weights_1[k], weights_2[k], weights_3[k]
            into_a[k] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            into_b[k] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
            into_c[k] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
            into_d[k] += d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3
    for f in range(whole, n_features):
        weights_0 = parameters[f * n_hidden : (f + 1) * n_hidden]
        for k in range(n_hidden):
            into_a[k] += a[f] * weights_0[k]
            into_b[k] += b[f] * weights_0[k]
            into_c[k] += c[f] * weights_0[k]
            into_d[k] += d[f] * weights_0[k]


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
