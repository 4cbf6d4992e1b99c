"""Forgetting clients of a stored federation: unlearn, measure, delete, certify."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Conflict, SettingsError
from cloister.federate.database_update_store import kept_in
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FPDGD
from cloister.federate.learner import Recorder
from cloister.federate.retraining import Cost, Retraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.rules.rule import Rule
from cloister.federate.rules.weighted_mean import WeightedMean
from cloister.federate.tampering import Tampering
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import MemoryUpdateStore, digest_of
from cloister.lab.forgetting.certificate import Certificate, signed_certificate
from cloister.lab.forgetting.federation import (
    StoredFederation,
    client_name,
    refuse_unless_forgettable,
)
from cloister.lab.forgetting.state import State
from cloister.lab.forgetting.statement import Method, deletion, statement
from cloister.lab.simulation.clients import make_clients
from cloister.lab.simulation.learners import make_learner
from cloister.lab.simulation.run import Advance
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.rank.ranker import Ranker

__all__ = ["Forgetting", "forget", "stored_training"]

_OF_THE_PAIR: Final = (
    "whoever has the rankers of before and after forgetting sees in their difference what this "
    "party contributed"
)


class Forgetting(NamedTuple):
    """What came of a forgetting.

    Parameters
    ----------
    certificate
        What was done, signed.
    ranker
        The new ranker.
    cost
        What it took of those who stay.
    """

    certificate: Certificate
    ranker: Ranker
    cost: Cost


def stored_training(
    federation: StoredFederation,
    *,
    tampering: Tampering | None = None,
    advance: Advance | None = None,
) -> Ranker:
    """Train as the federation's settings say, keep what forgetting needs, and end the training.

    Parameters
    ----------
    federation
        As `StoredFederation.create` gives it.
    tampering
        What malicious clients do, where the settings have an attack.
    advance
        Told of each round done and of their number.
    """
    if federation.settings.attackers and tampering is None:
        raise SettingsError(
            "the settings have an attack, and nobody carries it out", where="attack"
        )
    basis = _basis(federation.settings)
    learner = RobustFPDGD(
        basis.learner.population,
        basis.learner.ranker,
        rule=basis.rule,
        tampering=tampering,
        observers=[federation.store],
        settings=basis.learner.settings,
        seed=federation.settings.seed,
    )
    n = federation.settings.rounds
    for done in range(1, n + 1):
        learner.step()
        if advance is not None:
            advance(done, n)
    federation.finish(learner.ranker)
    return learner.ranker


def forget(
    federation: StoredFederation,
    clients: Sequence[str],
    *,
    method: Method = "fed-eraser",
    local_steps: int = 3,
    tampering: Tampering | None = None,
    record: Recorder | None = None,
    record_forgotten: Callable[[str, Release], None] | None = None,
    advance: Advance | None = None,
) -> Forgetting:
    """Forget clients: a new ranker without them, what was kept of them deleted, a certificate.

    All who were forgotten before stay forgotten: forgetting one client and then another gives the
    same ranker as forgetting both at once. A process that is killed leaves all as it was before,
    or all as it is after.

    Parameters
    ----------
    federation
        An open, trained federation.
    clients
        Names, ``client-N``.
    method
        ``fed-eraser``, or ``retrain`` from scratch; the latter replaces what is kept as well.
    local_steps
        Of FedEraser: interactions of each client in a round.
    tampering
        What malicious clients do who stay; without it they are honest now, and the certificate
        says so.
    record
        Told of each round's release of those who stay, before it is made.
    record_forgotten
        Told, for each forgotten client's name, of what the pair of rankers reveals.
    advance
        Told of each round done and of their number.
    """
    if not clients:
        raise SettingsError("name at least one client", where="clients")
    before = federation.state()
    numbers = federation.numbers(clients)
    _refuse_forgotten(before, numbers)
    gone = tuple(sorted({*before.forgotten, *numbers}))
    basis = _basis(federation.settings)
    kept = MemoryUpdateStore(keep_every=federation.store.keep_every, keep=federation.store.keep)
    learner = _learner(federation, basis, gone, method, local_steps, kept, tampering, record)
    if record_forgotten is not None:
        for name in clients:
            record_forgotten(name, _pair_release(before.ranker))
    for done, _ in enumerate(learner.rankers(), 1):
        if advance is not None:
            advance(done, learner.n_planned)
    about = statement(
        federation,
        before,
        learner,
        forgotten=numbers,
        method=method,
        local_steps=local_steps,
        ndcg=(basis.measured(before.ranker), basis.measured(learner.ranker)),
        steps_of_retraining=_steps_of_retraining(federation.settings, learner, basis),
        honest_now=tampering is None
        and not set(federation.settings.attacking_clients) <= set(gone),
    )

    def work(connection: sa.Connection) -> tuple[Ranker, Sequence[int], Certificate]:
        kept_before = digest_of(kept_in(connection))
        n_deleted = federation.store.forget_in(connection, numbers)
        if method == "retrain":
            federation.store.replace_in(connection, kept.kept_rounds())
        digests = {
            **about["sha256"],
            "kept_before": kept_before,
            "kept_after": digest_of(kept_in(connection)),
        }
        content = {**about, "sha256": digests, "deleted": deletion(federation, before, n_deleted)}
        return learner.ranker, gone, signed_certificate(content, federation.identity)

    return Forgetting(federation.change(before, work), learner.ranker, learner.cost)


class _Basis(NamedTuple):
    """What a federation's settings make: an untrained learner, its rule, held-out queries."""

    learner: FPDGD
    rule: Rule
    evaluation: Evaluation

    def measured(self, ranker: Ranker) -> float:
        """Return a ranker's nDCG@10 on held-out queries."""
        return self.evaluation.measure_one(ranker).ndcg


