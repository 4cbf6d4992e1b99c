"""The poisoned-client evaluation of unlearning (thesis section 6.1.4), one repetition at a time.

Clients who spoil the ranker on purpose are to be forgotten: before, the ranker is bad; after, it
must be as good as one that was trained without them. Attackers are the last clients, so honest
clients issue the same queries in all configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from cloister.adversary.poisoning.opposite_model import OppositeModel
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.population import Population
from cloister.federate.retraining import Retraining, ShortRetraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import KeptRound, MemoryUpdateStore
from cloister.lab.forgetting.evaluation_settings import UnlearningSettings
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker

__all__ = ["Repetition", "prepared", "replayed", "unlearning_figures"]

POINTS: Final = 40  # measurements along a curve
CURVE: Final = (3, 10)  # local steps and interval of figure 6.3


class Repetition(NamedTuple):
    """What all systems of a repetition share."""

    settings: UnlearningSettings
    population: Population
    first: Ranker
    fpdgd: FpdgdSettings
    evaluation: Evaluation

    def measured(self, ranker: Ranker) -> float:
        """Return a ranker's nDCG@10 on held-out queries."""
        return self.evaluation.measure_one(ranker).ndcg


def unlearning_figures(settings: UnlearningSettings, advance: Advance) -> Figures:
    """Train poisoned, honest and without; unlearn in every way, beside the baselines.

    By system: ``offline_ndcg@10``, ``client_steps`` and ``rounds`` of those who stay (of all, in
    training), ``share_of_steps`` of retraining's, for what is kept ``kept_bytes`` as updates and
    ``kept_lengths_bytes``, and where drawn ``curve_rounds`` and ``curve_ndcg``.
    """
    work = prepared(settings)
    told = _Progress(advance, _total_rounds(settings))
    store = MemoryUpdateStore(keep_every=settings.intervals[0], keep="updates")
    attack = OppositeModel(
        attackers=settings.forgotten, strength=settings.strength, seed=settings.seed
    )
    trained = _trained(work, told, tampering=attack, observers=[store])
    figures: Figures = {
        settings.poisoned: _of_training(work, trained),
        settings.all_honest: _of_training(work, _trained(work, told)),
    }
    without = Retraining(
        work.population,
        work.first,
        forgotten=settings.forgotten,
        n_planned=settings.rounds,
        seed=settings.seed,  # the honest clients' queries are those of the training
        settings=work.fpdgd,
    )
    figures[settings.without] = _measured(work, without, told, curve=False)
    for interval in settings.intervals:
        history = store.kept_rounds(every=interval)
        ranker = replayed(work.first, history, settings.forgotten, keep_every=interval)
        figures[settings.replay(interval)] = {
            "offline_ndcg@10": work.measured(ranker),
            "client_steps": 0.0,
            "rounds": 0.0,
            "share_of_steps": 0.0,
        }
        for steps in settings.local_steps:
            figures |= _of_unlearning(work, history, steps, interval, told)
    return figures


def replayed(
    first: Ranker, history: Sequence[KeptRound], forgotten: Sequence[int], *, keep_every: int
) -> Ranker:
    """Return the first ranker moved by kept updates of those who stay: no client does a step.

    Measured beside the others and not offered: it stays behind them. Each kept round stands for
    ``keep_every``. The updates were learnt from models that the forgotten had a part in, so this
    forgets less than FedEraser does.
    """
    total = first.parameters.astype(np.float64)
    for kept in (one.without(forgotten) for one in history):
        if kept.updates is not None and len(kept.updates):
            total += keep_every * kept.updates.astype(np.float64).mean(axis=0)
    return first.with_parameters(total)


