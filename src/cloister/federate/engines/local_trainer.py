"""How the users of one site learn in a round: all of them in one batched kernel."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.fpdgd import local_rule
from cloister.federate.local_training import train_clients
from cloister.federate.participation import draw_poisson
from cloister.federate.population import Population

__all__ = ["LocalTrainer", "PopulationTrainer", "Settled", "SiteLesson"]


class SiteLesson(NamedTuple):
    """What the users of one site have learnt in one round.

    Parameters
    ----------
    weighted
        The sum of users' differences from the round's ranker, each times its interactions.
    n_interactions
        Of all these users.
    updates
        Users x parameters: the differences one by one.
    """

    weighted: NDArray[np.float64]
    n_interactions: int
    updates: NDArray[np.float32]


class Settled(NamedTuple):
    """For what a trainer takes pages now, and what became of the pages that it took before.

    Parameters
    ----------
    session_id
        The session of secure aggregation; empty for a round in the open.
    last_counted
        The last round in which the site's update counted, by the coordinator's word; -1 for none.
    counted
        Of the sessions that hold pages: those whose round has counted. Their pages are deleted.
    free
        Of these sessions: those that can never be opened. Their pages are free again. Pages of all
        other sessions stay locked.
    """

    session_id: str = ""
    last_counted: int = -1
    counted: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()


class LocalTrainer(Protocol):
    """Trains the users of one site."""

    @property
    def simulated(self) -> bool:
        """Whether whoever knows a seed can draw again who took part."""

    def train(
        self, model: NDArray[np.float64], *, round: int, attempt: int, settled: Settled
    ) -> SiteLesson:
        """Return what the site's users learn from this ranker.

        Where privacy rests on coins, they are thrown anew for each attempt: an attempt that failed
        may have been seen. What was learnt from before may be learnt from again only where
        ``settled`` says so.
        """

    def is_ready(self, *, round: int, settled: Settled) -> bool:
        """Tell whether there is anything to learn from; without coins, `train` then teaches it."""

    def held_sessions(self) -> frozenset[str]:
        """Return the sessions for which pages were taken that are still there."""


class PopulationTrainer:
    """Simulated users of one site: some of a population's, each by its number there.

    Sites that divide a population among them teach together what `FPDGD` teaches: what a user
    draws at random depends on the seed, the round and its number alone.

    Parameters
    ----------
    population
        Users, of this site and maybe of others.
    agreement
        How users train.
    members
        The numbers of this site's users; all unless given.
    seed
        Decides everything that is drawn at random.
    """

    simulated = True

    def __init__(
        self,
        population: Population,
        agreement: FederationAgreement,
        *,
        members: ArrayLike | None = None,
        seed: int,
    ) -> None:
        own = np.arange(population.n_clients) if members is None else np.unique(members)
        if not len(own) or own[0] < 0 or own[-1] >= population.n_clients:
            raise SettingsError("not numbers of users of the population", where="members")
        self._population = population
        self._agreement = agreement
        self._members = own.astype(np.int64)
        self._seed = seed
        self._rule = local_rule(agreement.training)
        if agreement.privacy is not None:
            self._rule = self._rule._replace(
                clip_update=agreement.privacy.clip_norm, equal_weights=True
            )

    def train(
        self,
        model: NDArray[np.float64],
        *,
        round: int,
        attempt: int = 0,
        settled: Settled | None = None,
    ) -> SiteLesson:
        """Return what the site's users learn from this ranker."""
        taking_part = self._participants(round, attempt)
        updates = np.zeros((len(taking_part), len(model)), np.float32)
        if not len(taking_part):
            return SiteLesson(np.zeros(len(model)), 0, updates)
        sums = train_clients(
            self._population,
            taking_part,
            model.astype(np.float32)[None],
            self._agreement.ranker.shape,
            self._agreement.training.pdgd.pair_rule,
            self._rule,
            queries_per_round=self._agreement.training.queries_per_round,
            seed=self._seed,
            round=round,
            updates=updates,
        )
        return SiteLesson(sums.differences[0], int(sums.n_interactions[0]), updates)

    def is_ready(self, *, round: int, settled: Settled) -> bool:
        """Say yes: simulated users always have something to learn from."""
        return True

    def held_sessions(self) -> frozenset[str]:
        """Return no session: simulated users learn from new pages in each round."""
        return frozenset()

    def _participants(self, round: int, attempt: int) -> NDArray[np.int64]:
        rate, seed = self._agreement.sampling_rate, self._seed
        if rate == 1:
            return self._members
        if attempt and self._agreement.privacy is not None:
            seed = int(stream(seed, "coins", round, attempt).integers(2**63))
        drawn = draw_poisson(self._population.n_clients, rate, seed=seed, round=round)
        return np.intersect1d(drawn, self._members)
