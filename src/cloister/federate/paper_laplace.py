"""The thesis's noise on FPDGD (algorithm 3), kept for comparison: it does not give what it claims.

Each client clips its *weights* to half the sensitivity in Euclidean length and adds the difference
of two Gamma variables of shape 1/n and scale sensitivity/epsilon to every weight. Over all n
clients the shares add up to one Laplace variable a weight (eq. 3.21), and so they are drawn here.

What truly holds, of one client's whole contribution to one round, against a server that sees the
sum alone: pure differential privacy with sqrt(number of weights) times the claimed epsilon, since
the clipping bounds the Euclidean length and Laplace noise protects the sum of absolute values. The
published code clips to the whole sensitivity, which doubles it again. Rounds add up. Against a
server that sees single messages, as in the thesis, no finite epsilon holds: almost all shares are
practically 0.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.releases.laplace import LaplaceRelease

__all__ = ["PaperLaplaceNoise", "PaperGuarantee"]


class PaperGuarantee(Settings):
    """What the noise claims, and what holds.

    Parameters
    ----------
    claimed
        The epsilon that the thesis states, of a round.
    of_a_round
        The epsilon that holds of a client's contribution to one round, if the server sees the sum
        of all clients and nothing else.
    of_the_training
        The same over all rounds, by basic composition.
    of_a_message
        Against a server that sees single messages: None, as no finite epsilon holds.
    """

    claimed: float
    of_a_round: float
    of_the_training: float
    of_a_message: float | None = None


class PaperLaplaceNoise(Settings):
    """Clipping and noise as in the thesis.

    Parameters
    ----------
    epsilon
        The claimed epsilon of a round: 1.2, 2.3, 4.5 or 10 in the thesis.
    sensitivity
        The thesis's Delta: 3, 3, 5, 5 for those.
    clip
        Weights are clipped to ``half`` the sensitivity (thesis) or to the ``whole`` (its code, and
        the click-inference report).

    Examples
    --------
    >>> noise = PaperLaplaceNoise(epsilon=4.5, sensitivity=5)
    >>> round(noise.guarantee(n_parameters=46, n_rounds=1).of_a_round, 1)
    30.5
    """

    epsilon: float = Field(gt=0)
    sensitivity: float = Field(default=3.0, gt=0)
    clip: Literal["half", "whole"] = "half"

    @property
    def clip_norm(self) -> float:
        """The longest weight vector that a client sends."""
        return self.sensitivity / 2 if self.clip == "half" else self.sensitivity

    def mean_noise(
        self, n_parameters: int, n_clients: int, *, seed: int, round: int
    ) -> NDArray[np.float64]:
        """Draw the noise in the mean of ``n_clients`` equally weighted clients' weights."""
        rng = stream(seed, "paper gamma noise", round)
        return rng.laplace(0.0, self.sensitivity / self.epsilon, n_parameters) / n_clients

    def release(
        self, *, n_parameters: int, n_clients: int, simulated: bool = True
    ) -> LaplaceRelease:
        """Return the ledger's record of one round's sum over all clients' weights.

        Its cost is what truly holds, and the thesis's claim stands beside it.
        """
        # Two contributions differ by at most twice the clipping length, in Euclidean length; the
        # sum of the absolute changes is at most sqrt(m) times that.
        return LaplaceRelease(
            level=Level.USER,
            neighbours="replace",
            scale=self.sensitivity / self.epsilon,
            sensitivity=2 * self.clip_norm * math.sqrt(n_parameters),
            n_values=n_parameters,
            simulated=simulated,
            claimed_epsilon=self.epsilon,
            note=f"thesis algorithm 3, sum of {n_clients} clients; holds against a server that "
            "sees the sum alone; against one that sees messages no finite epsilon holds",
        )

    def guarantee(self, *, n_parameters: int, n_rounds: int) -> PaperGuarantee:
        """Return what holds for rankers of so many weights, trained for so many rounds."""
        of_a_round = self.release(n_parameters=n_parameters, n_clients=1).epsilon
        return PaperGuarantee(
            claimed=self.epsilon, of_a_round=of_a_round, of_the_training=of_a_round * n_rounds
        )
