"""How well a client's mark tells whether it was forgotten, and what it costs the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from cloister.core.random import stream
from cloister.federate.canary import Mark, Marking, draw_mark, presence, quiet_directions
from cloister.federate.retraining import Retraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Observer
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import MemoryUpdateStore
from cloister.lab.forgetting.evaluation import Repetition, prepared
from cloister.lab.forgetting.evaluation_settings import UnlearningSettings
from cloister.lab.reproduce.study import Figures
from cloister.lab.simulation.run import Advance
from cloister.rank.ranker import Ranker

__all__ = ["CanarySettings", "canary_figures"]

LEVEL: Final = 0.05  # p-values up to this count as a detection


class CanarySettings(UnlearningSettings):
    """One repetition: the last client marks its updates, trains, and is forgotten.

    Parameters
    ----------
    sizes
        Lengths of the mark, as shares of the update's.
    n_directions
        Signs of the mark.
    interval, steps
        Of unlearning.
    """

    rounds: int = Field(default=2_000, ge=1)
    sizes: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)
    n_directions: int = Field(default=16, ge=1)
    interval: int = Field(default=10, ge=1)
    steps: int = Field(default=3, ge=1)


def canary_figures(settings: CanarySettings, advance: Advance) -> Figures:
    """Train with marks of several sizes, forget the client, and test all rankers.

    By system (``unmarked``, ``retrained``, ``marked SIZE``, ``forgotten SIZE``):
    ``offline_ndcg@10``, ``p_value``, and ``detected``, which is 1 where that is at most 0.05.
    """
    work = prepared(settings)
    client = settings.n_clients - 1
    mark = draw_mark(
        quiet_directions(work.population.data, settings.n_directions),
        rng=stream(settings.seed, "canary", "mark", settings.fold),
    )
    total = 2 + 2 * len(settings.sizes)
    figures = {"unmarked": _tested(work, _trained(work, None), mark)}
    advance(1, total)
    again = Retraining(
        work.population,
        work.first,
        forgotten=[client],
        n_planned=settings.rounds,
        seed=unlearning_seed(settings.seed, [client]),
        settings=work.fpdgd,
    )
    figures["retrained"] = _tested(work, again.run(), mark)
    advance(2, total)
    for number, size in enumerate(settings.sizes):
        store = MemoryUpdateStore(keep_every=settings.interval)
        ranker = _trained(work, Marking(client, mark, size=size), [store])
        figures[f"marked {size:g}"] = _tested(work, ranker, mark)
        advance(3 + 2 * number, total)
        eraser = FedEraser(
            work.population,
            work.first,
            history=store.kept_rounds(),
            forgotten=[client],
            local_steps=settings.steps,
            seed=unlearning_seed(settings.seed, [client]),
            settings=work.fpdgd,
        )
        figures[f"forgotten {size:g}"] = _tested(work, eraser.run(), mark)
        advance(4 + 2 * number, total)
    return figures


def _trained(
    work: Repetition, marking: Marking | None, observers: Sequence[Observer] = ()
) -> Ranker:
    learner = RobustFPDGD(
        work.population,
        work.first,
        rule=WeightedMean(),
        tampering=marking,
        observers=observers,
        settings=work.fpdgd,
        seed=work.settings.seed,
    )
    for _ in range(work.settings.rounds):
        learner.step()
    return learner.ranker


def _tested(work: Repetition, ranker: Ranker, mark: Mark) -> dict[str, float | list[float]]:
    rng = stream(work.settings.seed, "canary", "test", work.settings.fold)
    p_value = presence(ranker.parameters, mark, rng=rng)
    return {
        "offline_ndcg@10": work.measured(ranker),
        "p_value": p_value,
        "detected": float(p_value <= LEVEL),
    }
