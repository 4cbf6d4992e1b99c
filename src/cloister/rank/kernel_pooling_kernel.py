"""Compiled arithmetic of kernel pooling: Gaussian kernels, summed over documents."""

from __future__ import annotations

import math
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel, parallel_kernel

__all__ = ["gaussian_kernels", "pool_documents"]

Floats = NDArray[np.float64]

FARTHEST: Final = 38.0  # deviations; the exponential of what lies farther off is 0


@kernel
def gaussian_kernels(
    similarities: NDArray[np.float32],
    counted: NDArray[np.bool_],
    masked: NDArray[np.bool_],
    means: Floats,
    widths: Floats,
) -> Floats:
    """Return exp(-(s - mean)^2 / (2 width^2)) of each similarity (row) for each kernel (column).

    All kernels but the last are soft: their means are evenly spaced and their widths equal. Rows
    that are not ``counted`` are zero. Rows that are ``masked`` are zero but in the last column.

    From one soft kernel to the next, the quotient falls by the same factor each time, so that two
    exponentials serve for all of them. In double precision nothing that matters is lost.
    """
    n_soft = len(means) - 1
    spacing = (means[1] - means[0]) / widths[0]
    fall = math.exp(-spacing * spacing)
    values = np.zeros((len(similarities), len(means)))
    for row in range(len(similarities)):
        if not counted[row]:
            continue
        similarity = np.float64(similarities[row])
        off = (similarity - means[n_soft]) / widths[n_soft]
        if abs(off) < FARTHEST:
            values[row, n_soft] = math.exp(-0.5 * off * off)
        if masked[row]:
            continue
        off = (similarity - means[0]) / widths[0]
        value = math.exp(-0.5 * off * off)
        quotient = math.exp(spacing * off - 0.5 * spacing * spacing)
        for column in range(n_soft):
            values[row, column] = value
            value *= quotient
            quotient *= fall
    return values


@parallel_kernel
def pool_documents(
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    counts: NDArray[np.int32],
    values: Floats,
    out: NDArray[np.float32],
) -> None:
    """Add up the values of each document's n-grams, as often as they occur, into ``out``.

    The sums run in double precision, in the order of the entries: the result does not depend on the
    number of threads. Nothing is checked.
    """
    n_kernels = values.shape[1]
    for document in numba.prange(len(starts) - 1):
        sums = np.zeros(n_kernels)
        for entry in range(starts[document], starts[document + 1]):
            row = values[places[entry]]
            for column in range(n_kernels):
                sums[column] += counts[entry] * row[column]
        for column in range(n_kernels):
            out[document, column] = sums[column]
