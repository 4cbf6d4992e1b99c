"""One simulated training run: from settings to learning curves and a ranker."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.federate.clustered import ClusteredFPDGD
from cloister.federate.evaluation import Evaluation, Offline
from cloister.federate.learner import ClientRankers, Learner, Recorder
from cloister.federate.tampering import Observer
from cloister.lab.simulation.attack_figures import attack_figures
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.privacy_figures import privacy_figures
from cloister.lab.simulation.settings import SimulationSettings
from cloister.measure.online import discounted_sum

__all__ = ["Advance", "Measured", "SimulationResult", "simulate", "silent", "threads_limited"]

Advance = Callable[[int, int], None]
Measured = Callable[[int, Offline], None]


@dataclass(frozen=True)
class SimulationResult:
    """What came out of a run.

    Parameters
    ----------
    settings
        What decided it.
    curves
        By name, one number a round: ``round`` (from 1), ``interactions`` (so far),
        ``online_ndcg``, ``online_max_rr``, ``clicks`` (means over the round's interactions),
        ``offline_ndcg``, ``offline_max_rr`` (NaN where not measured).
    final
        Offline performance at the end.
    learner
        The trained learner, with its rankers.
    seconds, cpu_seconds
        Of training and measuring, without loading.
    attack
        What attackers and rules did.
    """

    settings: SimulationSettings
    curves: dict[str, NDArray[np.float64]]
    final: Offline
    learner: Learner
    seconds: float
    cpu_seconds: float
    attack: dict[str, Any] = field(default_factory=dict)

    @property
    def weights_sha256(self) -> str:
        """A digest of all rankers' parameters, and of who uses which: equal where runs agree."""
        digest = hashlib.sha256()
        clients = self.learner.client_rankers()
        for ranker in clients.rankers:
            digest.update(ranker.parameters.astype("<f4").tobytes())
        if len(clients.rankers) > 1:  # then it matters who uses which
            digest.update(clients.of_client.astype("<i8").tobytes())
        return digest.hexdigest()

    def summary(self) -> dict[str, Any]:
        """Return the figures that ``cloister simulate`` prints."""
        online = self.curves["online_ndcg"]
        figures = {
            "offline_ndcg@10": self.final.ndcg,
            "offline_max_rr": self.final.max_rr,
            "online_ndcg@10": discounted_sum(online),
            "online_ndcg@10_mean": float(online.mean()),
            "interactions": int(self.curves["interactions"][-1]),
            "rounds": len(online),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "weights_sha256": self.weights_sha256,
        }
        if isinstance(self.learner, ClusteredFPDGD):
            figures["groups"] = len(self.learner.client_rankers().rankers)
            figures["splits"] = [split._asdict() for split in self.learner.splits]
        return figures | self.attack | self.privacy()

    def privacy(self) -> dict[str, Any]:
        """Return the true epsilons where noise was added, each with what it is of; else nothing.

        ``epsilon`` is of a client's whole training.
        """
        return privacy_figures(self.learner)


def simulate(
    settings: SimulationSettings,
    *,
    threads: int | None = None,
    advance: Advance | None = None,
    record: Recorder | None = None,
    observers: Sequence[Observer] = (),
    measured: Measured | None = None,
) -> SimulationResult:
    """Run one simulation.

    Parameters
    ----------
    settings
        Everything that decides the result.
    threads
        How many to use; the result is the same for any number.
    advance
        Told of each round done and of their number.
    record
        Told of each round's release before it is made (method ``fpdgd``).
    observers
        Told of the updates that arrive in each round (method ``fpdgd`` without noise).
    measured
        Told of each offline measurement: after how many rounds, and what it gave.

    Examples
    --------
    >>> settings = SimulationSettings(
    ...     data="world:features?queries=50&documents=20&features=8", clients=50, rounds=20)
    >>> result = simulate(settings)
    >>> bool(result.curves["offline_ndcg"][-1] > result.curves["offline_ndcg"][0])
    True
    """
    with threads_limited(threads):
        clients = make_clients(settings)
        learner = make_learner(settings, clients, record=record, observers=observers)
        evaluation = Evaluation(
            clients.test,
            clients.click_model,
            seed=settings.seed,
            nothing_relevant=settings.nothing_relevant,
        )
        start, cpu = time.perf_counter(), time.process_time()
        curves, final = _train(
            settings, learner, evaluation, advance or silent, measured or _untold
        )
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        attack = attack_figures(settings, learner, clients.test[0].data)
        return SimulationResult(settings, curves, final, learner, seconds, cpu_seconds, attack)


def silent(done: int, total: int) -> None:
    """Tell nobody of what is done."""


def _untold(n_rounds: int, offline: Offline) -> None:
    """Tell nobody of what was measured."""


@contextmanager
def threads_limited(threads: int | None) -> Iterator[None]:
    """Let kernels use at most so many threads."""
    import numba

    before = numba.get_num_threads()
    most = int(vars(numba.config)["NUMBA_NUM_THREADS"])
    if threads is not None and not 1 <= threads <= most:
        raise SettingsError(f"this machine offers 1 to {most} (given: {threads})", where="threads")
    numba.set_num_threads(threads or before)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _train(
    settings: SimulationSettings,
    learner: Learner,
    evaluation: Evaluation,
    advance: Advance,
    measured: Measured,
) -> tuple[dict[str, NDArray[np.float64]], Offline]:
    n = settings.rounds
    names = ("interactions", "online_ndcg", "online_max_rr", "clicks")
    curves = {name: np.empty(n) for name in names}
    curves |= {name: np.full(n, np.nan) for name in ("offline_ndcg", "offline_max_rr")}
    offline = None
    for i in range(n):
        outcome = learner.step()
        curves["interactions"][i] = outcome.n_interactions
        curves["online_ndcg"][i] = outcome.ndcg
        curves["online_max_rr"][i] = outcome.max_rr
        curves["clicks"][i] = outcome.clicks
        if (i + 1) % settings.evaluate_every == 0 or i + 1 == n:
            offline = evaluation.measure(_of_clients(learner, evaluation), round=i)
            curves["offline_ndcg"][i] = offline.ndcg
            curves["offline_max_rr"][i] = offline.max_rr
            measured(i + 1, offline)
        advance(i + 1, n)
    curves["interactions"] = np.cumsum(curves["interactions"])
    if offline is None:
        raise SettingsError("at least one round is needed", where="rounds")
    return {"round": np.arange(1.0, n + 1)} | curves, offline


def _of_clients(learner: Learner, evaluation: Evaluation) -> ClientRankers:
    """Return the clients' rankers; without a federation all clients use the one."""
    clients = learner.client_rankers()
    if len(clients.of_client) == evaluation.n_clients:
        return clients
    return ClientRankers((learner.ranker,), np.zeros(evaluation.n_clients, np.int64))
