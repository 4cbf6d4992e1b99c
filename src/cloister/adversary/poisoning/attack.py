"""What every model poisoning attack is: some clients send what they crafted, not what they learnt.

The attackers collude: each knows what all of them have learnt in the round, and the round's model,
which everybody gets (thesis section 5.2.1). With full knowledge, which serves analysis only, they
know what the others have learnt too. They decide what their own clients send, and nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import whole_number
from cloister.federate.tampering import Sent

__all__ = [
    "Knowledge",
    "Known",
    "ModelPoisoning",
    "checked_attackers",
    "reversed_signs",
    "usual_distance",
]

Knowledge = Literal["full", "partial"]
Floats = NDArray[np.float64]


class Known(NamedTuple):
    """What the attackers know when they craft the updates of a round.

    Parameters
    ----------
    own
        Attackers x parameters: what honest training gave those of them who take part.
    others
        Honest participants x parameters with full knowledge; no row with partial knowledge.
    clients, other_clients
        The numbers of the clients, in the order of ``own`` and of ``others``.
    model
        The round's model.
    round
        Which round, from 0.
    n_participants
        How many clients take part, attackers among them.
    """

    own: Floats
    others: Floats
    clients: NDArray[np.int64]
    other_clients: NDArray[np.int64]
    model: Floats
    round: int
    n_participants: int

    @property
    def n_attackers(self) -> int:
        """How many attackers take part."""
        return len(self.own)

    @property
    def before(self) -> Floats:
        """All updates that are known, as they were before the attack."""
        return np.concatenate((self.own, self.others)) if len(self.others) else self.own

    @property
    def benign(self) -> Floats:
        """What crafted updates will stand beside: the others', or one's own as a sample of them."""
        return self.others if len(self.others) else self.own


class ModelPoisoning(ABC):
    """Attackers who replace their updates; a `cloister.federate.tampering.Tampering`.

    Parameters
    ----------
    attackers
        Numbers of the clients under the attackers' control.
    knowledge
        ``partial``: the attackers' own updates. ``full``: all updates of the round.
    seed
        Decides what is random in an attack.
    """

    name: ClassVar[str]

    def __init__(
        self, *, attackers: Iterable[int], knowledge: Knowledge = "partial", seed: int
    ) -> None:
        if knowledge not in get_args(Knowledge):
            raise SettingsError(f"full or partial (given: {knowledge!r})", where="knowledge")
        self.attackers = checked_attackers(attackers)
        self.knowledge: Knowledge = knowledge
        self.seed = whole_number(seed, where="seed")

    @abstractmethod
    def crafted(self, known: Known) -> Floats:
        """Return what the attackers send, a row for each of ``known.own``."""

    def tampered(self, sent: Sent) -> Floats:
        """Return what arrives: rows of attackers are crafted, the others as they were."""
        arrived = np.array(sent.updates, np.float64)
        malicious = np.isin(sent.clients, self.attackers)
        if malicious.any():
            arrived[malicious] = self.crafted(self._known(sent, malicious))
        return arrived

    def _known(self, sent: Sent, malicious: NDArray[np.bool_]) -> Known:
        seen = ~malicious if self.knowledge == "full" else np.zeros_like(malicious)
        return Known(
            np.asarray(sent.updates[malicious], np.float64),
            np.asarray(sent.updates[seen], np.float64),
            sent.clients[malicious],
            sent.clients[seen],
            np.asarray(sent.model, np.float64),
            sent.round,
            len(sent.clients),
        )


def checked_attackers(attackers: Iterable[int]) -> NDArray[np.int64]:
    """Return numbers of clients in rising order, each once.

    Examples
    --------
    >>> checked_attackers([4, 1, 4])
    array([1, 4])
    """
    numbers = [whole_number(number, where="attackers") for number in attackers]
    if numbers and min(numbers) < 0:
        raise SettingsError(f"clients count from 0 (given: {min(numbers)})", where="attackers")
    return np.unique(np.array(numbers, np.int64))


def reversed_signs(updates: Floats) -> Floats:
    """Return the direction against the mean update: -1, 0 or 1 a parameter (thesis: s).

    Examples
    --------
    >>> reversed_signs(np.array([[1.0, -2.0, 0.0], [3.0, 1.0, 0.0]]))
    array([-1.,  1., -0.])
    """
    signs: Floats = -np.sign(updates.mean(axis=0))
    return signs


def usual_distance(updates: Floats) -> float:
    """Return how far one update usually lies from the mean: the root of the total variance.

    Examples
    --------
    >>> usual_distance(np.array([[0.0, 3.0], [4.0, 3.0]]))  # squares add up to 8, over 1
    2.8284271247461903
    """
    apart = updates - updates.mean(axis=0)
    return math.sqrt(float((apart**2).sum()) / max(1, len(updates) - 1))
