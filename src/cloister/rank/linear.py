"""The linear ranker: a document's score is the weighted sum of its features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, summing_kernel

__all__ = ["add_linear_gradient", "score_linear"]

Floats = NDArray[np.float32]


@summing_kernel
def score_linear(
    weights: Floats,
    features: NDArray[Any],
    rows: NDArray[np.int64],
    first: int,
    n: int,
    out: Floats,
) -> None:
    """Score ``n`` documents inside a kernel; nothing is checked.

    Parameters
    ----------
    weights
        One a feature.
    features
        Feature vectors, one a row.
    rows, first
        The i-th document is the row ``rows[first + i]``, or ``first + i`` where ``rows`` is empty.
    out
        Receives the scores.
    """
    n_features = features.shape[1]
    direct = len(rows) == 0
    whole = n - n % 4
    for i in range(0, whole, 4):  # four at once share what is read of the weights
        a = features[first + i if direct else rows[first + i]]
        b = features[first + i + 1 if direct else rows[first + i + 1]]
        c = features[first + i + 2 if direct else rows[first + i + 2]]
        d = features[first + i + 3 if direct else rows[first + i + 3]]
        sum_a = np.float32(0.0)
        sum_b = np.float32(0.0)
        sum_c = np.float32(0.0)
        sum_d = np.float32(0.0)
        for f in range(n_features):
            weight = weights[f]
            sum_a += np.float32(a[f]) * weight
            sum_b += np.float32(b[f]) * weight
            sum_c += np.float32(c[f]) * weight
            sum_d += np.float32(d[f]) * weight
        out[i] = sum_a
        out[i + 1] = sum_b
        out[i + 2] = sum_c
        out[i + 3] = sum_d
    for i in range(whole, n):
        x = features[first + i if direct else rows[first + i]]
        total = np.float32(0.0)
        for f in range(n_features):
            total += np.float32(x[f]) * weights[f]
        out[i] = total


@kernel
def add_linear_gradient(
    target: Floats,
    features: NDArray[Any],
    units: Floats,
    rows: NDArray[np.int64],
    first: int,
    page: NDArray[np.int64],
    coefficients: Floats,
) -> None:
    """Add each shown document's coefficient times the gradient of its score to ``target``.

    ``page`` holds the documents' places among the candidates; rows are as for `score_linear`.
    ``units`` are what stored features are multiples of; empty where they are stored as they are.
    """
    n_features = features.shape[1]
    for p in range(len(page)):
        coefficient = coefficients[p]
        if coefficient == np.float32(0.0):
            continue
        place = first + page[p]
        x = features[place if len(rows) == 0 else rows[place]]
        if len(units) == 0:
            for f in range(n_features):
                target[f] += coefficient * np.float32(x[f])
        else:
            for f in range(n_features):
                target[f] += coefficient * (units[f] * np.float32(x[f]))
