"""Round-robin distributed SGD: parties take passes over their own data in turn.

The parameters go from party to party. What each party sends on is a function of its own labelled
rows, and nothing protects them unless a protection is given: the guarantee of a sketch release
covers the sketch, not the parameters. Every hand-over is a release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.ids import PartyId
from cloister.core.random import stream
from cloister.core.settings import Settings

__all__ = ["HandOver", "Pass", "Protection", "RoundRobinSettings", "round_robin"]

Floats = NDArray[np.float64]
Rows_contra = TypeVar("Rows_contra", contravariant=True)
Rows = TypeVar("Rows")


class Pass(Protocol[Rows_contra]):
    """One pass of SGD over a party's rows, from given parameters."""

    def __call__(
        self, parameters: Floats, rows: Rows_contra, *, rng: np.random.Generator, epoch: int
    ) -> Floats:
        """Return the parameters after the pass."""


class HandOver(NamedTuple):
    """Parameters that leave a party after its turn."""

    sender: PartyId
    recipient: PartyId
    epoch: int
    n_values: int


# What a party does to its parameters before they leave, told before and after its pass.
Protection = Callable[[Floats, Floats, HandOver], Floats]


class RoundRobinSettings(Settings):
    """How often the parameters go round.

    Parameters
    ----------
    epochs
        Rounds: in each of them every party takes one pass.
    average_last
        The outcome is the mean of the parameters after so many last turns (Polyak and Juditsky
        1992), so that the party whose turn is last does not pull the model to itself; 1 for the
        last parameters, as in the paper, 0 for as many turns as there are parties.
    """

    epochs: int = Field(default=10, ge=1)
    average_last: int = Field(default=0, ge=0)


def round_robin(
    first: Floats,
    data: Mapping[PartyId, Rows],
    take_pass: Pass[Rows],
    *,
    seed: int,
    settings: RoundRobinSettings | None = None,
    protection: Protection | None = None,
    on_hand_over: Callable[[HandOver], Any] | None = None,
) -> Floats:
    """Train one model over the data of all parties, which stays where it is.

    Parameters
    ----------
    first
        The parameters to begin with.
    data
        Each party's rows, in the order of turns. One party alone is plain SGD: nothing is
        handed over.
    take_pass
        One pass over one party's rows.
    seed
        Decides each party's order of rows, in each epoch anew.
    settings
        Epochs, and whether to average.
    protection
        Applied to what leaves a party. None: the exact parameters leave.
    on_hand_over
        Called before parameters leave; a ledger records the release here, or refuses by raising.

    Examples
    --------
    >>> def count_rows(parameters, rows, *, rng, epoch):
    ...     return parameters + len(rows)
    >>> sent = []
    >>> round_robin(np.zeros(1), {"a": "two", "b": "three"}, count_rows, seed=1,
    ...             settings=RoundRobinSettings(epochs=2, average_last=1),
    ...             on_hand_over=sent.append)
    array([16.])
    >>> [(one.sender, one.recipient) for one in sent]
    [('a', 'b'), ('b', 'a'), ('a', 'b'), ('b', 'a')]
    """
    if not data:
        raise DataError("nobody takes part", where="round_robin")
    settings = settings or RoundRobinSettings()
    parties = list(data)
    turns = [(epoch, party) for epoch in range(settings.epochs) for party in parties]
    n_averaged = min(settings.average_last or len(parties), len(turns))
    parameters = np.array(first, np.float64)
    total = np.zeros_like(parameters)
    for turn, (epoch, party) in enumerate(turns):
        rng = stream(seed, "round-robin", epoch, str(party))
        after = take_pass(parameters.copy(), data[party], rng=rng, epoch=epoch)
        if len(parties) > 1:
            following = parties[(turn + 1) % len(parties)]
            with_sum = n_averaged > 1 and turn >= len(turns) - n_averaged
            leaving = HandOver(party, following, epoch, len(after) * (1 + with_sum))
            if on_hand_over is not None:
                on_hand_over(leaving)
            after = after if protection is None else protection(parameters, after, leaving)
        parameters = np.asarray(after, np.float64)
        if turn >= len(turns) - n_averaged:
            total += parameters
    return total / n_averaged
