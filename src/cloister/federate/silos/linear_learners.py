"""Linear rankers learnt across silos: round-robin distributed SGD of pointwise or pairwise loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import PartyId
from cloister.federate.silos.round_robin import (
    HandOver,
    Protection,
    RoundRobinSettings,
    round_robin,
)
from cloister.federate.silos.runs import PartyRows, Scorer
from cloister.rank import pairwise, pointwise

__all__ = ["LinearLearner"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearLearner:
    """Learns a linear ranker; one party alone by plain SGD, several by round-robin.

    Parameters
    ----------
    settings
        Of the loss: `PointwiseSettings` or `PairwiseSettings`. Their number of passes is not
        used; `round_robin` says how often each party passes over its rows.
    round_robin
        Epochs and averaging.
    protection, on_hand_over
        Hooks for privacy, as for `cloister.federate.silos.round_robin.round_robin`.

    Examples
    --------
    >>> from cloister.data.ranking_data import RankingData
    >>> data = RankingData(np.array([[0.0], [1.0]]), np.array([0, 2], np.int8), np.array([0, 2]))
    >>> rows = PartyRows(data, np.ones(2))
    >>> ranker = LinearLearner().learn({"a": rows, "b": rows}, seed=1)
    >>> bool(np.diff(ranker.score(data))[0] > 0)
    True
    """

    settings: pointwise.PointwiseSettings | pairwise.PairwiseSettings = field(
        default_factory=pointwise.PointwiseSettings
    )
    round_robin: RoundRobinSettings = field(default_factory=RoundRobinSettings)
    protection: Protection | None = None
    on_hand_over: Callable[[HandOver], Any] | None = None

    @property
    def what_crosses(self) -> str:
        """What parties give each other while they learn."""
        return "parameters"

    def learn(self, rows: Mapping[PartyId, PartyRows], *, seed: int) -> Scorer:
        """Return the ranker."""
        n_features = next(iter(rows.values())).data.n_features
        parameters = round_robin(
            self._first(n_features),
            rows,
            self._take_pass,
            seed=seed,
            settings=self.round_robin,
            protection=self.protection,
            on_hand_over=self.on_hand_over,
        )
        if isinstance(self.settings, pointwise.PointwiseSettings):
            return pointwise.PointwiseModel(self.settings, parameters)
        return pairwise.PairwiseModel(self.settings, parameters)

    def n_crossing(self, scorer: Scorer) -> int:
        """Return how many numbers one party hands on in all.

        Its parameters in each epoch, and with the last ones their running sum, unless only the
        last turn counts.
        """
        parameters: Floats = getattr(scorer, "parameters", np.empty(0))
        n_sums = 0 if self.round_robin.average_last == 1 else 1
        return len(parameters) * (self.round_robin.epochs + n_sums)

    def _first(self, n_features: int) -> Floats:
        if isinstance(self.settings, pointwise.PointwiseSettings):
            return pointwise.initial_parameters(n_features, self.settings)
        return pairwise.initial_parameters(n_features, self.settings)

    def _take_pass(
        self, parameters: Floats, rows: PartyRows, *, rng: np.random.Generator, epoch: int
    ) -> Floats:
        if isinstance(self.settings, pointwise.PointwiseSettings):
            return pointwise.sgd_pass(
                parameters, rows.data, rng, self.settings, weights=rows.weights, n_done=epoch
            )
        return pairwise.sgd_pass(
            parameters, rows.data, rng, self.settings, weights=rows.weights, n_done=epoch
        )
