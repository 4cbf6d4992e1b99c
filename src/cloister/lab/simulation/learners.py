"""From the settings of a run to the learner that they name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cloister.adversary.poisoning import ON_OFF, ModelPoisoning, make_tampering
from cloister.core.errors import SettingsError
from cloister.data.clicks import ClickModel
from cloister.data.partitions import Views, distinct_views, iid
from cloister.data.ranking_data import RankingData
from cloister.federate.clustered import ClusteredFPDGD, ClusteringSettings
from cloister.federate.evolution import EvolutionStrategies
from cloister.federate.fpdgd import FPDGD, FpdgdSettings
from cloister.federate.learner import Learner, Recorder
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.federate.population import Population
from cloister.federate.private_fpdgd import PrivateFPDGD, PrivateTraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules import Rule, make_rule
from cloister.federate.rules.adaptive import Adaptive
from cloister.federate.tampering import Observer
from cloister.lab.simulation.clients import Clients, promotion_target
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.evolution_strategies import EvolutionSettings
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerSettings

__all__ = ["expected_in_a_round", "make_learner"]


def make_learner(
    settings: SimulationSettings,
    clients: Clients,
    *,
    record: Recorder | None = None,
    observers: Sequence[Observer] = (),
) -> Learner:
    """Return the learner that the settings name, ready for its first round.

    With observers the server sees single updates, which private training does not let it.
    """
    if observers and (settings.method != "fpdgd" or settings.epsilon or settings.paper_epsilon):
        raise SettingsError(
            "nobody sees single updates of this training", where="observers",
            remedy="use the method fpdgd without noise",
        )  # fmt: skip
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
        case "fpdgd" if settings.epsilon is not None:
            return PrivateFPDGD(
                _population(settings, clients),
                first,
                settings=_fpdgd(settings),
                privacy=_private(settings, settings.epsilon),
                seed=settings.seed,
                record=record,
            )
        case "fpdgd" if settings.sees_updates or observers:
            rule = _rule(settings)
            return RobustFPDGD(
                _population(settings, clients),
                first,
                settings=_fpdgd(settings),
                rule=rule,
                tampering=_tampering(settings, rule, data),
                observers=observers,
                seed=settings.seed,
                record=record,
            )
        case "fpdgd":
            return FPDGD(
                _population(settings, clients),
                first,
                settings=_fpdgd(settings),
                seed=settings.seed,
                record=record,
            )
        case "clustered":
            return ClusteredFPDGD(
                _population(settings, clients),
                first,
                settings=_fpdgd(settings),
                clustering=_clustering(settings),
                seed=settings.seed,
                record=record,
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
                record=record,
            )


def expected_in_a_round(attackers: int, n_clients: int, participants: int | None) -> int:
    """Return how many attackers a round has at most, but for rare rounds: three deviations more.

    Examples
    --------
    >>> [expected_in_a_round(n, 1000, 100) for n in (0, 10, 100)], expected_in_a_round(3, 10, None)
    ([0, 4, 19], 3)
    """
    if participants is None or participants == n_clients:
        return attackers
    share = attackers / n_clients
    mean = participants * share
    return min(attackers, math.ceil(mean + 3 * math.sqrt(mean * (1 - share))))


def _rule(settings: SimulationSettings) -> Rule:
    """Return the rule; what lies beyond its bound is marked, not refused."""
    n = settings.expected_attackers
    if n is None:
        n = expected_in_a_round(settings.attackers, settings.clients, settings.participants)
    if settings.rule == "adaptive":
        return Adaptive(
            n_attackers=n, beyond="mark", group_size=settings.group_size, seed=settings.seed
        )
    return make_rule(settings.rule, n_attackers=n, beyond="mark")


def _tampering(
    settings: SimulationSettings, rule: Rule, data: RankingData
) -> ModelPoisoning | None:
    if not settings.attackers:
        return None
    rounds = {"on_rounds": settings.on_rounds, "off_rounds": settings.off_rounds}
    return make_tampering(
        f"{ON_OFF}{settings.attack}" if settings.off_rounds else settings.attack,
        attackers=settings.attacking_clients,
        knowledge=settings.knowledge,
        rule=rule,
        seed=settings.seed,
        target=promotion_target(settings, data),
        **(rounds if settings.off_rounds else {}),
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


def _private(settings: SimulationSettings, epsilon: float) -> PrivateTraining:
    return PrivateTraining(
        epsilon=epsilon,
        delta=settings.delta,
        n_rounds=settings.rounds,
        clip_norm=settings.clip_norm,
        mechanism=settings.mechanism,
        server_rate=settings.server_rate,
        average_last=settings.average_last,
        n_dropouts=settings.dropouts,
        n_colluders=settings.colluders,
        secure_aggregation=settings.secure_aggregation,
    )


def _paper_noise(settings: SimulationSettings) -> PaperLaplaceNoise | None:
    if settings.paper_epsilon is None:
        return None
    return PaperLaplaceNoise(
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
