"""Forgetting clients of a stored federation: unlearn, measure, delete, certify."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from cloister.core.errors import Conflict, SettingsError
from cloister.federate.database_update_store import kept_in
from cloister.federate.retraining import Cost, Retraining
from cloister.federate.robust_fpdgd import RobustFPDGD
from cloister.federate.tampering import Tampering
from cloister.federate.unlearning import FedEraser, unlearning_seed
from cloister.federate.update_store import MemoryUpdateStore, digest_of
from cloister.lab.forgetting.basis import Basis, make_basis
from cloister.lab.forgetting.certificate import Certificate, signed_certificate
from cloister.lab.forgetting.federation import StoredFederation, client_name
from cloister.lab.forgetting.state import State
from cloister.lab.forgetting.statement import Method, deletion, statement
from cloister.lab.simulation.run import Advance
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.rank.ranker import Ranker

__all__ = ["Due", "Forgetting", "forget", "stored_training"]

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


class Due(NamedTuple):
    """A release that forgetting makes: of one of those who stay, or of a forgotten client by name.

    Parameters
    ----------
    forgotten
        The name of a forgotten client; None for those who stay.
    release
        What is released.
    """

    forgotten: str | None
    release: Release


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
    basis = make_basis(federation.settings)
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
    record: Callable[[Sequence[Due]], None] | None = None,
    advance: Advance | None = None,
    watch: Callable[[int, Ranker], None] | None = None,
) -> Forgetting:
    """Forget clients: a new ranker without them, what was kept of them deleted, a certificate.

    All who were forgotten before stay forgotten. Where every forgetting is by retraining, or every
    one by FedEraser with as many local steps, one client after the other gives the same ranker as
    all at once. A process that is killed leaves all as it was before, or all as it is after.

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
        What malicious clients do who stay; without it they are honest now, whatever their attack
        was, and the certificate says so.
    record
        Told once, before any round, of everything that will be released: what the pair of rankers
        reveals of each forgotten client, and each round's release of those who stay. It records
        all of it, or raises and records nothing; then nothing is done.
    advance
        Told of each round done and of their number.
    watch
        Told of the ranker after each round, and of how many rounds that is. What it or ``advance``
        raises leaves all as it was before.
    """
    if not clients:
        raise SettingsError("name at least one client", where="clients")
    with federation.writing():
        before = federation.state()
        numbers = federation.numbers(clients)
        _refuse_forgotten(before, numbers)
        gone = tuple(sorted({*before.forgotten, *numbers}))
        basis = make_basis(federation.settings, honest=True)
        kept = MemoryUpdateStore(keep_every=federation.store.keep_every, keep=federation.store.keep)
        learner = _learner(federation, basis, gone, method, local_steps, kept, tampering)
        n_unexpected = learner.expect_bearable()
        steps = basis.steps_of_retraining(federation.settings, learner)
        _refuse_costlier(learner, steps)
        if record is not None:
            record(_due(before, clients, learner))
        for done, ranker in enumerate(learner.rankers(), 1):
            if watch is not None:
                watch(done, ranker)
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
            steps_of_retraining=steps,
            honest_now=tampering is None
            and not set(federation.settings.attacking_clients) <= set(gone),
            n_unexpected=n_unexpected,
        )
        certificate = _changed(federation, before, learner, numbers, about, kept)
    return Forgetting(certificate, learner.ranker, learner.cost)


def _changed(
    federation: StoredFederation,
    before: State,
    learner: Retraining,
    numbers: Sequence[int],
    about: Certificate,
    kept: MemoryUpdateStore,
) -> Certificate:
    """Delete, store and certify, in one transaction; return the certificate."""
    is_new = not isinstance(learner, FedEraser)  # then what is kept is new too
    gone = tuple(sorted({*before.forgotten, *numbers}))

    def work(connection: sa.Connection) -> tuple[Ranker, Sequence[int], Certificate]:
        kept_before = digest_of(kept_in(connection))
        n_deleted = federation.store.forget_in(connection, numbers)
        if is_new:
            federation.store.replace_in(connection, kept.kept_rounds())
        digests = {
            **about["sha256"],
            "kept_before": kept_before,
            "kept_after": digest_of(kept_in(connection)),
        }
        deleted = deletion(federation, before, n_deleted, replaced=is_new)
        content = {**about, "sha256": digests, "deleted": deleted}
        return learner.ranker, gone, signed_certificate(content, federation.identity)

    return federation.change(before, work)


def _learner(
    federation: StoredFederation,
    basis: Basis,
    gone: Sequence[int],
    method: Method,
    local_steps: int,
    kept: MemoryUpdateStore,
    tampering: Tampering | None,
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
    )


def _refuse_forgotten(before: State, numbers: Sequence[int]) -> None:
    for number in numbers:
        if number in before.forgotten:
            raise Conflict(
                "was forgotten already",
                where=client_name(number),
                remedy="see the certificates in the federation's folder",
            )


def _refuse_costlier(learner: Retraining, steps_of_retraining: int) -> None:
    if isinstance(learner, FedEraser) and learner.n_client_steps_planned > steps_of_retraining:
        raise SettingsError(
            f"FedEraser would take {learner.n_client_steps_planned} client steps, and training "
            f"anew takes {steps_of_retraining}",
            where="local_steps",
            remedy="take fewer, or retrain: it is cheaper, and forgets more",
        )


def _due(before: State, clients: Sequence[str], learner: Retraining) -> list[Due]:
    """Return everything that the forgetting releases; a round's record is alike for any size."""
    pairs = [Due(name, _pair_release(before.ranker)) for name in clients]
    return pairs + [Due(None, learner.release(learner.fewest_participants))] * learner.n_planned


def _pair_release(ranker: Ranker) -> UnprotectedRelease:
    return UnprotectedRelease(
        level=Level.USER,
        n_values=len(ranker.parameters),
        simulated=True,
        note=_OF_THE_PAIR,
    )
