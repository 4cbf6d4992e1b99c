"""Clustered FPDGD: one ranker for each group of clients who want the same thing.

Training begins as FPDGD with one ranker. Every few rounds the server asks whether the clients of a
ranker want the same (:mod:`cloister.federate.client_groups`); if it can tell that they do not, it
finds groups among them, and each group goes on with a copy of the ranker. Where clients are alike
nothing is ever split, and the outcome is FPDGD's, bit for bit.

Beside its update a client must send, when a test is due, what each twelfth of its queries has
taught it. That is more about the client than FPDGD's update alone, and no data. It does not go
together with adding up updates before the server sees them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.federate.client_groups import Lessons, distance_from_chance, find_groups
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import ClientRankers, Recorder
from cloister.federate.population import Population
from cloister.rank.ranker import Ranker

__all__ = ["ClusteredFPDGD", "ClusteringSettings", "Split"]


class ClusteringSettings(Settings):
    """When clients are told apart.

    Parameters
    ----------
    first_test
        Rounds in which half of a ranker's clients must have taken part before the first test; each
        further test waits for twice as many. Clients who have learnt nothing from some part of
        their queries are not judged, and stay with the first of the groups found.
    divide_by
        What makes the parts between which a client must be consistent. ``queries``: its wish must
        show on some of its queries as on others, so it will on queries yet to come. ``rounds``: it
        must last, but may be about a few queries that come again and again; clients of one wish
        whose few queries differ are then told apart too.
    certainty
        How many standard deviations from chance it takes to split.
    most_groups
        The most groups that one split makes.
    """

    first_test: int = Field(default=40, ge=1)
    divide_by: Literal["queries", "rounds"] = "queries"
    certainty: float = Field(default=5.0, gt=0)
    most_groups: int = Field(default=10, ge=2)


class Split(NamedTuple):
    """One ranker became several: in which round, how sure, and into how many."""

    round: int
    certainty: float
    n_groups: int


class ClusteredFPDGD(FPDGD):
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
        record: Recorder | None = None,
    ) -> None:
        super().__init__(population, ranker, settings=settings, seed=seed, record=record)
        self.clustering = clustering or ClusteringSettings()
        unfit = self.settings.private_layer or self.settings.paper_noise is not None
        if unfit or self.settings.aggregation != "mean":
            raise SettingsError(
                "takes FPDGD's plain mean: no private layer, no noise", where="clustered"
            )
        self.splits: list[Split] = []
        self.group = np.zeros(population.n_clients, np.int32)
        self._lessons = Lessons(
            population.n_clients,
            ranker.settings.n_parameters,
            width=population.arrays.features.shape[1],
            seed=seed,
        )
        self._group, self._parts = self.group, self._lessons.sums
        self._rule = self._rule._replace(parts_by_query=self.clustering.divide_by == "queries")
        self._due = [self.clustering.first_test]  # rounds before the next test

    @property
    def ranker(self) -> Ranker:
        """The ranker of the largest group."""
        return self._first.with_parameters(self._models[np.bincount(self.group).argmax()])

    def _look_back(self, participants: NDArray[np.int64]) -> None:
        """See whether some group's clients differ."""
        self._lessons.heard(participants)
        for group in range(len(self._models)):
            self._split_if_unlike(group)

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client."""
        rankers = tuple(self._first.with_parameters(model) for model in self._models)
        return ClientRankers(rankers, self.group.astype(np.int64))

    def _split_if_unlike(self, group: int) -> None:
        """Test a group that has been watched for long enough; divide it or watch twice as long."""
        members = np.flatnonzero(self.group == group)
        if not len(members) or np.median(self._lessons.n_rounds[members]) < self._due[group]:
            return
        self._due[group] *= 2
        members = members[self._lessons.complete(members)]
        if len(members) < 2:
            return
        parts = self._lessons.directions(members)
        certainty = distance_from_chance(parts)
        if certainty > self.clustering.certainty:
            rng = stream(self.seed, "clustered", self._n_rounds, group)
            found = find_groups(parts, most_groups=self.clustering.most_groups, rng=rng)
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
        self.group[members] = names[found]
        self._due[group] = self.clustering.first_test
        self._due += [self.clustering.first_test] * len(copies)
        self._lessons.forget(np.flatnonzero(np.isin(self.group, names)))
        self.splits.append(Split(self._n_rounds, certainty, len(numbers)))
