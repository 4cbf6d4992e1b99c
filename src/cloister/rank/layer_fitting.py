"""The last layer of a system that is compared: one way to fit it, for any features.

A layer on top of a model that was trained on the same queries is easily misled: the model's
features separate the grades of these queries far better than those of any other. Validation queries
say how far they are to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.rank.kernel_pooling import N_KERNELS, N_SOFT
from cloister.rank.kernel_ranker import KernelRanker, KernelRankerSettings, fit_kernel_ranker

__all__ = ["SOFT_OF_STAR", "LayerSettings", "fit_layer"]

Numbers = NDArray[np.integer[Any]]

SOFT_OF_STAR: Final = tuple(  # the soft ones among C-KNRM*'s own 33 features
    column for column in range(3 * N_KERNELS) if column % N_KERNELS < N_SOFT
)


class LayerSettings(Settings):
    """How a last layer is fitted.

    Parameters
    ----------
    n_seeds
        Layers that are fitted with different draws of pairs; their mean is the result.
    fit
        One fit to training queries. All passes are run.
    balance
        The fit of two weights to validation queries, see `fit_layer`. All passes are run.
    """

    n_seeds: int = Field(default=3, ge=1)
    fit: KernelRankerSettings = KernelRankerSettings(n_epochs=20, l2=0.1)
    balance: KernelRankerSettings = KernelRankerSettings(n_epochs=40, l2=0.3)


def fit_layer(
    data: RankingData,
    settings: LayerSettings | None = None,
    *,
    seed: int = 0,
    validation: RankingData | None = None,
    learnt: Sequence[int] | Numbers = (),
) -> KernelRanker:
    """Fit a last layer to any features, the same way for every system that is to be compared.

    After a fit to the training queries, two weights are fitted to the validation queries: one for
    the part of the score that comes of ``learnt`` columns, one for the rest. A part whose weight
    comes out negative is left out; where both do, the first fit is the result. Validation sets are
    often small; two weights ask little of them.

    Parameters
    ----------
    data
        Training rows.
    settings
        How both fits are made.
    seed
        One seed gives one layer.
    validation
        Rows of other queries. The fit to the training queries is the result where there are none,
        or none with rows of different grades.
    learnt
        Numbers of the columns that come of a model that was trained on the same training queries:
        `SOFT_OF_STAR` for C-KNRM*'s own features, the first 30 of C-KNRM*/T.

    Raises
    ------
    DataError
        If no query has rows of different grades.
    """
    settings = settings or LayerSettings()
    layer = _mean_layer(data, settings.fit, settings.n_seeds, seed)
    chosen = np.zeros(data.n_features, np.bool_)
    chosen[np.asarray(learnt, np.int64)] = True
    if validation is None or chosen.all() or not chosen.any() or not _graded(validation):
        return layer
    features = np.asarray(validation.features, np.float64)
    parts = np.stack([features @ (layer.weights * part) for part in (chosen, ~chosen)], axis=1)
    rows = RankingData(parts, validation.labels, validation.offsets)
    balance = _mean_layer(rows, settings.balance, settings.n_seeds, seed)
    trust, rest = np.maximum(balance.weights, 0).tolist()
    if trust == rest == 0:
        return layer
    return KernelRanker(layer.weights * np.where(chosen, trust, rest), balance.bias)


def _mean_layer(
    data: RankingData, settings: KernelRankerSettings, n_seeds: int, seed: int
) -> KernelRanker:
    seeds = [int(stream(seed, "layer", number).integers(2**31)) for number in range(n_seeds)]
    layers = [fit_kernel_ranker(data, settings, seed=drawn) for drawn in seeds]
    weights = np.mean([layer.weights for layer in layers], axis=0)
    return KernelRanker(weights, float(np.mean([layer.bias for layer in layers])))


def _graded(data: RankingData) -> bool:
    """Say whether a query has rows of different grades."""
    parts = np.split(np.asarray(data.labels), data.offsets[1:-1])
    return any(len(part) and part.min() < part.max() for part in parts)
