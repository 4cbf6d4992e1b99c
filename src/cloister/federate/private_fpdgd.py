"""Sound private FPDGD: what a ranker's training reveals of one user, bounded over all rounds.

Each participant clips its update to ``clip_norm`` in Euclidean length; all weigh the same; the
sum gets normal noise; the mean is taken over the number of participants that was expected, not the
one that came. The guarantee is at the level of a user: all interactions of one client, over the
whole training. It holds against everybody who sees the rankers of all rounds.

With the mechanism ``gaussian`` each client takes part in a round by a coin of its own (Poisson
sampling). Amplification by sampling holds against those who do not know who took part. The server
that runs rounds does know; `PrivateFPDGD.epsilon_of_server` tells what holds against it, if sums
are formed by secure aggregation and clients add the noise in shares; fellow participants of a round
know who else was in it, too. With the mechanism ``tree``
(DP-FTRL) clients take turns, nothing depends on hidden coins, and the server is trusted with sums.

Here noise comes from a seeded generator: a simulation protects nobody, and its releases say so.
:mod:`cloister.federate.secure_sum` is the road that real clients take.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import BudgetExceeded, SettingsError
from cloister.core.random import stream
from cloister.federate.dp_ftrl import TreeNoise
from cloister.federate.fedavg import checked
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import PlanReader, Recorder
from cloister.federate.local_training import RoundSums
from cloister.federate.participation import draw_poisson, take_turns
from cloister.federate.population import Population
from cloister.federate.private_training import PrivateTraining
from cloister.federate.protected_update import UpdateProtection
from cloister.federate.secure_sum import secure_sum
from cloister.privacy.accounting import composed_epsilon
from cloister.privacy.calibration import PlannedNoise, planned_noise
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.privacy.releases.tree import TreeRelease
from cloister.privacy.spending import Spending
from cloister.rank.ranker import Ranker

__all__ = ["PrivateFPDGD", "PrivateTraining"]

READERS: Final = "holds against readers of rankers who know neither who took part nor how many"


class PrivateFPDGD(FPDGD):
    """FPDGD whose rankers reveal at most epsilon of any one user, by its record of releases.

    Parameters
    ----------
    population, ranker, settings, seed
        As for FPDGD; ``settings.participants`` is the number expected in a round.
    privacy
        What may be revealed.
    record
        Told of every release before it is made, with a record for a ledger; it may refuse by
        raising.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=50&documents=20&features=8").train
    >>> clients = Population(iid(train, 1000), click_model("perfect", 5))
    >>> learner = PrivateFPDGD(
    ...     clients, Ranker.initial(RankerSettings(n_features=8)), seed=1,
    ...     settings=FpdgdSettings(participants=100),
    ...     privacy=PrivateTraining(epsilon=4.5, delta=1e-6, n_rounds=10))
    >>> _ = learner.step()
    >>> learner.spending.cost().epsilon < 4.5
    True
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        settings: FpdgdSettings | None = None,
        privacy: PrivateTraining,
        seed: int,
        record: Recorder | None = None,
    ) -> None:
        super().__init__(population, ranker, settings=settings, seed=seed, record=record)
        self.privacy = privacy
        self._check_settings()
        self.n_failed_rounds = 0
        self._rule = self._rule._replace(clip_update=privacy.clip_norm, equal_weights=True)
        self.spending = Spending(
            epsilon=privacy.epsilon, delta=privacy.delta, order=self.planned.order
        )
        one = self.release(self.n_expected)
        self.spending.reserve(one, self._n_releases)
        if isinstance(record, PlanReader):
            record.read_plan(one, self._n_releases, order=self.planned.order)
        self._tree = TreeNoise(self._node_noise, sigma=self.sigma)
        self._n_nodes = 0
        self._tree_noise = np.zeros(self._models.shape[1])
        self._recent: list[NDArray[np.float64]] = []

    def _check_settings(self) -> None:
        chosen = self.settings
        if chosen.private_layer or chosen.paper_noise or chosen.aggregation == "sum":
            raise SettingsError(
                "private training takes the mean of clipped updates of the whole ranker",
                where="settings",
                remedy="leave out private_layer, paper_noise and the aggregation sum",
            )
        if self.n_expected > self.population.n_clients:
            raise SettingsError(
                f"there are {self.population.n_clients} clients, fewer than {self.n_expected}",
                where="participants",
            )
        if self.privacy.delta * self.population.n_clients > 1:
            raise SettingsError(
                f"delta {self.privacy.delta} is no protection among "
                f"{self.population.n_clients} clients: it allows to publish one of them whole",
                where="delta",
                remedy=f"use {0.01 / self.population.n_clients:.0e} or less",
            )

    @property
    def n_expected(self) -> int:
        """Participants expected in a round, by which sums are divided."""
        return self.settings.participants or self.population.n_clients

    @property
    def sampling_rate(self) -> float:
        """The chance with which a client takes part in a round."""
        return self.n_expected / self.population.n_clients

    @cached_property
    def planned(self) -> PlannedNoise:
        """The noise over sensitivity, and the order of the filter that it was chosen for."""
        privacy = self.privacy
        if privacy.mechanism == "tree":
            return planned_noise(privacy.epsilon, privacy.delta, n_rounds=1)
        return planned_noise(
            privacy.epsilon,
            privacy.delta,
            n_rounds=privacy.n_rounds,
            sampling_rate=self.sampling_rate,
        )

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise in a round's sum, or of a node's in the tree."""
        if self.privacy.mechanism == "tree":
            return self.planned.multiplier * self._tree_release(1.0).tree_sensitivity
        return self.planned.multiplier * self.privacy.clip_norm

    def _tree_release(self, sigma: float) -> TreeRelease:
        between = self.population.n_clients // self.n_expected
        return TreeRelease(
            level=Level.USER,
            sigma=sigma,
            sensitivity=self.privacy.clip_norm,
            n_rounds=self.privacy.n_rounds,
            n_contributions=-(-self.privacy.n_rounds // between),
            n_rounds_between=between,
            n_values=self._models.shape[1],
            simulated=True,
            note="holds against readers of rankers; the server sees exact sums",
        )

    def release(self, n_participants: int) -> Release:
        """Return the record of one round's release, or with a tree of all rounds at once.

        What it costs does not depend on how many came.
        """
        if self.privacy.mechanism == "tree":
            return self._tree_release(self.sigma)
        if self.privacy.in_shares:
            return self._protection.release(
                sampling_rate=self.sampling_rate, simulated=True, note=READERS
            )
        return GaussianRelease(
            level=Level.USER,
            sigma=self.sigma,
            sensitivity=self.privacy.clip_norm,
            sampling_rate=self.sampling_rate,
            n_values=self._models.shape[1],
            simulated=True,
            note=f"{READERS}; the server is trusted with updates",
        )

    @property
    def _n_releases(self) -> int:
        return 1 if self.privacy.mechanism == "tree" else self.privacy.n_rounds

    def _participants(self) -> NDArray[np.int64]:
        n, seed, round = self.population.n_clients, self.seed, self._n_rounds
        if self.privacy.mechanism == "tree":
            return take_turns(n, self.n_expected, seed=seed, round=round)
        return draw_poisson(n, self.sampling_rate, seed=seed, round=round)

    def _train(
        self, participants: NDArray[np.int64], updates: NDArray[np.float32] | None = None
    ) -> RoundSums:
        """Train, and add up: what comes back has all noise in it, or nothing at all."""
        if not self.privacy.in_shares:
            sums = super()._train(participants, updates)
            return sums._replace(differences=sums.differences + self._noise())
        single = np.zeros((len(participants), self._models.shape[1]), np.float32)
        sums = super()._train(participants, single)
        return sums._replace(differences=self._shared_sum(participants, single)[None])

    def _shared_sum(
        self, participants: NDArray[np.int64], updates: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return the sum with the noise that participants add; zeros if too few have come."""
        n, protection = len(participants), self._protection
        if n < protection.min_survivors:
            self.n_failed_rounds += 1
            return np.zeros(self._models.shape[1])
        rng = stream(self.seed, "shares of noise", self._n_rounds)
        if not self.privacy.secure_aggregation:  # the sum as the protocol would give it
            sigma = protection.share_sigma * math.sqrt(n)
            exact: NDArray[np.float64] = updates.sum(axis=0, dtype=np.float64)
            return exact + rng.normal(0.0, sigma, self._models.shape[1:])
        named = {f"client-{client}": updates[i] for i, client in enumerate(participants)}
        least = max(protection.min_survivors, n - self.privacy.n_dropouts)
        return secure_sum(named, protection, SimulatedNoise(rng), min_survivors=least).values

    @cached_property
    def _protection(self) -> UpdateProtection:
        return UpdateProtection(
            clip_norm=self.privacy.clip_norm,
            sigma=self.sigma,
            min_survivors=self.privacy.min_survivors(self.n_expected, self.sampling_rate),
            n_colluders=self.privacy.n_colluders,
            n_values=self._models.shape[1],
        )

    def _new_models(self, sums: RoundSums, participants: NDArray[np.int64]) -> NDArray[np.float64]:
        mean = sums.differences / self.n_expected
        models = checked(self._models + self.privacy.server_rate * mean)
        self._recent = [*self._recent, models][-self.privacy.average_last :]
        return models

    def _pay(self, participants: NDArray[np.int64]) -> None:
        if self.privacy.mechanism == "tree" and self._n_rounds:
            if self._n_rounds >= self.privacy.n_rounds:
                raise BudgetExceeded(
                    f"the tree was planned and paid for {self.privacy.n_rounds} rounds",
                    where="n_rounds",
                    remedy="plan for more rounds",
                )
            return
        self.spending.record(self.release(len(participants)))
        super()._pay(participants)

    def _noise(self) -> NDArray[np.float64]:
        """Return what a trusted server adds to this round's sum."""
        if self.privacy.mechanism == "tree":
            before, self._tree_noise = self._tree_noise, self._tree.next()
            return self._tree_noise - before
        rng = stream(self.seed, "private noise", self._n_rounds)
        return rng.normal(0.0, self.sigma, self._models.shape[1:])

    def _node_noise(self) -> NDArray[np.float64]:
        self._n_nodes += 1
        rng = stream(self.seed, "tree noise", self._n_nodes)
        return rng.standard_normal(self._models.shape[1:])

    @property
    def ranker(self) -> Ranker:
        """The global ranker: the mean of the last rounds' models."""
        if not self._recent:
            return self._first.with_parameters(self._models[0])
        return self._first.with_parameters(np.mean(self._recent, axis=0)[0])

    def epsilon_of_server(self) -> float | None:
        """Return what the busiest client's turns reveal to a server that knows who took part.

        If it sees sums alone, by secure aggregation, with the noise added by clients. None for a
        tree, whose server sees exact sums.
        """
        if self.privacy.mechanism == "tree":
            return None
        loss = Loss("gaussian", self.sigma / self.privacy.clip_norm)
        return composed_epsilon({loss: self.most_turns}, self.privacy.delta).epsilon
