"""One simulated training run: from settings to learning curves and a ranker."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.data.clicks import ClickModel
from cloister.data.partitions import Views, distinct_views, iid
from cloister.data.ranking_data import RankingData
from cloister.federate.clustered import ClusteredFPDGD, ClusteringSettings
from cloister.federate.evaluation import Evaluation, Offline
from cloister.federate.evolution import EvolutionStrategies
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import ClientRankers, Learner
from cloister.federate.paper_noise import PaperGammaNoise
from cloister.federate.population import Population
from cloister.lab.simulation.clients import Clients, make_clients
from cloister.lab.simulation.settings import SimulationSettings
from cloister.measure.online import discounted_sum
from cloister.rank.evolution_strategies import EvolutionSettings
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["Advance", "SimulationResult", "make_learner", "simulate", "threads_limited"]

Advance = Callable[[int, int], None]


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
    """

    settings: SimulationSettings
    curves: dict[str, NDArray[np.float64]]
    final: Offline
    learner: Learner
    seconds: float
    cpu_seconds: float

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
        return figures | self.privacy()

    def privacy(self) -> dict[str, Any]:
        """Return the true epsilons where noise was added, each with what it is of; else nothing.

        ``epsilon`` is of a client's whole training, by basic composition.
        """
        learner = self.learner
        if isinstance(learner, FPDGD) and learner.settings.paper_noise is not None:
            guarantee = learner.settings.paper_noise.guarantee(
                n_parameters=learner.ranker.settings.n_parameters, n_rounds=learner.n_rounds
            )
            return {
                "epsilon": guarantee.of_the_training,
                "epsilon_of_a_round": guarantee.of_a_round,
                "epsilon_of_a_message": float("inf"),
                "epsilon_claimed": guarantee.claimed,
                "epsilon_against": "a server that sees the sum of all clients only",
            }
        if isinstance(learner, EvolutionStrategies) and learner.settings.keep_probability < 1:
            cost = learner.epsilon()
            return {
                "epsilon": cost.per_training,
                "epsilon_of_a_message": cost.per_message,
                "epsilon_of_an_interaction": cost.per_interaction,
                "epsilon_against": "a server that sees each message",
            }
        return {}


