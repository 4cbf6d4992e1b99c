"""Clustered FPDGD: one ranker for each group of clients who want the same thing.

Training begins as FPDGD with one ranker. Every few rounds the server asks whether the clients of a
ranker want the same (:mod:`cloister.federate.client_groups`); if it can tell that they do not, it
finds groups among them, and each group goes on with a copy of the ranker. Where clients are alike
nothing is ever split, and the outcome is FPDGD's, bit for bit.

The server sees single clients' updates, as in FPDGD, and no data. It cannot work where updates are
added up before the server sees them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.federate.client_groups import Directions, distance_from_chance, find_groups
from cloister.federate.fedavg import averaged
from cloister.federate.fpdgd import FpdgdSettings, local_rule, round_outcome
from cloister.federate.learner import ClientRankers, RoundOutcome
from cloister.federate.local_training import train_clients
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population
from cloister.rank.ranker import Ranker

__all__ = ["ClusteredFPDGD", "ClusteringSettings", "Split"]


class ClusteringSettings(Settings):
    """When clients are told apart.

    Parameters
    ----------
    updates_per_block
        Updates that each client must have sent to each of the eight blocks before the first
        test; each further test waits for twice as many.
    certainty
        How many standard deviations from chance it takes to split.
    most_groups
        The most groups that one split makes.
    """

    updates_per_block: int = Field(default=5, ge=1)
    certainty: float = Field(default=6.0, gt=0)
    most_groups: int = Field(default=10, ge=2)


class Split(NamedTuple):
    """One ranker became several: in which round, how sure, and into how many."""

    round: int
    certainty: float
    n_groups: int


class ClusteredFPDGD:
    """FPDGD with one ranker for each group of like clients.

    Parameters
    ----------
    population, ranker, settings, seed
        As for :class:`cloister.federate.fpdgd.FPDGD`.
    clustering
        When clients are told apart.
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        settings: FpdgdSettings | None = None,
        clustering: ClusteringSettings | None = None,
        seed: int,
    ) -> None:
        self.population = population
        self.settings = settings or FpdgdSettings()
        self.clustering = clustering or ClusteringSettings()
        unfit = self.settings.private_layer or self.settings.paper_noise is not None
        if unfit or self.settings.aggregation != "mean":
            raise SettingsError(
                "takes FPDGD's plain mean: no private layer, no noise", where="clustered"
            )
        self.seed = seed
        self.splits: list[Split] = []
        self._first = ranker
        self._models = ranker.parameters.astype(np.float64)[None]
        self._group = np.zeros(population.n_clients, np.int32)
        self._due = [self.clustering.updates_per_block]  # updates in a block before the next test
        self._n_rounds = 0
        self._directions = Directions(population.n_clients, ranker.settings.n_parameters, seed=seed)

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""
        return self._n_rounds

    @property
    def ranker(self) -> Ranker:
        """The ranker of the largest group."""
        return self._first.with_parameters(self._models[np.bincount(self._group).argmax()])

    def step(self) -> RoundOutcome:
        """Train for one round, then see whether some group's clients differ."""
        settings = self.settings
        participants = draw_participants(
            self.population.n_clients, settings.participants, seed=self.seed, round=self._n_rounds
        )
        updates = np.empty((len(participants), self._models.shape[1]), np.float32)
        sums = train_clients(
            self.population,
            participants,
            self._models.astype(np.float32),
            self._first.settings.shape,
            settings.pdgd.pair_rule,
            local_rule(settings),
            queries_per_round=settings.queries_per_round,
            seed=self.seed,
            round=self._n_rounds,
            model_of_client=self._group,
            updates=updates,
        )
        self._models = averaged(self._models, sums)
        self._directions.add(participants, updates)
        self._n_rounds += 1
        for group in range(len(self._models)):
            self._split_if_unlike(group)
        return round_outcome(sums)

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client."""
        rankers = tuple(self._first.with_parameters(model) for model in self._models)
        return ClientRankers(rankers, self._group.astype(np.int64))

    def _split_if_unlike(self, group: int) -> None:
        """Test a group that has been watched for long enough; divide it or watch twice as long."""
        members = np.flatnonzero(self._group == group)
        if len(members) < 2 or self._directions.fewest(members) < self._due[group]:
            return
        self._due[group] *= 2
        blocks = self._directions.means(members)
        rng = stream(self.seed, "clustered", self._n_rounds, group)
        certainty = distance_from_chance(blocks, rng=rng)
        if certainty > self.clustering.certainty:
            found = find_groups(blocks, most_groups=self.clustering.most_groups, rng=rng)
            self._divide(group, members, found, certainty)

    def _divide(
        self, group: int, members: NDArray[np.int64], found: NDArray[np.int64], certainty: float
    ) -> None:
        numbers, found = np.unique(found, return_inverse=True)
        if len(numbers) == 1:
            return
        copies = np.repeat(self._models[group][None], len(numbers) - 1, axis=0)
        names = np.concatenate(([group], len(self._models) + np.arange(len(copies))))
        self._models = np.concatenate((self._models, copies))
        self._group[members] = names[found]
        self._due[group] = self.clustering.updates_per_block
        self._due += [self.clustering.updates_per_block] * len(copies)
        self._directions.forget(members)
        self.splits.append(Split(self._n_rounds, certainty, len(numbers)))
