"""Private trees beside LightGBM: scores bit by bit, and milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.flat_trees import flat_trees
from cloister.cloud.private_trees import TreeCodes
from cloister.core.random import stream
from cloister.lab.bench import Figures
from cloister.rank.forest import Forest

__all__ = ["tree_figures"]

SCORED_ROWS: Final = 100
N_TIMES: Final = 200  # scorings of these rows

Floats = NDArray[np.float64]


def tree_figures(forest: Forest, n_rows: int) -> Figures:
    """Compare private trees with LightGBM on random rows, bit by bit, and time both."""
    rng = stream(0, "bench neural", "rows")
    rows = _random_rows(forest, n_rows, rng)
    codes = TreeCodes(rng.bytes(32), [forest])
    private = codes.private_forest()
    coded = codes.coded_rows(rows)
    differ = private.score(coded).view(np.uint64) != forest.score(rows).view(np.uint64)
    few, coded_few = rows[:SCORED_ROWS], np.ascontiguousarray(coded[:SCORED_ROWS])
    return {
        "trees": private.n_trees,
        "tree_random_rows": len(rows),
        "tree_distinct_scores": len(np.unique(private.score(coded))),
        "tree_rows_with_other_bits": int(differ.sum()),
        "private_trees_100_rows_median_ms": _median_ms(lambda: private.score(coded_few)),
        "lightgbm_100_rows_median_ms": _median_ms(lambda: forest.score(few)),
    }


def _random_rows(forest: Forest, n_rows: int, rng: np.random.Generator) -> Floats:
    """Return rows that fall between thresholds, on them, next to them, and nowhere."""
    trees = flat_trees(forest)
    rows = rng.normal(size=(n_rows, forest.n_features))
    for feature in range(forest.n_features):
        own = trees.thresholds[trees.features == feature]
        if not len(own):
            continue
        on = rng.choice(own, n_rows)
        beside = np.nextafter(on, rng.choice((-np.inf, np.inf), n_rows))
        between = rng.uniform(own.min() - 1, own.max() + 1, n_rows)
        nowhere = rng.choice((np.nan, 0.0), n_rows)
        kinds = rng.choice(4, n_rows, p=(0.3, 0.2, 0.4, 0.1))
        rows[:, feature] = np.choose(kinds, (on, beside, between, nowhere))
    return rows


def _median_ms(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(N_TIMES):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return float(np.median(times)) * 1e3
