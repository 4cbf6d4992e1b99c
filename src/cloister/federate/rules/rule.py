"""What every aggregation rule is: from the updates of a round to the one that the model moves by.

A rule gets what arrived, a row a client, and answers with one update. Robust rules tolerate some
attackers among the clients; each declares how many (`Rule.most_attackers`), and either refuses a
round in which there may be more, or works on as well as it can and marks the outcome.

Updates that are not finite, or so large that their squares are not, are refused before any rule
sees them, and the outcome names their clients. A client that sends such an update is one of the
attackers that a rule allows for: the rest is judged with so many fewer. It comes to the rule in an
order of its own (:mod:`cloister.federate.rules.arrival`): how clients are listed does not matter.

Rules look at differences from the round's model. Krum, Multi-Krum, Bulyan, trimmed mean and median
would choose the same from whole models, as the thesis writes them: adding the same vector to each
update adds it to the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import SettingsError
from cloister.federate.rules.arrival import arranged

__all__ = ["Aggregated", "Beyond", "Chosen", "Received", "Rule"]

Beyond = Literal["refuse", "mark"]
Floats = NDArray[np.float64]


class Received(NamedTuple):
    """The usable updates of one round.

    Parameters
    ----------
    updates
        Clients x parameters, all finite, in lexicographic order.
    clients
        The number of each row's client, by which a rule with a memory knows it again.
    n_interactions
        What each claims that its update rests on. Robust rules do not look at it: an attacker
        claims what it likes.
    round
        Which round, from 0.
    """

    updates: Floats
    clients: NDArray[np.int64]
    n_interactions: Floats
    round: int

    @property
    def n(self) -> int:
        """Number of updates."""
        return len(self.updates)


class Chosen(NamedTuple):
    """What a rule makes of usable updates: one update, and which rows had a part in it."""

    update: Floats
    used: NDArray[np.bool_]


class Aggregated(NamedTuple):
    """What became of a round.

    Parameters
    ----------
    update
        What the model moves by; zeros where no update could be used.
    used
        By row of what was given: whether it had a part in the update.
    refused
        Numbers of the clients whose updates were not usable.
    within_bound
        Whether the rule tolerates as many attackers as it was told to expect among so many clients.
    """

    update: Floats
    used: NDArray[np.bool_]
    refused: tuple[int, ...]
    within_bound: bool


class Rule(ABC):
    """A way to add up updates.

    Parameters
    ----------
    n_attackers
        How many attackers to expect in a round.
    beyond
        What to do with a round that may hold more than the rule tolerates: ``refuse`` it with an
        error, or do what can be done and ``mark`` the outcome.
    """

    name: ClassVar[str]
    group_size: int = 1  # of how many clients at least a rule needs no more than their mean

    def __init__(self, *, n_attackers: int = 0, beyond: Beyond = "refuse") -> None:
        if n_attackers < 0:
            raise SettingsError(f"at least 0 (given: {n_attackers})", where="n_attackers")
        self.n_attackers = n_attackers
        self.beyond = beyond

    @abstractmethod
    def most_attackers(self, n: int) -> int:
        """Return how many of n clients may be attackers: by the rule's proof, if it has one."""

    def computable(self, n: int, n_attackers: int) -> bool:
        """Say whether the rule has an outcome at all for so many; all of its bound unless told."""
        return n_attackers <= self.most_attackers(n)

    @abstractmethod
    def choose(self, received: Received, n_attackers: int) -> Chosen:
        """Add up usable updates of at least one client, of which so many may be attackers'."""

    def check(self, n: int) -> bool:
        """Return whether the bound holds for n clients; raise where that is to be refused."""
        return self._within_bound(n, self.n_attackers)

    def aggregate(
        self,
        updates: ArrayLike,
        clients: ArrayLike,
        *,
        n_interactions: ArrayLike | None = None,
        round: int = 0,
    ) -> Aggregated:
        """Add up the updates of a round.

        Parameters
        ----------
        updates
            Clients x parameters, as they arrived.
        clients
            The number of each row's client; each takes part once.
        n_interactions
            What each update rests on; the same unless given.
        round
            Which round, from 0.
        """
        given = np.ascontiguousarray(updates, np.float64)
        numbers = np.ascontiguousarray(clients, np.int64)
        claimed = _claims(n_interactions, len(given))
        _check_shapes(given, numbers, claimed)
        order, rows, repeated = arranged(given, numbers, claimed)
        if repeated:
            raise SettingsError("a client takes part in a round once", where="rule")
        used = np.zeros(len(given), np.bool_)
        refused = _missing(numbers, order) if len(order) < len(given) else ()
        if len(order) == 0:
            return Aggregated(np.zeros(given.shape[1]), used, refused, False)
        expected = max(0, self.n_attackers - len(refused))
        within = self._within_bound(len(order), expected)
        chosen = self.choose(Received(rows, numbers[order], claimed[order], round), expected)
        used[order] = chosen.used
        return Aggregated(chosen.update, used, refused, within)

    def _within_bound(self, n: int, n_attackers: int) -> bool:
        within = n_attackers <= self.most_attackers(n)
        if not within and (self.beyond == "refuse" or not self.computable(n, n_attackers)):
            raise SettingsError(
                f"{self.name} tolerates {max(0, self.most_attackers(n))} attackers among {n} "
                f"clients, and {n_attackers} are to be expected",
                where="rule",
                remedy="wait for more clients, expect fewer attackers, or choose another rule",
            )
        return within


def _claims(n_interactions: ArrayLike | None, n: int) -> Floats:
    return (
        np.ones(n) if n_interactions is None else np.ascontiguousarray(n_interactions, np.float64)
    )


def _missing(numbers: NDArray[np.int64], order: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the clients whose rows are not in the order, by number."""
    return tuple(sorted(np.delete(numbers, order).tolist()))


def _check_shapes(updates: Floats, clients: NDArray[np.int64], n_interactions: Floats) -> None:
    shape = (len(updates),) if updates.ndim == 2 else None
    if clients.shape != shape or n_interactions.shape != shape:
        raise SettingsError(
            "updates are clients x parameters, with one number for each client", where="rule"
        )
