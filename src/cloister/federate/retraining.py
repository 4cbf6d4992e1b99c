"""Retraining without some clients: the plain way to forget them, and the baseline of unlearning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.learner import Recorder, RoundOutcome
from cloister.federate.participation import draw_participants
from cloister.federate.population import Population
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.rule import Rule
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Observer, Tampering
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.rank.ranker import Ranker

__all__ = ["Cost", "Retraining", "ShortRetraining", "alike", "who_stay", "with_steps"]


class Cost(NamedTuple):
    """What forgetting takes of those who stay.

    Parameters
    ----------
    n_rounds
        Rounds of communication.
    n_messages
        Updates sent, over all clients and rounds.
    n_client_steps
        Interactions, over all clients.
    """

    n_rounds: int
    n_messages: int
    n_client_steps: int


class Retraining(RobustFPDGD):
    """Training from scratch without some clients.

    With the seed of the training, clients who stay issue the same queries as they did in it.

    Parameters
    ----------
    population
        All clients, those to be forgotten too: a client's number is its own.
    ranker
        The first ranker, where the training began.
    forgotten
        Numbers of the clients to be forgotten; not all of them.
    n_planned
        Rounds that are to be done.
    seed
        :func:`cloister.federate.unlearning.unlearning_seed` gives one.
    settings, rule, tampering, observers, record
        As in the training; FedAvg unless a rule is given.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=50&documents=20&features=8").train
    >>> clients = Population(iid(train, 10), click_model("perfect", 5))
    >>> first = Ranker.initial(RankerSettings(n_features=8))
    >>> learner = Retraining(clients, first, forgotten=[9], n_planned=5, seed=1)
    >>> ranker = learner.run()
    >>> learner.cost
    Cost(n_rounds=5, n_messages=45, n_client_steps=180)
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        forgotten: Sequence[int],
        n_planned: int,
        seed: int,
        settings: FpdgdSettings | None = None,
        rule: Rule | None = None,
        tampering: Tampering | None = None,
        observers: Sequence[Observer] = (),
        record: Recorder | None = None,
    ) -> None:
        self.remaining = who_stay(population.n_clients, forgotten)
        super().__init__(
            population,
            ranker,
            rule=rule or WeightedMean(),
            tampering=tampering,
            observers=observers,
            settings=settings,
            seed=seed,
            record=record,
        )
        if n_planned < 1:
            raise SettingsError(f"at least 1 (given: {n_planned})", where="n_planned")
        self.n_planned = n_planned
        self._n_messages = 0
        self._n_client_steps = 0

    @property
    def fewest_participants(self) -> int:
        """How many take part in the smallest round that is planned."""
        n = len(self.remaining)
        return min(self.settings.participants or n, n)

    def expect_bearable(self) -> int:
        """Let the rule expect no more attackers than it has an outcome for; return how many fewer.

        Else a rule could keep clients from being forgotten: the fewer stay, the fewer it tolerates.
        """
        rule, n = self.rule, self.fewest_participants
        before, most = rule.n_attackers, max(0, rule.most_attackers(n))
        if before > most and (rule.beyond == "refuse" or not rule.computable(n, before)):
            rule.n_attackers = most
        return before - rule.n_attackers

    @property
    def cost(self) -> Cost:
        """What was done so far."""
        return Cost(self.n_rounds, self._n_messages, self._n_client_steps)

    def step(self) -> RoundOutcome:
        """Do one round, and count what it takes."""
        outcome = super().step()
        self._n_client_steps += outcome.n_interactions
        return outcome

    def rankers(self) -> Iterator[Ranker]:
        """Do the planned rounds that are left; yield the ranker after each."""
        while self.n_rounds < self.n_planned:
            self.step()
            yield self.ranker

    def run(self) -> Ranker:
        """Do the planned rounds that are left; return the last ranker."""
        while self.n_rounds < self.n_planned:
            self.step()
        return self.ranker

    def release(self, n_participants: int) -> Release:
        """Return the record of what one round of so many participants releases anew."""
        return UnprotectedRelease(
            level=Level.USER,
            n_values=self._models.shape[1],
            simulated=True,
            note="forgetting others: the server sees each new update of those who stay, readers "
            "every ranker",
        )

    def _participants(self) -> NDArray[np.int64]:
        n, asked = len(self.remaining), self.settings.participants
        few = None if asked is None else min(asked, n)
        drawn = draw_participants(n, few, seed=self.seed, round=self._n_rounds)
        return self.remaining[drawn]

    def _pay(self, participants: NDArray[np.int64]) -> None:
        super()._pay(participants)
        self._n_messages += len(participants)


class ShortRetraining(Retraining):
    """Retraining with as few steps as unlearning takes, without any history.

    Parameters
    ----------
    local_steps
        Interactions of each client in a round.
    n_planned
        Rounds: as many as were kept, or fewer with more steps each.
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        forgotten: Sequence[int],
        n_planned: int,
        local_steps: int,
        seed: int,
        settings: FpdgdSettings | None = None,
        rule: Rule | None = None,
        record: Recorder | None = None,
    ) -> None:
        chosen, same = with_steps(settings or FpdgdSettings(), local_steps), alike(population)
        super().__init__(
            same,
            ranker,
            forgotten=forgotten,
            n_planned=n_planned,
            seed=seed,
            settings=chosen,
            rule=rule,
            record=record,
        )


def who_stay(n_clients: int, forgotten: Sequence[int]) -> NDArray[np.int64]:
    """Return the numbers of those who stay, ascending."""
    unknown = sorted(client for client in set(forgotten) if not 0 <= client < n_clients)
    if unknown:
        raise SettingsError(
            f"no client {unknown[0]}; there are 0 to {n_clients - 1}", where="forgotten"
        )
    left = np.setdiff1d(np.arange(n_clients), np.array(sorted(set(forgotten)), np.int64))
    if not len(left):
        raise SettingsError(
            "nobody would be left",
            where="forgotten",
            remedy="delete the ranker instead: it is made of these clients' updates alone",
        )
    return left


def with_steps(settings: FpdgdSettings, local_steps: int) -> FpdgdSettings:
    """Return the settings with another number of interactions a round."""
    if local_steps < 1:
        raise SettingsError(f"at least 1 (given: {local_steps})", where="local_steps")
    return settings.model_copy(update={"queries_per_round": local_steps})


def alike(population: Population) -> Population:
    """Return the clients without numbers of queries of their own: all do the same steps."""
    views = population.views
    if all(view.queries_per_round is None for view in views):
        return population
    return Population(
        tuple(replace(view, queries_per_round=None) for view in views),
        population.click_model,
        page_length=population.page_length,
        precision=population.precision,
    )
