"""Last layers, all fitted the same way: what differs between systems is then the signal alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.lab.neural.scene import NeuralScene
from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.kernel_pooling import N_KERNELS, N_SOFT
from cloister.rank.layer_fitting import fit_layer

__all__ = ["Features", "LayerScores", "layer_scores", "side_by_side", "soft_columns"]

Floats = NDArray[np.float64]


class Features(NamedTuple):
    """Features of the training, validation and test candidates, a row each."""

    training: NDArray[Any]
    validation: NDArray[Any]
    test: NDArray[Any]


class LayerScores(NamedTuple):
    """Scores of the test candidates by a layer.

    Parameters
    ----------
    scores
        One a row.
    learnt_share
        How much of the order comes of learnt columns: the standard deviation of their part among
        the candidates of a query, by the sum of both parts' deviations. 0: they change no order.
    """

    scores: Floats
    learnt_share: float


def side_by_side(*blocks: tuple[NDArray[Any], ...]) -> Features:
    """Put features beside one another, part by part; a vector is one column.

    Examples
    --------
    >>> one = Features(np.ones((2, 2)), np.ones((1, 2)), np.ones((1, 2)))
    >>> side_by_side(one, (np.zeros(2), np.zeros(1), np.zeros(1))).training.tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    """
    return Features(*(np.column_stack(parts) for parts in zip(*blocks, strict=True)))


def soft_columns(n_matches: int) -> tuple[int, ...]:
    """Return the columns of soft kernels among the features of so many cross matches.

    Examples
    --------
    >>> [column for column in range(22) if column not in soft_columns(2)]
    [10, 21]
    """
    return tuple(c for c in range(n_matches * N_KERNELS) if c % N_KERNELS < N_SOFT)


def layer_scores(
    scene: NeuralScene,
    features: Features,
    settings: NeuralTrialSettings,
    *,
    learnt: Sequence[int] = (),
) -> LayerScores:
    """Fit a layer to the training queries, and return the scores of the test candidates.

    Parameters
    ----------
    scene, features
        Queries and the features of their candidates.
    settings
        Seed, and how the layer is fitted.
    learnt
        Columns that come of a model that was trained on the same queries, see
        `cloister.rank.layer_fitting.fit_layer`.
    """
    layer = fit_layer(
        scene.training.data(features.training),
        settings.layer,
        seed=settings.seed,
        validation=scene.validation.data(features.validation),
        learnt=learnt,
    )
    chosen = np.zeros(layer.n_features, np.bool_)
    chosen[list(learnt)] = True
    own, rest = (
        scene.test.spread(features.test @ (layer.weights * part)) for part in (chosen, ~chosen)
    )
    share = own / (own + rest) if own + rest else 0.0
    return LayerScores(layer.linear(features.test), share)
