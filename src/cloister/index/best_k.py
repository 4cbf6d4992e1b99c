"""The best k of many, kept in a heap whose root is the worst of them, inside kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel

__all__ = ["is_worse", "keep_best", "sort_best"]

Floats = NDArray[np.float64]


@inline_kernel
def is_worse(document: Any, score: Any, other_document: Any, other_score: Any) -> Any:
    """Return whether a score is smaller, or equal and its document number larger."""
    return score < other_score or (score == other_score and document > other_document)


@kernel
def keep_best(
    found: NDArray[np.int32], scores: Floats, n_found: int, document: int, score: float
) -> int:
    """Put a candidate into the heap of the best, whose root is the worst of them."""
    if n_found < len(found):
        place = n_found
        while place > 0 and is_worse(
            document, score, found[(place - 1) // 2], scores[(place - 1) // 2]
        ):
            found[place], scores[place] = found[(place - 1) // 2], scores[(place - 1) // 2]
            place = (place - 1) // 2
        found[place], scores[place] = document, score
        return n_found + 1
    if len(found) and is_worse(found[0], scores[0], document, score):
        _sift(found, scores, n_found, document, score)
    return n_found


@kernel
def _sift(
    found: NDArray[np.int32], scores: Floats, n_found: int, document: int, score: float
) -> None:
    """Put a pair in the place of the root, and let it sink to where it belongs."""
    place = 0
    while 2 * place + 1 < n_found:
        child = 2 * place + 1
        if child + 1 < n_found and is_worse(
            found[child + 1], scores[child + 1], found[child], scores[child]
        ):
            child += 1
        if is_worse(document, score, found[child], scores[child]):
            break
        found[place], scores[place] = found[child], scores[child]
        place = child
    found[place], scores[place] = document, score


@kernel
def sort_best(found: NDArray[np.int32], scores: Floats, n_found: int) -> None:
    """Take the worst to the end again and again: best first in the end."""
    for last in range(n_found - 1, 0, -1):
        document, score = found[last], scores[last]
        found[last], scores[last] = found[0], scores[0]
        _sift(found, scores, last, document, score)
