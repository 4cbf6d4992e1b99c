"""FOLtR-ES: federated online learning to rank with evolution strategies (thesis section 3.1).

In a round each participant perturbs the model, shows its users pages ranked by the perturbed
model, and sends the seed and the mean of the privatised rewards; the server adds up and lets Adam
take a step. :mod:`cloister.rank.evolution_strategies` has the arithmetic, and says what the
messages protect and what they do not.

Clients are worked on in blocks whose number depends on nothing but the number of participants. A
block adds up what its clients contribute in double precision, as the server would from their
seeds, and blocks are added in order: the result has the same bits for any number of threads, and
memory does not grow with the number of clients.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import checked_stream
from cloister.core.errors import DataError, SettingsError
from cloister.core.random import whole_number
from cloister.federate.evolution_kernel import EvolutionRule, run_blocks
from cloister.federate.learner import ClientRankers, Recorder, RoundOutcome
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.rank.evolution_strategies import (
    AdamState,
    EvolutionEpsilon,
    EvolutionSettings,
    adam_step,
    evolution_epsilon,
)
from cloister.rank.ranker import Ranker

__all__ = ["EvolutionStrategies"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

MOST_BLOCKS: Final = 128


class EvolutionStrategies:
    """Federated training by evolution strategies, as a :class:`~cloister.federate.learner.Learner`.

    Parameters
    ----------
    population
        The clients.
    ranker
        Where training begins. The public code begins with zeros, for a neural ranker too: a
        perturbation then decides the ranking, while it hardly moves random weights far larger
        than sigma.
    settings
        How it learns, and how rewards are privatised.
    queries_per_round
        Interactions of a client that has no number of its own; 4 in the thesis.
    seed
        With the round and the client's number it decides all that is drawn at random.
    participants
        How many clients, drawn anew each round, take part; all of them unless given.
    record
        Told of every round's release before it is made; it refuses by raising.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=8&documents=5&features=4").train
    >>> learner = EvolutionStrategies(
    ...     population=Population(iid(train, 100), click_model("perfect", 5)),
    ...     ranker=Ranker.initial(RankerSettings(n_features=4)),
    ...     settings=EvolutionSettings(keep_probability=0.9),
    ... )
    >>> learner.step().n_interactions, learner.n_rounds, round(learner.epsilon().per_message, 1)
    (400, 1, 18.0)
    """

    def __init__(
        self,
        *,
        population: Population,
        ranker: Ranker,
        settings: EvolutionSettings | None = None,
        queries_per_round: int = 4,
        seed: int = 0,
        participants: int | None = None,
        record: Recorder | None = None,
    ) -> None:
        self.population = population
        self._record = record
        self.settings = settings or EvolutionSettings()
        self.queries_per_round = _at_least_one(queries_per_round, "queries_per_round")
        if participants is not None:
            participants = _at_least_one(participants, "participants")
        self.participants = participants
        self.seed = int(checked_stream(seed)[0])
        self._ranker = ranker
        self._adam = AdamState.initial(ranker.settings.n_parameters)
        self._values = self.settings.reward_values(population.page_length)
        self._check()

    def _check(self) -> None:
        n_features = self.population.n_features
        if self._ranker.settings.n_features != n_features:
            raise SettingsError(
                f"the ranker reads {self._ranker.settings.n_features} features, the data has "
                f"{n_features}",
                where="ranker",
            )
        if not np.isfinite(self._ranker.parameters).all():
            raise DataError("a parameter is not finite", where="ranker")
        if self._ranker.settings.kind != "linear" and self.population.precision != "single":
            raise SettingsError(
                "only linear rankers read features in half precision",
                where="ranker",
                remedy='use Population(..., precision="single")',
            )
        self._draw()  # refuses a wrong number of participants before the first round

    @property
    def n_rounds(self) -> int:
        """Rounds done so far."""
        return self._adam.n_steps

    @property
    def ranker(self) -> Ranker:
        """The server's ranker, without a perturbation."""
        return self._ranker

    def client_rankers(self) -> ClientRankers:
        """Return the ranker of every client: all use the server's."""
        return ClientRankers((self._ranker,), np.zeros(self.population.n_clients, np.int64))

    def epsilon(self) -> EvolutionEpsilon:
        """Return the true cost so far of the client that searches most, if it missed no round.

        It is infinite where rewards are sent as they are.
        """
        most = int(self.population.n_interactions(self.queries_per_round).max())
        return evolution_epsilon(
            self.settings.keep_probability,
            len(self._values),
            n_interactions=most,
            n_messages=self.n_rounds,
        )

    def release(self) -> Release:
        """Return the record of the message that a client sends in a round."""
        most = int(self.population.n_interactions(self.queries_per_round).max())
        if self.settings.keep_probability == 1:
            return UnprotectedRelease(level=Level.INTERACTION, n_values=most, simulated=True)
        return RandomisedResponseRelease(
            level=Level.INTERACTION,
            group_sizes={Level.USER: most},
            keep_probability=self.settings.keep_probability,
            n_options=len(self._values),
            n_values=most,
            simulated=True,
        )

    def step(self) -> RoundOutcome:
        """Train for one round."""
        if self._record is not None:
            self._record(self.release())
        sums, online = self._round(self._draw())
        ndcg, max_rr, clicks, n = online.tolist()
        # eq. 3.4: the mean of reward * (theta - phi) / sigma^2, and theta - phi is sigma * normal
        gradient = sums / (self.settings.sigma * n)
        self._adam, change = adam_step(self._adam, gradient, self.settings)
        self._ranker = self._ranker.with_parameters(self._ranker.parameters + change)
        return RoundOutcome(int(n), ndcg / n, max_rr / n, clicks / n)

    def _draw(self) -> Places:
        """Return who takes part in the next round."""
        return draw_participants(
            self.population.n_clients, self.participants, seed=self.seed, round=self.n_rounds
        )

    def _round(self, participants: Places) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the participants' perturbations add up to, and the online sums."""
        settings, parameters = self.settings, self._ranker.parameters
        key, number, _, _ = checked_stream(self.seed, round=self.n_rounds)
        n_blocks = min(len(participants), MOST_BLOCKS)
        sums = np.zeros((n_blocks, len(parameters)))
        online = np.zeros((n_blocks, 4))
        run_blocks(
            *self.population.arrays,
            participants,
            self.queries_per_round,
            parameters,
            self._ranker.settings.shape,
            EvolutionRule(
                np.float32(settings.sigma),
                settings.antithetic,
                settings.reward == "ndcg",
                settings.keep_probability,
            ),
            self._values,
            self.population.page_length,
            self.population.most_documents,
            key,
            number,
            sums,
            online,
        )
        return sums.sum(axis=0), online.sum(axis=0)


def _at_least_one(value: int, where: str) -> int:
    number = whole_number(value, where=where)
    if number < 1:
        raise SettingsError(f"must be at least 1 (given: {number})", where=where)
    return number
