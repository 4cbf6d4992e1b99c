"""FPDGD whose server sees single updates and adds them up by a rule of its own choice.

The server sees each client's update: no secure aggregation (but see
:mod:`cloister.federate.rules.adaptive` for sums over groups). What malicious clients send instead
of their updates comes from a `Tampering`; poisoned clicks come with the population.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.fedavg import summed
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import Recorder
from cloister.federate.local_training import RoundSums
from cloister.federate.population import Population
from cloister.federate.rules.rule import Rule
from cloister.federate.tampering import Observer, Sent, Tampering
from cloister.privacy.release import Release
from cloister.rank.ranker import Ranker

__all__ = ["RobustFPDGD"]


class RobustFPDGD(FPDGD):
    """FPDGD with an aggregation rule, and with a door for attackers.

    Parameters
    ----------
    population, ranker, settings, seed, record
        As for FPDGD.
    rule
        How updates are added up. A rule with a memory serves one training.
    tampering
        What malicious clients do to their updates.
    observers
        Told of what arrives in each round.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.federate.rules.weighted_mean import WeightedMean
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=50&documents=20&features=8").train
    >>> clients = Population(iid(train, 10), click_model("perfect", 5))
    >>> first = Ranker.initial(RankerSettings(n_features=8))
    >>> learner = RobustFPDGD(clients, first, rule=WeightedMean(), seed=1)
    >>> learner.step().n_interactions, int(learner.n_unused.sum())
    (40, 0)
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        rule: Rule,
        tampering: Tampering | None = None,
        observers: Sequence[Observer] = (),
        settings: FpdgdSettings | None = None,
        seed: int,
        record: Recorder | None = None,
    ) -> None:
        super().__init__(population, ranker, settings=settings, seed=seed, record=record)
        chosen = self.settings
        if chosen.private_layer or chosen.paper_noise or chosen.aggregation == "sum":
            raise SettingsError(
                "a rule adds up whole updates without noise",
                where="settings",
                remedy="leave out private_layer, paper_noise and the aggregation sum",
            )
        self.rule = rule
        self._tampering = tampering
        self._observers = tuple(observers)
        rule.check(chosen.participants or population.n_clients)
        self.refused: Counter[int] = Counter()
        self.n_unused = np.zeros(population.n_clients, np.int64)
        self.n_rounds_beyond = 0

    def _train(
        self, participants: NDArray[np.int64], updates: NDArray[np.float32] | None = None
    ) -> RoundSums:
        """Train, let attackers step in, and add up by the rule."""
        single = np.zeros((len(participants), self._models.shape[1]), np.float32)
        sums = super()._train(participants, single)
        sent = Sent(single.astype(np.float64), participants, self._models[0], self._n_rounds)
        if self._tampering is not None:
            sent = sent._replace(updates=self._tampering.tampered(sent))
        for observer in self._observers:
            observer.observe(sent)
        outcome = self.rule.aggregate(
            sent.updates,
            participants,
            n_interactions=self._weights[participants],
            round=self._n_rounds,
        )
        self.refused.update(outcome.refused)
        self.n_unused[participants[~outcome.used]] += 1
        self.n_rounds_beyond += not outcome.within_bound
        return sums._replace(differences=outcome.update[None])

    def release(self, n_participants: int) -> Release:
        """Return the record of what one round releases; with groups, sums of groups."""
        size = self.rule.group_size
        if size == 1:
            return super().release(n_participants)
        note = f"the server sees sums of groups of {size} or more, readers every ranker"
        return super().release(n_participants).model_copy(update={"note": note})

    @cached_property
    def _weights(self) -> NDArray[np.int64]:
        return self.population.n_interactions(self.settings.queries_per_round)

    def _new_models(self, sums: RoundSums, participants: NDArray[np.int64]) -> NDArray[np.float64]:
        return summed(self._models, sums)