def simulate(
    settings: SimulationSettings, *, threads: int | None = None, advance: Advance | None = None
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
        learner = make_learner(settings, clients)
        evaluation = Evaluation(
            clients.test,
            clients.click_model,
            seed=settings.seed,
            nothing_relevant=settings.nothing_relevant,
        )
        start, cpu = time.perf_counter(), time.process_time()
        curves, final = _train(settings, learner, evaluation, advance or _silent)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        return SimulationResult(settings, curves, final, learner, seconds, cpu_seconds)


def _silent(done: int, total: int) -> None:
    pass


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
    settings: SimulationSettings, learner: Learner, evaluation: Evaluation, advance: Advance
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


def make_learner(settings: SimulationSettings, clients: Clients) -> Learner:
    """Return the learner that the settings name, ready for its first round."""
    data = clients.train[0].data
    first = Ranker.initial(
        RankerSettings(
            kind=settings.ranker,
            n_features=data.n_features,
            hidden=settings.n_hidden,
            activation=settings.activation,
        ),
        seed=settings.seed,
    )
    if clients.shared is not None and settings.warm_up_rounds:
        first = _warmed_up(settings, first, clients.shared, clients.click_model)
    match settings.method:
        case "fpdgd":
            return FPDGD(
                _population(settings, clients), first, settings=_fpdgd(settings), seed=settings.seed
            )
        case "clustered":
            return ClusteredFPDGD(
                _population(settings, clients),
                first,
                settings=_fpdgd(settings),
                clustering=_clustering(settings),
                seed=settings.seed,
            )
        case "pdgd" | "batch-pdgd":
            return _without_federation(settings, clients, first)
        case "es":
            return EvolutionStrategies(
                population=_population(settings, clients),
                ranker=first.with_parameters(np.zeros_like(first.parameters)),  # as published
                settings=_evolution(settings),
                queries_per_round=settings.queries_per_round,
                seed=settings.seed,
                participants=settings.participants,
            )


def _population(settings: SimulationSettings, clients: Clients) -> Population:
    return _population_of(clients.train, clients.click_model, settings)


def _population_of(views: Views, model: ClickModel, settings: SimulationSettings) -> Population:
    return Population(views, model, page_length=settings.page_length, precision=settings.precision)


def _pdgd(settings: SimulationSettings) -> PdgdSettings:
    return PdgdSettings(
        negatives=settings.negatives,
        rho_over=settings.rho_over,
        learning_rate=settings.rate,
        decay=settings.decay,
    )


def _fpdgd(settings: SimulationSettings) -> FpdgdSettings:
    return FpdgdSettings(
        pdgd=_pdgd(settings),
        queries_per_round=settings.queries_per_round,
        participants=settings.participants,
        proximal=settings.proximal,
        private_layer=settings.private_layer,
        paper_noise=_paper_noise(settings),
    )


def _paper_noise(settings: SimulationSettings) -> PaperGammaNoise | None:
    if settings.paper_epsilon is None:
        return None
    return PaperGammaNoise(
        epsilon=settings.paper_epsilon,
        sensitivity=settings.paper_sensitivity,
        clip=settings.paper_clip,
    )


def _clustering(settings: SimulationSettings) -> ClusteringSettings:
    return ClusteringSettings(
        divide_by=settings.cluster_by,
        first_test=settings.first_test,
        certainty=settings.certainty,
        most_groups=settings.most_groups,
    )


def _evolution(settings: SimulationSettings) -> EvolutionSettings:
    return EvolutionSettings(
        sigma=settings.sigma,
        learning_rate=settings.rate,
        reward=settings.reward,
        keep_probability=settings.keep_probability,
        antithetic=settings.antithetic,
        beta1=settings.beta1,
        beta2=settings.beta2,
        adam_epsilon=settings.adam_epsilon,
        ndcg_levels=settings.ndcg_levels,
    )


def _without_federation(settings: SimulationSettings, clients: Clients, first: Ranker) -> FPDGD:
    """Return PDGD on the same clients' data, with as many interactions a round.

    After each interaction: one client issues all queries. In batches: each interaction is a
    client's of its own, and gradients are summed.
    """
    views = tuple(replace(view, queries_per_round=None) for view in distinct_views(clients.train))
    if len({(id(v.queries), id(v.rows), id(v.labels), v.click_models) for v in views}) > 1:
        raise SettingsError(
            "without a federation all data is alike",
            where=f"partition {settings.partition}",
            remedy="use the partition iid",
        )
    n = _interactions_of_a_round(settings, clients.train)
    if settings.method == "pdgd":
        views, chosen = views[:1], FpdgdSettings(pdgd=_pdgd(settings), queries_per_round=n)
    else:
        views = views[:1] * n
        chosen = FpdgdSettings(pdgd=_pdgd(settings), queries_per_round=1, aggregation="sum")
    population = _population_of(views, clients.click_model, settings)
    return FPDGD(population, first, settings=chosen, seed=settings.seed)


def _interactions_of_a_round(settings: SimulationSettings, views: Views) -> int:
    """Return how many searches a federation of these clients makes in a round, on average."""
    searches = sum(view.queries_per_round or settings.queries_per_round for view in views)
    return max(1, round(searches * (settings.participants or len(views)) / len(views)))


def _warmed_up(
    settings: SimulationSettings, first: Ranker, shared: RankingData, model: ClickModel
) -> Ranker:
    """Train by plain FPDGD on the shared queries alone."""
    learner = FPDGD(
        _population_of(iid(shared, settings.clients), model, settings),
        first,
        settings=FpdgdSettings(pdgd=_pdgd(settings), queries_per_round=settings.queries_per_round),
        seed=settings.seed + 2**32,
    )
    for _ in range(settings.warm_up_rounds):
        learner.step()
    return learner.ranker