def _basis(settings: SimulationSettings) -> _Basis:
    refuse_unless_forgettable(settings)
    clients = make_clients(settings)
    learner = make_learner(settings, clients)
    if not isinstance(learner, FPDGD):
        raise SettingsError("updates are kept of FPDGD only", where="method")
    rule = learner.rule if isinstance(learner, RobustFPDGD) else WeightedMean()
    evaluation = Evaluation(
        clients.test,
        clients.click_model,
        seed=settings.seed,
        nothing_relevant=settings.nothing_relevant,
    )
    return _Basis(learner, rule, evaluation)


def _learner(
    federation: StoredFederation,
    basis: _Basis,
    gone: Sequence[int],
    method: Method,
    local_steps: int,
    kept: MemoryUpdateStore,
    tampering: Tampering | None,
    record: Recorder | None,
) -> Retraining:
    plain, settings = basis.learner, federation.settings
    seed = unlearning_seed(settings.seed, gone)
    if method == "retrain":
        return Retraining(
            plain.population,
            plain.ranker,
            forgotten=gone,
            n_planned=settings.rounds,
            seed=seed,
            settings=plain.settings,
            rule=basis.rule,
            tampering=tampering,
            observers=[kept],
            record=record,
        )
    return FedEraser(
        plain.population,
        plain.ranker,
        history=federation.store.kept_rounds(),
        forgotten=gone,
        local_steps=local_steps,
        seed=seed,
        settings=plain.settings,
        rule=basis.rule,
        tampering=tampering,
        record=record,
    )


def _refuse_forgotten(before: State, numbers: Sequence[int]) -> None:
    for number in numbers:
        if number in before.forgotten:
            raise Conflict(
                "was forgotten already",
                where=client_name(number),
                remedy="see the certificates in the federation's folder",
            )


def _pair_release(ranker: Ranker) -> UnprotectedRelease:
    return UnprotectedRelease(
        level=Level.USER,
        n_values=len(ranker.parameters),
        simulated=True,
        note=_OF_THE_PAIR,
    )


def _steps_of_retraining(settings: SimulationSettings, learner: Retraining, basis: _Basis) -> int:
    """Return the interactions that training without the forgotten takes, on average."""
    each = basis.learner.population.n_interactions(settings.queries_per_round)[learner.remaining]
    n = min(settings.participants or len(each), len(each))
    return round(settings.rounds * n * float(each.mean()))
