"""The last layer of a kernel model alone: scores from features, without torch.

The score is tanh(w . phi + b), as in K-NRM. phi may be kernel features of any of the models, with
or without further features, or coarser ones in their place: for these the layer is fitted anew
(`fit_kernel_ranker`), with the filters left as they are. The fit is that of the neural rankers: the
pairwise hinge max(0, 1 - (score of the better - score of the worse)), Adam, early stopping on
nDCG@10. Weights tell of the judgements that they were learnt from; nothing here protects them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.ranking_data import RankingData
from cloister.measure.mean import mean
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.rank.labelled_rows import feature_matrix
from cloister.rank.neural_ranker import NeuralRanker

__all__ = ["KernelRanker", "KernelRankerSettings", "draw_pairs", "fit_kernel_ranker"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KernelRanker:
    """Weights and a bias.

    Examples
    --------
    >>> KernelRanker(np.array([1.0, -1.0]), 0.5).score([[0.0, 0.5], [1.0, 0.0]]).round(3).tolist()
    [0.0, 0.905]
    """

    weights: Floats
    bias: float = 0.0

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or not np.isfinite(self.bias):
            raise DataError("weights are one vector of finite numbers", where="KernelRanker")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "bias", float(self.bias))

    @classmethod
    def of(cls, ranker: NeuralRanker) -> KernelRanker:
        """Return the last layer of a trained K-NRM, Conv-KNRM or C-KNRM*."""
        if not {"weights", "bias"} <= set(ranker.parameters):
            raise DataError(f"{ranker.model.kind} has no such layer", where="ranker")
        return cls(
            ranker.parameters["weights"].astype(np.float64), float(ranker.parameters["bias"][0])
        )

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return len(self.weights)

    def score(self, phi: RankingData | Any) -> Floats:
        """Score documents, the rows of a data set or of a matrix."""
        return np.asarray(np.tanh(self.linear(phi)))

    def linear(self, phi: RankingData | Any) -> Floats:
        """Return w . phi + b: the same order as `score`, also where tanh comes to its end."""
        return np.asarray(feature_matrix(phi, self.n_features) @ self.weights + self.bias)


class KernelRankerSettings(Settings):
    """How the layer is fitted.

    Parameters
    ----------
    learning_rate
        Of Adam, on features brought to the mean 0 and the deviation 1; the weights are given back
        for features as they are.
    n_epochs
        Passes over the queries.
    pairs_per_query
        Pairs of documents drawn of each query in a pass, at most.
    batch_pairs
        Pairs of a step.
    patience
        With a validation set: stop after so many passes without a better nDCG@10 there.
    l2
        Penalty on the weights of the brought features.
    """

    learning_rate: float = Field(default=1e-2, gt=0)
    n_epochs: int = Field(default=50, ge=1)
    pairs_per_query: int = Field(default=50, ge=1)
    batch_pairs: int = Field(default=64, ge=1)
    patience: int = Field(default=5, ge=1)
    l2: float = Field(default=0.0, ge=0)


def fit_kernel_ranker(
    data: RankingData,
    settings: KernelRankerSettings | None = None,
    *,
    seed: int = 0,
    validation: RankingData | None = None,
) -> KernelRanker:
    """Fit the layer to graded rows; the same data, settings and seed give the same weights.

    Raises
    ------
    DataError
        If no query has rows of different grades.
    """
    settings = settings or KernelRankerSettings()
    phi = np.asarray(data.features, np.float64)
    middle, spread = phi.mean(axis=0), phi.std(axis=0)
    spread = np.where(spread > 1e-9, spread, np.inf)  # a constant column tells nothing
    steps = _Adam(np.zeros(phi.shape[1] + 1), settings.learning_rate)
    rows = np.hstack([(phi - middle) / spread, np.ones((len(phi), 1))])
    best, best_ndcg, waited = steps.parameters.copy(), -1.0, 0
    for epoch in range(settings.n_epochs):
        rng = stream(seed, "kernel ranker", epoch)
        pairs = draw_pairs(data.labels, data.offsets, settings.pairs_per_query, rng)
        _run_pass(steps, rows, pairs, settings)
        if validation is None:
            best = steps.parameters.copy()
            continue
        found = _ndcg(_unscaled(steps.parameters, middle, spread), validation)
        waited += 1
        if found > best_ndcg:
            best, best_ndcg, waited = steps.parameters.copy(), found, 0
        if waited >= settings.patience:
            break
    return _unscaled(best, middle, spread)


def draw_pairs(
    labels: NDArray[Any], offsets: NDArray[np.int64], n_each: int, rng: np.random.Generator
) -> Integers:
    """Draw pairs of rows (better, worse) of one query each, in random order.

    Of a query with more than ``n_each`` pairs so many are drawn without replacement.

    Examples
    --------
    >>> draw_pairs(np.array([0, 1, 1, 0]), np.array([0, 2, 4]), 5, np.random.default_rng(0))
    array([[1, 0],
           [2, 3]])
    """
    drawn = []
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        own = np.asarray(labels[first:last])
        pairs = np.argwhere(own[:, None] > own[None, :]) + first
        if len(pairs) > n_each:
            pairs = pairs[rng.choice(len(pairs), n_each, replace=False)]
        drawn.append(pairs)
    found = np.concatenate(drawn) if drawn else np.empty((0, 2), np.int64)
    if not len(found):
        raise DataError("no query has rows of different grades", where="labels")
    return np.asarray(rng.permutation(found))


def _run_pass(steps: _Adam, rows: Floats, pairs: Integers, settings: KernelRankerSettings) -> None:
    for first in range(0, len(pairs), settings.batch_pairs):
        batch = pairs[first : first + settings.batch_pairs]
        better, worse = rows[batch[:, 0]], rows[batch[:, 1]]
        scores = np.tanh(better @ steps.parameters), np.tanh(worse @ steps.parameters)
        active = (1 - scores[0] + scores[1] > 0) / len(batch)
        gradient = worse.T @ (active * (1 - scores[1] ** 2))
        gradient -= better.T @ (active * (1 - scores[0] ** 2))
        gradient[:-1] += settings.l2 * steps.parameters[:-1]
        steps.step(gradient)


class _Adam:
    """Adam with its usual constants (Kingma and Ba, 2015)."""

    def __init__(self, parameters: Floats, learning_rate: float) -> None:
        self.parameters = parameters
        self._rate = learning_rate
        self._first = np.zeros_like(parameters)
        self._second = np.zeros_like(parameters)
        self._n_steps = 0

    def step(self, gradient: Floats) -> None:
        self._n_steps += 1
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.001 * (gradient**2 - self._second)
        first = self._first / (1 - 0.9**self._n_steps)
        second = self._second / (1 - 0.999**self._n_steps)
        self.parameters -= self._rate * first / (np.sqrt(second) + 1e-8)


def _unscaled(parameters: Floats, middle: Floats, spread: Floats) -> KernelRanker:
    weights = parameters[:-1] / spread
    return KernelRanker(weights, float(parameters[-1] - weights @ middle))


def _ndcg(ranker: KernelRanker, data: RankingData) -> float:
    ranked = rank_labels(ranker.linear(data), data.labels, data.offsets, depth=10)
    return mean(ndcg(ranked, k=10))
