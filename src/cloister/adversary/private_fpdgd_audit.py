"""Audits of sound private FPDGD: one client in the training or not, told from all its rankers.

Whole trainings are run by the product's own code: who takes part, noise, the mean and the record
of releases. Only what clients learn is replaced: client i moves weight i, as far as clipping
allows, and nothing else. Each weight has noise of its own and each client takes part by a coin of
its own, so a training of n clients and n weights is n trials at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.adversary.distinguishing import normal_log_ratio
from cloister.core.settings import Settings
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.data.ranking_data import RankingData
from cloister.federate.dp_ftrl import TreeNoise
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.local_training import RoundSums
from cloister.federate.population import Population
from cloister.federate.private_fpdgd import PrivateFPDGD, PrivateTraining
from cloister.privacy.release import Release
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["PrivateFpdgdAudit", "PrivateFpdgdTreeAudit"]

Floats = NDArray[np.float64]


class _Canaries(FPDGD):
    """Clients who learn nothing: client i pushes weight i, or none sends anything at all."""

    present = True
    clip_norm = 0.0

    def _train(
        self, participants: NDArray[np.int64], updates: NDArray[np.float32] | None = None
    ) -> RoundSums:
        differences = np.zeros(self._models.shape)
        if self.present:
            differences[0, participants] = self.clip_norm
            if updates is not None:
                updates[np.arange(len(participants)), participants] = self.clip_norm
        n_interactions = np.array([float(len(participants))])
        return RoundSums(differences, n_interactions, ndcg=0.0, max_rr=0.0, clicks=0.0)


class _CanaryTraining(PrivateFPDGD, _Canaries):
    """Private training, of which `_Canaries` replaces what clients learn and nothing else."""

    def __init__(self, population: Population, *, present: bool, **given: Any) -> None:
        ranker = Ranker.initial(RankerSettings(n_features=population.n_features))
        super().__init__(population, ranker, **given)
        self.present = present
        self.clip_norm = self.privacy.clip_norm
        self.turns: list[NDArray[np.int64]] = []

    def _look_back(self, participants: NDArray[np.int64]) -> None:
        self.turns.append(participants)


class PrivateFpdgdAudit(Settings):
    """Normal noise in each round, clients drawn by Poisson sampling.

    Parameters
    ----------
    epsilon, delta
        What all rounds together are set to reveal of one client.
    n_rounds
        Of a training.
    n_clients, n_expected
        Of a federation, and those expected in a round: the sampling rate.
    """

    epsilon: float = Field(default=4.5, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    n_rounds: int = Field(default=20, ge=1)
    n_clients: int = Field(default=10_000, ge=1)
    n_expected: int = Field(default=1000, ge=1)

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "private-fpdgd"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "one client in the training or not; the rankers of all rounds are seen"

    @property
    def claimed_epsilon(self) -> None:
        """Nobody claims anything but the ledger."""
        return

    @property
    def privacy(self) -> PrivateTraining:
        """What may be revealed."""
        return PrivateTraining(epsilon=self.epsilon, delta=self.delta, n_rounds=self.n_rounds)

    @cached_property
    def population(self) -> Population:
        """Clients with one document of no content: what they learn is not what is audited."""
        document = np.zeros((1, self.n_clients), np.float32)
        data = RankingData(document, np.zeros(1, np.int8), np.array([0, 1]))
        return Population(iid(data, self.n_clients), click_model("perfect", 5))

    def _training(self, *, present: bool, seed: int, **given: Any) -> _CanaryTraining:
        settings = FpdgdSettings(participants=self.n_expected)
        return _CanaryTraining(
            self.population,
            present=present,
            settings=settings,
            privacy=self.privacy,
            seed=seed,
            **given,
        )

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records of a whole training, as the training itself states it."""
        recorded: list[Release] = []
        training = self._training(present=False, seed=0, record=recorded.append)
        for _ in range(self.n_rounds):
            training.step()
        return recorded

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the log likelihood ratios of every client's presence."""
        n_trainings = -(-n_trials // self.n_clients)
        seeds = rng.integers(1 << 63, size=n_trainings)
        trainings = (self._training(present=neighbour == 1, seed=int(seed)) for seed in seeds)
        return np.concatenate([self._ratios(training) for training in trainings])[:n_trials]

    def _ratios(self, training: _CanaryTraining) -> Floats:
        total = np.zeros(self.n_clients)
        before = np.zeros(self.n_clients)
        for _ in range(self.n_rounds):
            training.step()
            after = training.ranker.parameters.astype(np.float64)
            total += normal_log_ratio(
                (after - before) * self.n_expected,
                training.privacy.clip_norm,
                training.sigma,
                sampling_rate=training.sampling_rate,
            )
            before = after
        return total


class PrivateFpdgdTreeAudit(PrivateFpdgdAudit):
    """DP-FTRL: clients take turns that everybody knows, and the noise comes from a tree.

    Examples
    --------
    >>> [release.n_rounds for release in PrivateFpdgdTreeAudit(n_rounds=2).releases()]
    [2]
    """

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "private-fpdgd-tree"

    @property
    def privacy(self) -> PrivateTraining:
        """What may be revealed."""
        return PrivateTraining(
            epsilon=self.epsilon, delta=self.delta, n_rounds=self.n_rounds, mechanism="tree"
        )

    def _ratios(self, training: _CanaryTraining) -> Floats:
        """Return m' S^-1 (y - m/2): all rounds' sums y are normal around 0 or around m."""
        seen = np.empty((self.n_rounds, self.n_clients))
        for round in range(self.n_rounds):
            training.step()
            seen[round] = training.ranker.parameters
        seen *= self.n_expected
        moved = np.zeros_like(seen)
        for round, participants in enumerate(training.turns):
            moved[round:, participants] += training.privacy.clip_norm
        weights = np.linalg.solve(training.sigma**2 * _tree_covariance(self.n_rounds), moved)
        ratios: Floats = (weights * (seen - moved / 2)).sum(axis=0)
        return ratios


def _tree_covariance(n_rounds: int) -> Floats:
    """Return the covariance of the noise in the sums of the first rounds, nodes having 1.

    Each node's noise is made a direction of its own, so that a sum shows its weight in each.
    """
    nodes = iter(np.eye(2 * n_rounds))
    noise = TreeNoise(lambda: next(nodes), sigma=1.0)
    rows = np.array([noise.next() for _ in range(n_rounds)])
    covariance: Floats = rows @ rows.T
    return covariance
