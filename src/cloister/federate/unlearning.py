"""Unlearning: a ranker as if some clients had never taken part, for less than training it anew.

FedEraser (Liu et al. 2021) as the thesis adapts it (section 6.1.2): from the same first ranker,
in as many rounds as were kept, those who stay train a few steps each; every new update gives the
direction, the kept one of that round the length (eq. 6.2; section 7.4.2 has it the wrong way
round). The server adds up as in training.

Beside it stand retraining from scratch, and short retraining without any history, with as many
client steps as unlearning takes (:mod:`cloister.federate.retraining`).

What holds: the new ranker is made from the first ranker and from new updates of those who stay;
nothing that a forgotten client sent goes into it but through the *lengths* of the others' old
updates, which its influence had shaped (retraining has not even that). What does not: rankers and
updates that were released before stay released; who has the rankers of before and after sees in
their difference what the client contributed; and those who stay release new updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.learner import Recorder
from cloister.federate.population import Population
from cloister.federate.retraining import Retraining, alike, who_stay, with_steps
from cloister.federate.rules.rule import Rule
from cloister.federate.tampering import Sent, Tampering
from cloister.federate.update_store import KeptRound, lengths_of
from cloister.rank.ranker import Ranker

__all__ = ["Calibration", "FedEraser", "calibrated", "unlearning_seed"]


def unlearning_seed(seed: int, forgotten: Sequence[int]) -> int:
    """Return a seed for forgetting these clients after a training of that seed.

    Those who stay issue other queries than they did in training.
    """
    return int(stream(seed, "unlearning", *sorted(set(forgotten))).integers(2**62))


def calibrated(updates: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return new updates with old lengths: thesis eq. 6.2, row by row.

    An update of length 0 has no direction, and stays 0.

    Examples
    --------
    >>> calibrated(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([10.0, 1.0]))
    array([[6., 8.],
           [0., 0.]])
    """
    new = lengths_of(updates)
    scales: NDArray[np.float64] = np.zeros_like(new)
    np.divide(lengths, new, out=scales, where=new > 0)
    return updates * scales[:, None]


class Calibration:
    """What each client does to its new update before it sends it, by the door that attackers use.

    Parameters
    ----------
    history
        What was kept, a round each, of those who take part.
    tampering
        What malicious clients among them do to it after that.
    """

    def __init__(self, history: Sequence[KeptRound], tampering: Tampering | None = None) -> None:
        self._history = history
        self._tampering = tampering

    def tampered(self, sent: Sent) -> NDArray[np.float64]:
        """Return the updates of this round with the lengths that were kept of it."""
        arrived = calibrated(sent.updates, self._history[sent.round].lengths)
        if self._tampering is None:
            return arrived
        return self._tampering.tampered(sent._replace(updates=arrived))


class FedEraser(Retraining):
    """FedEraser: few rounds of few steps, calibrated by what was kept (thesis section 6.1.2).

    In each round those take part who did in the kept round and stay. Weights of clients are those
    of the training.

    Parameters
    ----------
    population, ranker, forgotten, seed, settings, rule, tampering, record
        As for `Retraining`.
    history
        What was kept of the training; of the forgotten clients nothing is needed.
    local_steps
        Interactions of each client in a round, the thesis's n'.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.data.partitions import iid
    >>> from cloister.data.source import load_fold
    >>> from cloister.federate.robust_fpdgd import RobustFPDGD
    >>> from cloister.federate.rules.weighted_mean import WeightedMean
    >>> from cloister.federate.update_store import MemoryUpdateStore
    >>> from cloister.rank.ranker import RankerSettings
    >>> train = load_fold("world:features?queries=50&documents=20&features=8").train
    >>> clients = Population(iid(train, 10), click_model("perfect", 5))
    >>> first = Ranker.initial(RankerSettings(n_features=8))
    >>> store = MemoryUpdateStore(keep_every=10)
    >>> learner = RobustFPDGD(clients, first, rule=WeightedMean(), observers=[store], seed=1)
    >>> outcomes = [learner.step() for _ in range(50)]
    >>> eraser = FedEraser(clients, first, history=store.kept_rounds(), forgotten=[9],
    ...                    local_steps=2, seed=unlearning_seed(1, [9]))
    >>> unlearned = eraser.run()
    >>> eraser.cost
    Cost(n_rounds=5, n_messages=45, n_client_steps=90)
    """

    def __init__(
        self,
        population: Population,
        ranker: Ranker,
        *,
        history: Sequence[KeptRound],
        forgotten: Sequence[int],
        local_steps: int = 3,
        seed: int,
        settings: FpdgdSettings | None = None,
        rule: Rule | None = None,
        tampering: Tampering | None = None,
        record: Recorder | None = None,
    ) -> None:
        before = settings or FpdgdSettings()
        who_stay(population.n_clients, forgotten)  # refuses where nobody would
        kept = [one.without(forgotten) for one in history]
        self._history = [one for one in kept if len(one.clients)]
        if not self._history:
            raise SettingsError(
                "nothing is kept of any client who stays",
                where="history",
                remedy="retrain instead, or keep updates while training",
            )
        for one in self._history:
            if not (np.isfinite(one.lengths) & (one.lengths >= 0)).all():
                raise DataError(
                    "a kept length is not a finite number from 0", where=f"round {one.round}"
                )
        self._original_weights = population.n_interactions(before.queries_per_round)
        super().__init__(
            alike(population),
            ranker,
            forgotten=forgotten,
            n_planned=len(self._history),
            seed=seed,
            settings=with_steps(before, local_steps),
            rule=rule,
            tampering=Calibration(self._history, tampering),
            record=record,
        )

    @property
    def fewest_participants(self) -> int:
        """How many take part in the smallest round that is planned."""
        return min(len(one.clients) for one in self._history)

    @property
    def n_client_steps_planned(self) -> int:
        """Interactions of all clients, over all rounds."""
        return self.settings.queries_per_round * sum(len(one.clients) for one in self._history)

    def _participants(self) -> NDArray[np.int64]:
        return self._history[self._n_rounds].clients

    @cached_property
    def _weights(self) -> NDArray[np.int64]:
        return self._original_weights
