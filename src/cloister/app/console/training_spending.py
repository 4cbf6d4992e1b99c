"""What a federation's training has cost, by the ledger that counts most.

The coordinator records the rankers of finished rounds. Nodes record each sum before it is sent,
those of attempts that failed among them: what they say may be more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from cloister.app.console.ledger_costs import LedgerCosts, release_of
from cloister.app.ledger_reading import ReadLedger
from cloister.federate.engines.agreement import FederationAgreement
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.statement import USUAL_DELTA
from cloister.privacy.level import Level
from cloister.services.federation_folder import COORDINATOR

__all__ = ["TrainingSpending", "training_spending"]


class TrainingSpending(NamedTuple):
    """What a training has cost a user of the node that took part most.

    Parameters
    ----------
    service
        Whose ledger says so: the coordinator's, unless a node's says more.
    n_releases
        On that ledger, for this training.
    epsilon, delta
        What they cost together, at the agreement's delta.
    n_rounds
        Finished rounds; None where the coordinator's ledger was not read.
    """

    service: str
    n_releases: int
    epsilon: float
    delta: float
    n_rounds: int | None

    @property
    def has_bound(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)

    @property
    def by_a_node(self) -> bool:
        """Whether a node's ledger says more than the coordinator's."""
        return self.service != COORDINATOR


def training_spending(
    ledgers: Sequence[ReadLedger], agreement: FederationAgreement, costs: LedgerCosts
) -> TrainingSpending | None:
    """Return the largest account of a training; None where nothing real is recorded of it."""
    delta = USUAL_DELTA if agreement.privacy is None else agreement.privacy.delta
    found = {one.service: _of_training(one, agreement.name) for one in ledgers}
    spent = {
        service: costs.epsilon(releases, Level.USER, delta)
        for service, releases in found.items()
        if releases
    }
    if not spent:
        return None
    most = max(spent, key=lambda service: (spent[service], service == COORDINATOR))
    n_rounds = len(found[COORDINATOR]) if COORDINATOR in found else None
    return TrainingSpending(most, len(found[most]), spent[most], delta, n_rounds)


def _of_training(ledger: ReadLedger, training: str) -> list[Entry]:
    """Return the real releases of a training's rounds; votes in trials are not among them."""
    real = [one for one in ledger.releases if not release_of(one.body).simulated]
    if ledger.service == COORDINATOR:
        return [one for one in real if one.party_id == training]
    return [
        one
        for one in real
        if one.recipient == COORDINATOR and one.purpose.startswith(f"{training}, round ")
    ]
