"""The jobs of the forget page: train a federation that can forget, and let it forget a client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.app.console.jobs import Job
from cloister.app.console.lab_world import lab_world
from cloister.federate.evaluation import Offline
from cloister.federate.retraining import Retraining
from cloister.federate.unlearning import unlearning_seed
from cloister.lab.forgetting.basis import Basis, make_basis
from cloister.lab.forgetting.federation import StoredFederation
from cloister.lab.forgetting.forgetting import forget
from cloister.lab.forgetting.statement import Method
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.ranker import Ranker

__all__ = ["Wish", "forget_client", "train_federation", "training_settings"]

N_CLIENTS: Final = 10
KEEP_EVERY: Final = 10  # rounds: of each such one something of every client is kept
POINTS: Final = 60  # of a curve, at most about so many


class Wish(NamedTuple):
    """Who is to be forgotten, how, and whether full retraining is run beside it for comparison."""

    client: str
    method: Method
    local_steps: int
    beside: bool


def training_settings(seed: int, n_rounds: int) -> SimulationSettings:
    """Return the settings of a training of ten clients, the last of which spoils it."""
    return SimulationSettings(
        data=lab_world(seed),
        clients=N_CLIENTS,
        queries_per_round=5,
        rounds=n_rounds,
        evaluate_every=_every(n_rounds),
        click_model="informational",
        attack="opposite",
        attackers=1,
        seed=seed,
    )


def train_federation(job: Job, folder: Path, settings: SimulationSettings) -> None:
    """Train, keep what forgetting needs, and tell of the ranker on the way."""

    def measured(n_rounds: int, offline: Offline) -> None:
        job.add("training", (n_rounds, offline.ndcg))

    with StoredFederation.create(folder, settings, keep_every=KEEP_EVERY) as federation:
        result = simulate(
            settings, observers=[federation.store], advance=job.advance, measured=measured
        )
        federation.finish(result.learner.ranker)


def forget_client(job: Job, folder: Path, wish: Wish) -> dict[str, Any]:
    """Forget a client, and retrain from scratch beside it where that is wished for.

    The forgetting stands when it is done: a job that is stopped while it retrains for comparison
    takes nothing back.
    """
    with StoredFederation.open(folder) as federation:
        settings, before = federation.settings, federation.state()
        gone = (*before.forgotten, *federation.numbers([wish.client]))
        basis = make_basis(settings, honest=True)
        n_planned = settings.rounds
        if wish.method == "fed-eraser":
            n_planned = -(-settings.rounds // federation.store.keep_every)
        n_more = settings.rounds if wish.beside else 0
        job.put("before", basis.measured(before.ranker))
        done = forget(
            federation,
            [wish.client],
            method=wish.method,
            local_steps=wish.local_steps,
            advance=lambda n, total: job.advance(n, total + n_more),
            watch=_watcher(job, "forgetting", basis, n_planned),
        )
    job.put("after", done.certificate["ndcg@10"]["after"])
    job.put("certificate", done.certificate["number"])
    if wish.beside:
        job.put("retrained", _retrained(job, settings, gone, n_planned))
    return done.certificate


def _retrained(
    job: Job, settings: SimulationSettings, gone: tuple[int, ...], n_before: int
) -> float:
    """Train anew without the forgotten as `forget` would; return the nDCG@10, and keep nothing."""
    basis = make_basis(settings, honest=True)
    learner = Retraining(
        basis.learner.population,
        basis.learner.ranker,
        forgotten=gone,
        n_planned=settings.rounds,
        seed=unlearning_seed(settings.seed, gone),
        settings=basis.learner.settings,
        rule=basis.rule,
    )
    learner.expect_bearable()
    watch = _watcher(job, "retraining", basis, settings.rounds)
    for done, ranker in enumerate(learner.rankers(), 1):
        watch(done, ranker)
        job.advance(n_before + done, n_before + settings.rounds)
    return basis.measured(learner.ranker)


def _watcher(job: Job, name: str, basis: Basis, n_planned: int) -> Callable[[int, Ranker], None]:
    """Return what measures the rankers of some rounds, the first and the last among them."""
    every = _every(n_planned)

    def watch(n_rounds: int, ranker: Ranker) -> None:
        if n_rounds % every == 0 or n_rounds in (1, n_planned):
            job.add(name, (n_rounds, basis.measured(ranker)))

    return watch


def _every(n_rounds: int) -> int:
    return max(1, n_rounds // POINTS)
