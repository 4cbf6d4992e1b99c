"""Closures of a large vocabulary: seconds, and how large they become."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.adaptive_clustering import AdaptiveThresholds, adaptive_closures
from cloister.cloud.fixed_threshold_clustering import FixedThreshold, fixed_closures
from cloister.cloud.term_closures import TermClosures
from cloister.core.random import stream
from cloister.lab.bench import Figures, timed
from cloister.lab.neural.vectors import vectors_file
from cloister.rank.embedding_file import read_embedding

__all__ = ["closure_figures"]

THRESHOLDS: Final = (0.3, 0.7)  # lowest similarities of a closure, as the slides have them
N_NUMBERS: Final = 100  # of a word vector
GROUP: Final = 20  # made-up vectors that lie near each other
N_FIRST: Final = 50  # terms with which the kernels are compiled

Vectors = NDArray[np.float32]


def closure_figures(n_terms: int) -> Figures:
    """Put a vocabulary into closures, by fixed thresholds and by falling ones."""
    vectors, kind = _closed_vectors(n_terms)
    terms = [str(number) for number in range(len(vectors))]
    ways: dict[str, Callable[[list[str], Vectors], TermClosures]] = {}
    for least in THRESHOLDS:
        name = f"{least:g}".replace(".", "_")
        fixed = FixedThreshold(threshold=least)
        steps = tuple(step / 10 for step in range(round(least * 10), 10))
        falling = AdaptiveThresholds(thresholds=steps)
        ways[f"fixed_{name}"] = partial(fixed_closures, settings=fixed)
        ways[f"adaptive_{name}"] = partial(adaptive_closures, settings=falling)
    figures: Figures = {"closed_terms": len(vectors), "closed_vectors": kind}
    for name, way in ways.items():
        way(terms[:N_FIRST], vectors[:N_FIRST])
        with timed() as closing:
            found = way(terms, vectors)
        figures[f"closures_{name}_cpu_s"] = closing.cpu_s
        figures[f"closures_{name}_wall_s"] = closing.wall_s
        figures[f"closures_{name}_mean_size"] = found.report(1).mean
        figures[f"closures_{name}_largest"] = found.report(1).largest
    return figures


def _closed_vectors(n_terms: int) -> tuple[Vectors, str]:
    """Return so many word vectors, the first of a file or made up, and which they are."""
    file = vectors_file()
    if file is not None:
        return read_embedding(file).vectors[:n_terms], file.name
    rng = stream(0, "bench neural", "vectors")
    middles = rng.normal(size=(-(-n_terms // GROUP), N_NUMBERS))
    vectors = np.repeat(middles, GROUP, axis=0)[:n_terms]
    return (vectors + 0.8 * rng.normal(size=vectors.shape)).astype(np.float32), "made up, in groups"
