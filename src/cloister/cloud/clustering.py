"""Term closures by either way of clustering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.adaptive_clustering import AdaptiveThresholds, adaptive_closures
from cloister.cloud.fixed_threshold_clustering import FixedThreshold, fixed_closures
from cloister.cloud.term_closures import TermClosures

__all__ = ["ClosureSettings", "term_closures"]

ClosureSettings = AdaptiveThresholds | FixedThreshold


def term_closures(
    terms: Sequence[str], vectors: NDArray[np.float32], settings: ClosureSettings
) -> TermClosures:
    """Return the closures of terms, as the settings say; a row of zeros is a term without a vector.

    Examples
    --------
    >>> vectors = np.array([[1, 0], [1, 0.1], [0, 1]], np.float32)
    >>> term_closures(["flu", "grippe", "bone"], vectors, FixedThreshold(threshold=0.9)).n_closures
    2
    """
    if isinstance(settings, FixedThreshold):
        return fixed_closures(terms, vectors, settings)
    return adaptive_closures(terms, vectors, settings)
