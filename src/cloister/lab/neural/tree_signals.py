"""The tree signal of every candidate: the score of trees that never saw the query's grades.

The signal of a training query comes from trees grown on the other parts of the training queries
(`cloister.cloud.private_ranker_training.cross_fitted_signal`); that of validation and test queries
from trees grown on all training queries. The number of trees is fixed: validation sets of 8 to 300
queries stop too soon.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.private_ranker_training import cross_fitted_signal
from cloister.lab.neural.query_rows import RowMaker
from cloister.lab.neural.scene import NeuralScene
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.query_length_forests import fit_query_length_forests

__all__ = ["TreeSignals", "tree_signals"]

Floats = NDArray[np.float64]


class TreeSignals(NamedTuple):
    """Scores of the training, validation and test candidates, row after row."""

    training: Floats
    validation: Floats
    test: Floats


def tree_signals(scene: NeuralScene, make: RowMaker, settings: NeuralTrialSettings) -> TreeSignals:
    """Grow trees on the features that something makes, and score all candidates."""
    training, validation, test = (part.data(part.made(make)) for part in scene.parts)
    n_terms, seed = scene.training.n_terms, settings.seed
    forests = fit_query_length_forests(training, n_terms, settings.forests, seed=seed)
    return TreeSignals(
        cross_fitted_signal(training, n_terms, settings.forests, settings.n_parts, seed=seed),
        forests.score_rows(validation, scene.validation.n_terms),
        forests.score_rows(test, scene.test.n_terms),
    )
