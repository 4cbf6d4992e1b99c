"""What a certificate of forgetting states: what was done, what was deleted, and what remains."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import cloister
from cloister.federate.retraining import Retraining
from cloister.lab.forgetting.certificate import certificate_digest
from cloister.lab.forgetting.federation import StoredFederation, client_name
from cloister.lab.forgetting.state import State
from cloister.lab.simulation.run_files import finite_or_none

__all__ = ["Method", "deletion", "statement"]

Method = Literal["fed-eraser", "retrain"]

_REMAINS: Final = (
    "rankers, updates and results that were released before stay released, and what they cost the "
    "client's privacy stays spent: forgetting gives no epsilon back",
    "whoever has the rankers of before and after sees in their difference what the client "
    "contributed",
    "results that were written elsewhere, such as the ranker, curves and figures that `cloister "
    "simulate --out` left, and entries of a ledger, are not touched",
    "copies of the old ranker at clients, in backups and snapshots, and blocks that the disk has "
    "not written over, are not reached from here",
    "this is the federation's signed word; it proves nothing to a client that distrusts it, who "
    "can test a mark of its own (canary) on the new ranker; a federation that works against that "
    "test can pass it",
)
_HONEST_NOW: Final = (
    "clients who attacked the training stay, and were simulated as honest while others were "
    "forgotten: real attackers would attack again"
)
_LENGTHS: Final = (
    "the kept lengths of those who stay were shaped by the forgotten client's influence on the old "
    "training, and scale the new updates (thesis section 6.1.2)"
)


def statement(
    federation: StoredFederation,
    before: State,
    learner: Retraining,
    *,
    forgotten: Sequence[int],
    method: Method,
    local_steps: int,
    ndcg: tuple[float, float],
    steps_of_retraining: int,
    honest_now: bool,
    n_unexpected: int = 0,
) -> dict[str, Any]:
    """Return what a certificate says, but for what is deleted.

    Parameters
    ----------
    federation, before
        What there was.
    learner
        What made the new ranker.
    forgotten
        Who is forgotten now.
    method, local_steps
        How.
    ndcg
        Of the ranker before and after.
    steps_of_retraining
        What training anew would take of those who stay.
    honest_now
        Whether clients who attacked the training stay, and did not attack the forgetting.
    n_unexpected
        How many fewer attackers the rule was told to expect than in training.
    """
    after = before._replace(ranker=learner.ranker)
    earlier = before.certificates
    more = [_LENGTHS] if method == "fed-eraser" else []
    more += [_HONEST_NOW] if honest_now else []
    if n_unexpected:
        expected = learner.rule.n_attackers
        more.append(_expected_fewer(learner.rule.name, expected, expected + n_unexpected))
    return {
        "kind": "certificate of forgetting",
        "number": len(earlier) + 1,
        "previous_sha256": certificate_digest(earlier[-1]) if earlier else None,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cloister": cloister.__version__,
        "simulated": True,
        "settings_digest": federation.settings.digest(),
        "forgotten": [client_name(number) for number in forgotten],
        "forgotten_before": [client_name(number) for number in before.forgotten],
        "method": _method(federation, learner, method, local_steps),
        "cost": {
            "rounds": learner.cost.n_rounds,
            "messages": learner.cost.n_messages,
            "client_steps": learner.cost.n_client_steps,
            "client_steps_of_retraining": steps_of_retraining,
        },
        "ndcg@10": {"before": finite_or_none(ndcg[0]), "after": finite_or_none(ndcg[1])},
        "sha256": {"ranker_before": before.ranker_sha256, "ranker_after": after.ranker_sha256},
        "remains": [*_REMAINS, *more],
    }


def deletion(
    federation: StoredFederation, before: State, n_deleted: int, *, replaced: bool
) -> dict[str, Any]:
    """Return what a certificate says of what was deleted.

    Parameters
    ----------
    federation, before
        What there was.
    n_deleted
        How many kept updates or lengths of the forgotten clients.
    replaced
        Whether what was kept of those who stay was replaced as well.
    """
    kept, n_parameters = federation.store.keep, len(before.ranker.parameters)
    each = 4 * n_parameters if kept == "updates" else 8
    what = [f"the kept {kept} of the forgotten clients", "the ranker of before"]
    if replaced:
        what.append(
            f"the kept {kept} of all who stay, in whose place are those of the new training"
        )
    return {f"kept_{kept}": n_deleted, "bytes": n_deleted * each, "what": what}


def _expected_fewer(rule: str, now: int, before: int) -> str:
    return (
        f"the rule {rule} expected {now} attackers while this was done, and {before} in training: "
        "with so few clients left it has no outcome for more"
    )


def _method(
    federation: StoredFederation, learner: Retraining, method: Method, local_steps: int
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": method,
        "rule": learner.rule.name,
        "expected_attackers": learner.rule.n_attackers,
        "seed": learner.seed,
    }
    if method == "fed-eraser":
        store = federation.store
        told |= {"local_steps": local_steps, "keep_every": store.keep_every, "kept": store.keep}
    return told
