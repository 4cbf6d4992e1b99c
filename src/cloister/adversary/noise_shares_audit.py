"""Audit of noise shares: a sum with as many dropouts and colluders as the plan allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.adversary.distinguishing import normal_log_ratio
from cloister.core.settings import Settings
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import SimulatedNoise
from cloister.privacy.noise_shares import DiscreteGaussianShares
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import ROUNDING_SIGMA

__all__ = ["NoiseSharesAudit"]

Floats = NDArray[np.float64]

STEPS: Final = 100  # by which one client moves the sum: fixed-point numbers have fine steps


class NoiseSharesAudit(Settings):
    """Discrete normal shares, each drawn as a client draws it.

    Parameters
    ----------
    epsilon, delta
        What one sum is set to cost.
    n_rounds
        Sums of the same values, each with fresh shares.
    n_clients, n_dropouts, n_colluders
        Who plan to draw a share, whose shares are missing, and who tell theirs.

    Examples
    --------
    >>> NoiseSharesAudit().plan.n_needed
    8
    """

    epsilon: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    n_rounds: int = Field(default=1, ge=1)
    n_clients: int = Field(default=12, ge=1)
    n_dropouts: int = Field(default=2, ge=0)
    n_colluders: int = Field(default=2, ge=0)

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "noise-shares"

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "one client adds nothing or all it may; the sum and colluders' shares are seen"

    @property
    def claimed_epsilon(self) -> None:
        """Nobody claims anything but the ledger."""
        return

    @cached_property
    def plan(self) -> DiscreteGaussianShares:
        """The plan, as clients follow it."""
        continuous = STEPS * noise_multiplier(self.epsilon, self.delta, n_rounds=1, method="pld")
        return DiscreteGaussianShares(
            sigma=math.hypot(continuous, ROUNDING_SIGMA),
            n_clients=self.n_clients,
            n_dropouts=self.n_dropouts,
            n_colluders=self.n_colluders,
        )

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records: one sum a round."""
        release = self.plan.release(
            level=Level.USER, neighbours="add-remove", sensitivity=STEPS, simulated=True
        )
        return [release] * self.n_rounds

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the log likelihood ratios of what is left of the sum without known shares."""
        source = SimulatedNoise(rng)
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            honest = np.full(n_trials, STEPS * neighbour)
            for _ in range(self.plan.n_needed):
                honest += self.plan.draw_share(n_trials, source)
            total += normal_log_ratio(honest, STEPS, self.plan.sigma)
        return total
