"""Where an adversary may step into a simulated round: between training and the server.

Who steps in lives above this package (:mod:`cloister.adversary`); here is only the door.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observer", "Sent", "Tampering"]


class Sent(NamedTuple):
    """What participants of one round are about to send.

    Parameters
    ----------
    updates
        Participants x parameters: each one's difference from the round's model, as honest training
        (on its own data and clicks, which may be poisoned) gives it.
    clients
        The number of each row's client.
    model
        The round's model, which everybody knows.
    round
        Which round, from 0.
    """

    updates: NDArray[np.float64]
    clients: NDArray[np.int64]
    model: NDArray[np.float64]
    round: int


class Tampering(Protocol):
    """Changes what some participants send."""

    def tampered(self, sent: Sent) -> NDArray[np.float64]:
        """Return what arrives: the same shape, honest rows unchanged."""


class Observer(Protocol):
    """Sees what arrives at the server, row by row."""

    def observe(self, arrived: Sent) -> None:
        """Look at a round's updates before they are added up."""
