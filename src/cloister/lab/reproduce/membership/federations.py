"""Federations drawn from a pool of people: shadows of the adversary, and those attacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.population import Population
from cloister.federate.private_fpdgd import PrivateFPDGD
from cloister.federate.private_training import PrivateTraining
from cloister.federate.retraining import Retraining, ShortRetraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Observer
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import MemoryUpdateStore
from cloister.lab.reproduce.membership.people import People
from cloister.lab.reproduce.membership.setting import RankerMembershipSettings
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["Federation", "Trainer"]


class Federation(NamedTuple):
    """One federation and its rankers.

    Parameters
    ----------
    members
        Of all people, who took part.
    forgotten
        The person who was, or whose presence is in question.
    rankers
        Parameters by way of training.
    ndcg
        By way of training, on queries that are nobody's; of shadows none.
    """

    members: NDArray[np.bool_]
    forgotten: int
    rankers: dict[str, NDArray[np.float64]]
    ndcg: dict[str, float]


class Trainer:
    """Draws federations, trains them, and makes them forget.

    Parameters
    ----------
    settings
        How.
    people
        Whom they are drawn from.
    """

    def __init__(self, settings: RankerMembershipSettings, people: People) -> None:
        self.settings = settings
        self.people = people
        n_features = people.views[0].data.n_features
        self._first = Ranker.initial(RankerSettings(n_features=n_features))
        self._fpdgd = FpdgdSettings(queries_per_round=settings.queries_per_round)

    def shadow(self, number: int) -> Federation:
        """Return a federation of the adversary's own, before and after it unlearns a client."""
        rng = stream(self.settings.seed, "membership", "shadow", number)
        chosen = self._drawn(rng)
        seed, place = int(rng.integers(2**62)), int(rng.integers(len(chosen)))
        population, person = self._population(chosen), int(chosen[place])
        if self.settings.epsilon is not None:
            rankers = {"trained": self._trained(population, seed)}
        else:
            store = MemoryUpdateStore(keep_every=self.settings.keep_every)
            rankers = {"trained": self._trained(population, seed, [store])}
            rankers["unlearned"] = self._eraser(population, store, place, seed).run()
        return self._federation(chosen, person, rankers, measure=False)

    def attacked(self, number: int) -> Federation:
        """Return a federation that forgets one of its clients in every way."""
        settings = self.settings
        rng = stream(settings.seed, "membership", "attacked", number)
        chosen = self._drawn(rng)
        place, seed = int(rng.integers(len(chosen))), int(rng.integers(2**62))
        population = self._population(chosen)
        if settings.epsilon is not None:
            rankers = {"trained": self._trained(population, seed)}
            return self._federation(chosen, int(chosen[place]), rankers)
        store = MemoryUpdateStore(keep_every=settings.keep_every)
        rankers = {"trained": self._trained(population, seed, [store])}
        shared = self._forgetting(place, seed)
        learners = {
            "unlearned": self._eraser(population, store, place, seed),
            "short retraining": ShortRetraining(
                population,
                self._first,
                n_planned=len(store.kept_rounds()),
                local_steps=settings.local_steps,
                **shared,
            ),
            "retrained": Retraining(population, self._first, n_planned=settings.rounds, **shared),
        }
        rankers |= {name: learner.run() for name, learner in learners.items()}
        return self._federation(chosen, int(chosen[place]), rankers)

    def _eraser(
        self, population: Population, store: MemoryUpdateStore, place: int, seed: int
    ) -> FedEraser:
        return FedEraser(
            population,
            self._first,
            history=store.kept_rounds(),
            local_steps=self.settings.local_steps,
            **self._forgetting(place, seed),
        )

    def _forgetting(self, place: int, seed: int) -> dict[str, Any]:
        """Return what every way of forgetting one client is given."""
        return {
            "forgotten": [place],
            "seed": unlearning_seed(seed, [place]),
            "settings": self._fpdgd,
        }

    def _drawn(self, rng: np.random.Generator) -> NDArray[np.int64]:
        chosen = rng.choice(self.settings.n_people, self.settings.clients, replace=False)
        return np.sort(chosen)

    def _population(self, chosen: NDArray[np.int64]) -> Population:
        views = tuple(self.people.views[person] for person in chosen)
        return Population(views, self.people.click_model)

    def _trained(
        self, population: Population, seed: int, observers: Sequence[Observer] = ()
    ) -> Ranker:
        learner = self._learner(population, seed, observers)
        for _ in range(self.settings.rounds):
            learner.step()
        return learner.ranker

    def _learner(self, population: Population, seed: int, observers: Sequence[Observer]) -> FPDGD:
        chosen = self.settings
        shared: dict[str, Any] = {"settings": self._fpdgd, "seed": seed}
        if chosen.epsilon is not None:
            privacy = PrivateTraining(
                epsilon=chosen.epsilon,
                delta=chosen.delta,
                n_rounds=chosen.rounds,
                clip_norm=chosen.clip_norm,
            )
            return PrivateFPDGD(population, self._first, privacy=privacy, **shared)
        if observers:
            return RobustFPDGD(
                population, self._first, rule=WeightedMean(), observers=observers, **shared
            )
        return FPDGD(population, self._first, **shared)

    def _federation(
        self,
        chosen: NDArray[np.int64],
        forgotten: int,
        rankers: dict[str, Ranker],
        *,
        measure: bool = True,
    ) -> Federation:
        members = np.zeros(self.settings.n_people, np.bool_)
        members[chosen] = True
        evaluation = self.people.evaluation
        return Federation(
            members,
            forgotten,
            {name: ranker.parameters.astype(np.float64) for name, ranker in rankers.items()},
            {
                name: evaluation.measure_one(ranker).ndcg
                for name, ranker in rankers.items()
                if measure
            },
        )