def _of_unlearning(
    work: Repetition, history: Sequence[KeptRound], steps: int, interval: int, told: _Progress
) -> Figures:
    """Return FedEraser, and short retraining of equal steps in as many and in fewer rounds."""
    settings = work.settings
    shared: dict[str, Any] = {
        "forgotten": settings.forgotten,
        "seed": unlearning_seed(settings.seed, settings.forgotten),
        "settings": work.fpdgd,
    }
    few = max(1, round(len(history) * steps / settings.queries_per_round))
    population, first = work.population, work.first
    learners = {
        settings.unlearned(steps, interval): FedEraser(
            population, first, history=history, local_steps=steps, **shared
        ),
        settings.short(steps, interval): ShortRetraining(
            population, first, n_planned=len(history), local_steps=steps, **shared
        ),
        settings.fewer_rounds(steps, interval): ShortRetraining(
            population, first, n_planned=few, local_steps=settings.queries_per_round, **shared
        ),
    }
    curve = (steps, interval) == CURVE
    figures = {name: _measured(work, one, told, curve=curve) for name, one in learners.items()}
    n = sum(len(kept.without(settings.forgotten).clients) for kept in history)
    figures[settings.unlearned(steps, interval)] |= {
        "kept_bytes": float(4 * n * len(first.parameters)),
        "kept_lengths_bytes": float(8 * n),
    }
    return figures


def _measured(
    work: Repetition, learner: Retraining, told: _Progress, *, curve: bool
) -> dict[str, float | list[float]]:
    """Do all rounds, and measure at the end, or along the way as well."""
    rounds: list[float] = []
    values: list[float] = []
    every = max(1, learner.n_planned // POINTS)
    while learner.n_rounds < learner.n_planned:
        learner.step()
        told.one()
        if curve and (learner.n_rounds % every == 0 or learner.n_rounds == learner.n_planned):
            rounds.append(float(learner.n_rounds))
            values.append(work.measured(learner.ranker))
    settings = work.settings
    whole = settings.n_honest * settings.queries_per_round * settings.rounds
    figures: dict[str, float | list[float]] = {
        "offline_ndcg@10": work.measured(learner.ranker),
        "client_steps": float(learner.cost.n_client_steps),
        "rounds": float(learner.cost.n_rounds),
        "share_of_steps": learner.cost.n_client_steps / whole,
    }
    return figures | ({"curve_rounds": rounds, "curve_ndcg": values} if curve else {})


def _trained(work: Repetition, told: _Progress, **extra: Any) -> Ranker:
    learner = RobustFPDGD(
        work.population,
        work.first,
        rule=WeightedMean(),
        settings=work.fpdgd,
        seed=work.settings.seed,
        **extra,
    )
    for _ in range(work.settings.rounds):
        learner.step()
        told.one()
    return learner.ranker


def _of_training(work: Repetition, ranker: Ranker) -> dict[str, float | list[float]]:
    settings = work.settings
    return {
        "offline_ndcg@10": work.measured(ranker),
        "client_steps": float(settings.n_clients * settings.queries_per_round * settings.rounds),
        "rounds": float(settings.rounds),
    }


def prepared(settings: UnlearningSettings) -> Repetition:
    """Load the data, and make the clients and the first ranker of a repetition."""
    simulated = SimulationSettings(
        data=settings.data,
        fold=settings.fold,
        normalise=settings.normalise,
        click_model=settings.click_model or "perfect",
        clients=settings.n_clients,
        queries_per_round=settings.queries_per_round,
        rounds=settings.rounds,
        seed=settings.seed,
    )
    clients = make_clients(simulated)
    learner = make_learner(simulated, clients)
    return Repetition(
        settings,
        Population(clients.train, clients.click_model),
        learner.ranker,
        FpdgdSettings(
            pdgd=PdgdSettings(learning_rate=simulated.rate),
            queries_per_round=settings.queries_per_round,
        ),
        Evaluation(clients.test, clients.click_model, seed=settings.seed),
    )


def _total_rounds(settings: UnlearningSettings) -> int:
    kept = sum(-(-settings.rounds // interval) for interval in settings.intervals)
    short = sum(1 + 1 + steps / settings.queries_per_round for steps in settings.local_steps)
    return round(3 * settings.rounds + kept * short)


class _Progress:
    """Counts rounds of all trainings."""

    def __init__(self, advance: Callable[[int, int], None], total: int) -> None:
        self._advance = advance
        self._total = total
        self._done = 0

    def one(self) -> None:
        self._done += 1
        if self._done % 100 == 0 or self._done >= self._total:
            self._advance(min(self._done, self._total), self._total)
