"""FPDGD: federated averaging of rankers that clients train by PDGD (thesis algorithm 2).

The same class is PDGD without a federation: one client who issues all queries is centralised
PDGD, and a client for each interaction whose gradients are summed is PDGD in batches.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.federate.fedavg import averaged, summed
from cloister.federate.fedper import initial_private_layers, with_private_layer
from cloister.federate.learner import ClientRankers, Recorder, RoundOutcome
from cloister.federate.local_training import LocalRule, RoundSums, train_clients
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker

__all__ = ["FPDGD", "FpdgdSettings", "local_rule"]


class FpdgdSettings(Settings):
    """How rankers are trained across clients.

    Parameters
    ----------
    pdgd
        What one interaction teaches.
    queries_per_round
        Interactions of a client in a round, the thesis's B; a client's own number goes before.
    participants
        Clients drawn for each round; all unless given.
    proximal
        FedProx's mu; 0 is FedAvg.
    private_layer
        FedPer: whether the output layer stays with each client.
    paper_noise
        The thesis's clipping and noise, which do not give what they claim: see
        :mod:`cloister.federate.paper_laplace`.
    aggregation
        ``mean`` weighted by interactions, or the ``sum`` of gradients taken at the round's model.
    """

    pdgd: PdgdSettings = PdgdSettings()
    queries_per_round: int = Field(default=4, ge=1)
    participants: int | None = Field(default=None, ge=1)
    proximal: float = Field(default=0.0, ge=0)
    private_layer: bool = False
    paper_noise: PaperLaplaceNoise | None = None
    aggregation: Literal["mean", "sum"] = "mean"

    @model_validator(mode="after")
    def _noise_fits(self) -> Self:
        if self.paper_noise and (self.aggregation == "sum" or self.private_layer):
            raise ValueError("paper_noise is for the mean of clients' whole weights")
        return self


class FPDGD:
    """Federated PDGD, round by round.

    Parameters
    ----------
    population
        The clients.
    ranker
        Where training begins.
    settings
        How rankers are trained.
    seed
        Decides everything that is drawn at random.
    record
        Told of every round's release before it is made; it refuses by raising.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=50&documents=20&features=8").train
    >>> clients = Population(iid(train, 100), click_model("perfect", 5))
    >>> learner = FPDGD(clients, Ranker.initial(RankerSettings(n_features=8)), seed=1)
    >>> learner.step().n_interactions, learner.n_rounds
    (400, 1)
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        settings: FpdgdSettings | None = None,
        seed: int,
        record: Recorder | None = None,
    ) -> None:
        self.population = population
        self.settings = settings or FpdgdSettings()
        self._record = record
        self._check_noise()
        self.seed = seed
        self._first = ranker
        self._models = ranker.parameters.astype(np.float64)[None]
        self._n_rounds = 0
        self._n_turns = np.zeros(population.n_clients, np.int32)
        self._rule = local_rule(self.settings)
        self._private = (
            initial_private_layers(ranker, population.n_clients)
            if self.settings.private_layer
            else None
        )
        # What a kind of FPDGD with several models or with lessons by part fills in.
        self._group: NDArray[np.int32] | None = None
        self._parts: NDArray[np.float32] | None = None

    def _check_noise(self) -> None:
        """Refuse weights that differ: the shares of noise would not add up (eq. 3.21)."""
        n = self.population.n_interactions(self.settings.queries_per_round)
        if self.settings.paper_noise and n.min() != n.max():
            raise SettingsError(
                "the shares of noise add up only where all clients weigh the same",
                where="paper_noise",
                remedy="give every client the same number of queries a round",
            )

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""
        return self._n_rounds

    @property
    def ranker(self) -> Ranker:
        """The global ranker."""
        return self._first.with_parameters(self._models[0])

    @property
    def n_turns(self) -> NDArray[np.int32]:
        """How often each client took part."""
        return self._n_turns

    @property
    def most_turns(self) -> int:
        """How often the busiest client took part."""
        return int(self._n_turns.max())

    def step(self) -> RoundOutcome:
        """Train for one round: thesis algorithm 2."""
        participants = self._participants()
        self._pay(participants)
        sums = self._train(participants)
        self._models = self._new_models(sums, participants)
        self._n_rounds += 1
        self._n_turns[participants] += 1
        self._look_back(participants)
        n = max(1.0, float(sums.n_interactions.sum()))
        return RoundOutcome(
            int(sums.n_interactions.sum()), sums.ndcg / n, sums.max_rr / n, sums.clicks / n
        )

    def _participants(self) -> NDArray[np.int64]:
        return draw_participants(
            self.population.n_clients,
            self.settings.participants,
            seed=self.seed,
            round=self._n_rounds,
        )

    def release(self, n_participants: int) -> Release:
        """Return the record of what one round of so many participants releases."""
        noise, n_parameters = self.settings.paper_noise, self._models.shape[1]
        if noise is not None:
            return noise.release(n_parameters=n_parameters, n_clients=n_participants)
        return UnprotectedRelease(
            level=Level.USER,
            n_values=n_parameters,
            simulated=True,
            note="the server sees each update, readers every ranker",
        )

    def _pay(self, participants: NDArray[np.int64]) -> None:
        """Record the round's release, before it is made."""
        if self._record is not None:
            self._record(self.release(len(participants)))

    def _new_models(self, sums: RoundSums, participants: NDArray[np.int64]) -> NDArray[np.float64]:
        aggregate = averaged if self.settings.aggregation == "mean" else summed
        models = aggregate(self._models, sums)
        if self.settings.paper_noise is not None:
            models += self.settings.paper_noise.mean_noise(
                models.shape[1], len(participants), seed=self.seed, round=self._n_rounds
            )
        return models

    def _train(
        self, participants: NDArray[np.int64], updates: NDArray[np.float32] | None = None
    ) -> RoundSums:
        return train_clients(
            self.population,
            participants,
            self._models.astype(np.float32),
            self._first.settings.shape,
            self.settings.pdgd.pair_rule,
            self._rule,
            queries_per_round=self.settings.queries_per_round,
            seed=self.seed,
            round=self._n_rounds,
            model_of_client=self._group,
            private=self._private,
            parts=self._parts,
            updates=updates,
        )

    def _look_back(self, participants: NDArray[np.int64]) -> None:
        """Do what is to be done after a round; here nothing."""

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client: one for all, unless a layer is private."""
        n = self.population.n_clients
        if self._private is None:
            return ClientRankers((self.ranker,), np.zeros(n, np.int64))
        rankers = tuple(with_private_layer(self.ranker, own) for own in self._private)
        return ClientRankers(rankers, np.arange(n))


def local_rule(settings: FpdgdSettings) -> LocalRule:
    """Return how a client trains, as kernels take it."""
    return LocalRule(
        settings.pdgd.learning_rate,
        settings.pdgd.decay,
        settings.proximal,
        settings.paper_noise.clip_norm if settings.paper_noise else 0.0,
        settings.aggregation == "sum",
    )
