"""What a federation keeps of clients' updates, so that a client can be forgotten later.

Every ``keep_every`` rounds (0, keep_every, ...: the thesis's 1, 1 + delta-t, ...) the update of
each participant is kept, or its length alone. Calibration (thesis eq. 6.2) needs the length only:
8 bytes a client and round instead of 4 for each parameter, for the same unlearned ranker, bit by
bit.

A kept update tells of its client whatever a released one does; a kept length tells how far its
clicks moved the ranker. Whoever holds the store holds that, for as long as it lies there.

An update that is not finite in single precision is not kept: rules refuse it, so it had no part in
the model.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import Conflict, SettingsError
from cloister.core.kernel import kernel
from cloister.federate.tampering import Sent

__all__ = [
    "Keep",
    "KeptRound",
    "KeptSize",
    "MemoryUpdateStore",
    "UpdateStore",
    "digest_of",
    "kept_already",
    "lengths_of",
]

Keep = Literal["updates", "lengths"]


class KeptRound(NamedTuple):
    """What is kept of one round.

    Parameters
    ----------
    round
        Which round of the training, from 0.
    clients
        Who took part and was not forgotten, ascending.
    lengths
        How long each one's update was, in Euclidean length.
    updates
        Clients x parameters, where updates are kept.
    """

    round: int
    clients: NDArray[np.int64]
    lengths: NDArray[np.float64]
    updates: NDArray[np.float32] | None = None

    def without(self, forgotten: Iterable[int]) -> KeptRound:
        """Return what is left when some clients are gone."""
        stay = ~np.isin(self.clients, np.array(list(forgotten), np.int64))
        updates = None if self.updates is None else self.updates[stay]
        return KeptRound(self.round, self.clients[stay], self.lengths[stay], updates)


class KeptSize(NamedTuple):
    """How much is kept: so many updates, in bytes as updates and as lengths, without overhead."""

    n_updates: int
    as_updates_bytes: int
    as_lengths_bytes: int


class UpdateStore(ABC):
    """Keeps updates of some rounds; an observer of a training.

    Parameters
    ----------
    keep_every
        Rounds from one kept round to the next, the thesis's delta-t.
    keep
        Whole updates (thesis), or their lengths.
    """

    def __init__(self, *, keep_every: int = 10, keep: Keep = "lengths") -> None:
        if keep_every < 1:
            raise SettingsError(f"at least 1 (given: {keep_every})", where="keep_every")
        if keep not in ("updates", "lengths"):
            raise SettingsError(f"updates or lengths (given: {keep!r})", where="keep")
        self.keep_every = keep_every
        self.keep = keep

    def observe(self, arrived: Sent) -> None:
        """Keep the updates of a round, if it is one of those that are kept."""
        if arrived.round % self.keep_every:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            single = np.ascontiguousarray(arrived.updates, np.float32)
        lengths = lengths_of(single.astype(np.float64))
        usable = np.flatnonzero(np.isfinite(lengths))
        order = usable[np.argsort(arrived.clients[usable])]
        updates = single[order] if self.keep == "updates" else None
        self._put(KeptRound(arrived.round, arrived.clients[order].copy(), lengths[order], updates))

    def kept_rounds(self, *, every: int | None = None) -> list[KeptRound]:
        """Return what is kept, by round; of every so many rounds if that is given.

        Parameters
        ----------
        every
            A multiple of ``keep_every``: what a store of that interval would hold.
        """
        step = every or self.keep_every
        if step % self.keep_every:
            raise SettingsError(
                f"a multiple of {self.keep_every}, the interval of what is kept (given: {step})",
                where="every",
            )
        return [kept for kept in self._all() if kept.round % step == 0]

    def size(self, n_parameters: int) -> KeptSize:
        """Return how much is kept, for a ranker of so many parameters."""
        n = sum(len(kept.clients) for kept in self._all())
        return KeptSize(n, 4 * n_parameters * n, 8 * n)

    def digest(self) -> str:
        """Return a SHA-256 of everything that is kept, in hexadecimal digits."""
        return digest_of(self._all())

    @abstractmethod
    def forget(self, clients: Collection[int]) -> int:
        """Delete what is kept of these clients; return how many updates or lengths that was."""

    @abstractmethod
    def _put(self, kept: KeptRound) -> None:
        """Keep a round, after all those before it."""

    @abstractmethod
    def _all(self) -> Iterable[KeptRound]:
        """Yield everything, by round."""


def digest_of(rounds: Iterable[KeptRound]) -> str:
    """Return a SHA-256 of kept rounds, in hexadecimal digits."""
    digest = hashlib.sha256()
    for kept in rounds:
        digest.update(np.array([kept.round, len(kept.clients)], "<i8").tobytes())
        digest.update(kept.clients.astype("<i8").tobytes())
        digest.update(kept.lengths.astype("<f8").tobytes())
        if kept.updates is not None:
            digest.update(kept.updates.astype("<f4").tobytes())
    return digest.hexdigest()


class MemoryUpdateStore(UpdateStore):
    """Keeps updates for the life of this object.

    Examples
    --------
    >>> store = MemoryUpdateStore(keep_every=2)
    >>> for number in range(3):
    ...     store.observe(Sent(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([0, 1]), np.zeros(2),
    ...                        number))
    >>> [(kept.round, kept.lengths.tolist()) for kept in store.kept_rounds()]
    [(0, [5.0, 1.0]), (2, [5.0, 1.0])]
    >>> store.forget([1]), store.size(n_parameters=2)
    (2, KeptSize(n_updates=2, as_updates_bytes=16, as_lengths_bytes=16))
    """

    def __init__(self, *, keep_every: int = 10, keep: Keep = "lengths") -> None:
        super().__init__(keep_every=keep_every, keep=keep)
        self._rounds: list[KeptRound] = []

    def forget(self, clients: Collection[int]) -> int:
        """Delete what is kept of these clients; return how many updates or lengths that was."""
        before = sum(len(kept.clients) for kept in self._rounds)
        self._rounds = [kept.without(clients) for kept in self._rounds]
        return before - sum(len(kept.clients) for kept in self._rounds)

    def _put(self, kept: KeptRound) -> None:
        if self._rounds and kept.round <= self._rounds[-1].round:
            raise kept_already(kept.round)
        self._rounds.append(kept)

    def _all(self) -> Iterable[KeptRound]:
        return self._rounds


def kept_already(number: int) -> Conflict:
    """Return the error of a round that comes too late."""
    return Conflict(
        "this round, or a later one, is kept already",
        where=f"round {number}",
        remedy="use a new store for another training",
    )


@kernel
def lengths_of(updates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, added up in order."""
    lengths = np.empty(len(updates), np.float64)
    for row in range(len(updates)):
        total = 0.0
        for value in updates[row]:
            total += value * value
        lengths[row] = math.sqrt(total)
    return lengths
