"""Audits of the thesis's noise on FPDGD: as a sum of all clients, and as single messages.

The thesis clips a client's weights in Euclidean length and adds noise as if that bounded the sum of
absolute values. The worst neighbours are therefore weights spread equally over all coordinates, and
their opposite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.adversary.distinguishing import laplace_log_ratio
from cloister.core.settings import Settings
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import SimulatedNoise
from cloister.privacy.release import Release, UnprotectedRelease

__all__ = ["PaperLaplaceMessage", "PaperLaplaceSum"]

Floats = NDArray[np.float64]

LOOKED_AT: Final = 16  # weights of a message: enough, and fewer shares have to be drawn


class _PaperLaplace(Settings):
    """What both views of the thesis's noise share.

    Parameters
    ----------
    epsilon, sensitivity
        As the thesis pairs them: 1.2 and 2.3 with 3, 4.5 and 10 with 5.
    clip
        To ``half`` the sensitivity (thesis) or to the ``whole`` (its code).
    n_parameters
        Weights of the ranker: 46 features in MQ2007 and MQ2008.
    n_clients
        Who take part in a round.
    n_rounds
        Rounds in which the client sends the same weights.
    """

    epsilon: float = Field(default=4.5, gt=0)
    sensitivity: float = Field(default=5.0, gt=0)
    clip: Literal["half", "whole"] = "half"
    n_parameters: int = Field(default=46, ge=1)
    n_clients: int = Field(default=1000, ge=1)
    n_rounds: int = Field(default=1, ge=1)

    @property
    def noise(self) -> PaperLaplaceNoise:
        """The mechanism, as simulations use it."""
        return PaperLaplaceNoise(epsilon=self.epsilon, sensitivity=self.sensitivity, clip=self.clip)

    @property
    def claimed_epsilon(self) -> float:
        """What the thesis states, once, whatever the number of rounds."""
        return self.epsilon

    @property
    def weight(self) -> float:
        """Each of the client's weights: together they are as long as clipping allows."""
        return self.noise.clip_norm / math.sqrt(self.n_parameters)


class PaperLaplaceSum(_PaperLaplace):
    """The server sees the mean of all clients' weights; it knows all but one client's.

    Examples
    --------
    >>> from cloister.adversary.audit import AuditSettings, audit
    >>> found = audit(PaperLaplaceSum(), AuditSettings(n_trials=20_000))
    >>> found.claimed_epsilon, round(found.ledger_epsilon, 1), found.verdict
    (4.5, 30.5, "exceeds the claim, below the ledger's bound")
    """

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "paper-laplace" if self.clip == "half" else "paper-laplace-whole"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "one client's weights w or -w; the noisy sum of all clients is seen"

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records: one sum a round."""
        release = self.noise.release(n_parameters=self.n_parameters, n_clients=self.n_clients)
        return [release] * self.n_rounds

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the log likelihood ratios of w and -w."""
        seed = int(rng.integers(1 << 63))
        total = np.zeros(n_trials)
        own = self.weight * (2 * neighbour - 1) / self.n_clients  # in the mean; others weigh 0
        for round in range(self.n_rounds):
            noise = self.noise.mean_noise(
                n_trials * self.n_parameters, self.n_clients, seed=seed, round=round
            )
            seen = (noise.reshape(n_trials, -1) + own) * self.n_clients
            # Seen from -w, the other input adds 2 w.
            ratio = laplace_log_ratio(
                seen + self.weight, 2 * self.weight, self.sensitivity / self.epsilon
            )
            total += ratio.sum(axis=1)
        return total


class PaperLaplaceMessage(_PaperLaplace):
    """The server sees the client's own message, as in the thesis, with its Gamma shares.

    A share of 1/n of the noise is practically 0 in almost every coordinate: no finite epsilon
    holds.

    Examples
    --------
    >>> PaperLaplaceMessage().releases()[0].mechanism
    'none'
    """

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "paper-laplace-message"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "one client's weights w or -w; its own message with its noise share is seen"

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records: each message as good as unprotected."""
        message = UnprotectedRelease(
            level=Level.USER,
            neighbours="replace",
            n_values=self.n_parameters,
            simulated=True,
            claimed_epsilon=self.epsilon,
            note="thesis algorithm 3, a single message: most noise shares are practically 0",
        )
        return [message] * self.n_rounds

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return how many more weights are positive than negative, of those looked at."""
        n_looked_at = min(self.n_parameters, LOOKED_AT)
        source, scale = SimulatedNoise(rng), self.sensitivity / self.epsilon
        own = self.weight * (2 * neighbour - 1)
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            # thesis eq. 3.21: the difference of two Gamma variables of shape 1/n
            shares = source.gamma_difference(n_trials * n_looked_at, scale, self.n_clients)
            total += np.sign(shares.reshape(n_trials, -1) + own).sum(axis=1)
        return total
