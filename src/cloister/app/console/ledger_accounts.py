"""The account of each party on each ledger: what it spent, what it may, what is left.

An account is kept for each unit (level) that a party's releases are stated for, and for its
limit's. All real releases count at that level together, to all recipients, as if these shared what
they got. Simulated ones are counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cloister.app.console.ledger_costs import LedgerCosts, has_bound, release_of
from cloister.app.console.training_spending import TrainingSpending, training_spending
from cloister.app.ledger_reading import ReadLedger
from cloister.federate.engines.agreement import FederationAgreement
from cloister.privacy.filters import Charge
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.ledger.spending import charged, spent_by
from cloister.privacy.ledger.statement import USUAL_DELTA
from cloister.privacy.level import Level
from cloister.privacy.release import UnprotectedRelease
from cloister.services.federation_folder import COORDINATOR

__all__ = ["LEVELS", "Account", "Recipient", "accounts_of"]

LEVELS: Final = {
    Level.USER: "a person, with all documents and all clicks",
    Level.DOCUMENT: "a document; nothing is said of a person who has several",
    Level.INTERACTION: "one search with its clicks; nothing is said of all searches of a person",
    Level.TOKEN: "one word in one place; nothing is said of a whole document",
}


class Recipient(NamedTuple):
    """What somebody got of a party, and what it costs if recipients do not share."""

    name: str
    n_releases: int
    epsilon: float


class Account(NamedTuple):
    """What a party has spent on one ledger, at one level.

    Parameters
    ----------
    service, party_id, level
        Whose account.
    delta, delta_from
        The chance with which epsilon may fail, and who says so.
    releases
        All real ones, in order.
    epsilon
        What they cost together; infinity where there is no bound.
    n_unprotected, n_smaller
        How many are of exact values, and how many protect smaller units only: either leaves no
        bound.
    epsilon_of_others
        What all others cost together.
    n_simulated, epsilon_simulated
        Simulated releases, and what they would cost if they were real.
    limit
        The limit in force for this level.
    epsilon_filter
        What the limit's filter has charged: what refuses, and holds however releases are chosen.
        The limit counts no releases without a bound that somebody agreed to by name.
    n_consented
        Releases that somebody agreed to by name.
    agreed
        What was agreed for this party's training, where it is one.
    training
        The largest account of that training, which may be a node's.
    recipients
        By recipient.
    """

    service: str
    party_id: str
    level: Level
    delta: float
    delta_from: str
    releases: tuple[Entry, ...]
    epsilon: float
    n_unprotected: int
    n_smaller: int
    epsilon_of_others: float
    n_simulated: int
    epsilon_simulated: float
    limit: Limit | None
    epsilon_filter: float | None
    n_consented: int
    agreed: float | None
    training: TrainingSpending | None
    recipients: tuple[Recipient, ...]

    @property
    def name(self) -> str:
        """What the account is called on the page."""
        whose = (
            self.service if self.party_id == self.service else f"{self.service}: {self.party_id}"
        )
        return whose if self.level is Level.USER else f"{whose}, {self.level.value}"

    @property
    def has_bound(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)

    @property
    def most(self) -> float | None:
        """What may be spent: by the limit, else by what was agreed."""
        return self.agreed if self.limit is None else self.limit.epsilon

    @property
    def left(self) -> float | None:
        """What is left of that; None where nobody set anything.

        A limit is this ledger's own. Of what was agreed, as much is gone as the ledger of the
        training that counts most says.
        """
        if self.most is None:
            return None
        if self.epsilon_filter is not None:
            return max(0.0, self.most - self.epsilon_filter)
        by_others = 0.0 if self.training is None else self.training.epsilon
        return max(0.0, self.most - max(self.epsilon, by_others))


def accounts_of(
    ledgers: Sequence[ReadLedger], agreement: FederationAgreement, costs: LedgerCosts
) -> list[Account]:
    """Return the accounts of all parties of some ledgers."""
    training = training_spending(ledgers, agreement, costs)
    return [
        _account(ledger, party_id, level, agreement, costs, training)
        for ledger in ledgers
        for party_id in ledger.parties
        for level in _levels(ledger, party_id)
    ]


def _is_training(service: str, party_id: str, agreement: FederationAgreement) -> bool:
    """Tell whether an account is that of the federation's training."""
    return (service, party_id) == (COORDINATOR, agreement.name)


def _levels(ledger: ReadLedger, party_id: str) -> Iterator[Level]:
    """Return the levels that a party's releases state, the largest unit first.

    Where it has released nothing, the largest unit that it has a limit for.
    """
    stated = {
        release_of(one.body).level for one in ledger.releases if one.party_id == party_id
    }  # fmt: skip
    limits = ledger.limits(party_id)
    stated |= {next((level for level in LEVELS if level in limits), Level.USER)}
    return (level for level in LEVELS if level in stated)


def _account(
    ledger: ReadLedger,
    party_id: str,
    level: Level,
    agreement: FederationAgreement,
    costs: LedgerCosts,
    training: TrainingSpending | None,
) -> Account:
    limits = ledger.limits(party_id)
    limit = limits.get(level)
    delta, delta_from = _delta(limit, agreement)
    own = [one for one in ledger.releases if one.party_id == party_id]
    real = [one for one in own if not release_of(one.body).simulated]
    simulated = [one for one in own if release_of(one.body).simulated]
    bounded = [one for one in real if has_bound(release_of(one.body), level)]
    spent = list(map(spent_by, real))
    charge = Charge() if limit is None else charged(limit, limits, spent)
    n_unprotected = sum(isinstance(release_of(one.body), UnprotectedRelease) for one in real)

    def cost(entries: Sequence[Entry]) -> float:
        return costs.epsilon(entries, level, delta)

    return Account(
        service=ledger.service,
        party_id=party_id,
        level=level,
        delta=delta,
        delta_from=delta_from,
        releases=tuple(real),
        epsilon=cost(real),
        n_unprotected=n_unprotected,
        n_smaller=len(real) - len(bounded) - n_unprotected,
        epsilon_of_others=cost(bounded),
        n_simulated=len(simulated),
        epsilon_simulated=cost(simulated),
        limit=limit,
        epsilon_filter=None if limit is None else limit.filter.spent(charge),
        n_consented=sum(bool(release_of(one.body).consent) for one in real),
        agreed=_agreed(ledger.service, party_id, level, agreement),
        training=training if _is_training(ledger.service, party_id, agreement) else None,
        recipients=tuple(
            Recipient(name, len(some), cost(some)) for name, some in _by_recipient(real).items()
        ),
    )


def _delta(limit: Limit | None, agreement: FederationAgreement) -> tuple[float, str]:
    if limit is not None:
        return limit.delta, "the limit's"
    if agreement.privacy is not None:
        return agreement.privacy.delta, "as agreed"
    return USUAL_DELTA, "the usual one: nobody set another"


def _agreed(
    service: str, party_id: str, level: Level, agreement: FederationAgreement
) -> float | None:
    """Return what a training may cost a user, for the party that stands for the training."""
    privacy = agreement.privacy
    of_training = level is Level.USER and _is_training(service, party_id, agreement)
    return privacy.epsilon if privacy is not None and of_training else None


def _by_recipient(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.recipient, []).append(entry)
    return found
