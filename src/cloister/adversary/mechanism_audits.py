"""Audits of the single mechanisms: one number that one unit moves by its whole sensitivity."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.audit import Neighbour
from cloister.adversary.distinguishing import laplace_log_ratio, normal_log_ratio
from cloister.core.settings import Settings
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    RandomisedResponse,
    SecureNoise,
    SimulatedNoise,
)
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import ROUNDING_SIGMA

__all__ = [
    "DiscreteGaussianAudit",
    "DiscreteLaplaceAudit",
    "GaussianAudit",
    "LaplaceAudit",
    "MechanismAudit",
    "RandomisedResponseAudit",
]

Floats = NDArray[np.float64]


class MechanismAudit(Settings):
    """What the audits of all mechanisms share: the value is 0 or 1, and the sensitivity is 1.

    Parameters
    ----------
    epsilon, delta
        What one release is set to cost.
    n_rounds
        Releases of the same value, each with fresh noise.
    secure_noise
        Whether noise comes from ``opendp``, as real clients draw it.
    """

    epsilon: float = Field(default=1.0, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    n_rounds: int = Field(default=1, ge=1)
    secure_noise: bool = False

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return str(self.mechanism.release(1).model_dump()["mechanism"])

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return "a value of 0 or 1; the noisy value is seen"

    @property
    def claimed_epsilon(self) -> None:
        """Nobody claims anything but the ledger."""
        return

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """The mechanism, as clients use it."""

    @abstractmethod
    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely values are if the true one is 1."""

    def releases(self) -> Sequence[Release]:
        """Return what the ledger records: one release a round."""
        return [self.mechanism.release(1, simulated=not self.secure_noise)] * self.n_rounds

    def scores(self, neighbour: Neighbour, n_trials: int, *, rng: np.random.Generator) -> Floats:
        """Return the log likelihood ratios of 1 and 0."""
        source = SecureNoise() if self.secure_noise else SimulatedNoise(rng)
        truth = np.full(n_trials, neighbour, np.int64)
        total = np.zeros(n_trials)
        for _ in range(self.n_rounds):
            total += self.log_ratio(self.mechanism.protect(truth, source).values)
        return total


class GaussianAudit(MechanismAudit):
    """Normal noise, with the least width of which the accounting says that it is enough.

    Examples
    --------
    >>> from cloister.adversary.audit import AuditSettings, audit
    >>> audit(GaussianAudit(), AuditSettings(n_trials=10_000)).verdict
    "below the ledger's bound"
    """

    @cached_property
    def mechanism(self) -> Gaussian:
        """The mechanism, as clients use it."""
        sigma = noise_multiplier(self.epsilon, self.delta, n_rounds=1, method="pld")
        return Gaussian(level=Level.USER, neighbours="add-remove", sigma=sigma, sensitivity=1.0)

    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely values are if the true one is 1."""
        return normal_log_ratio(values, 1.0, self.mechanism.sigma)


class LaplaceAudit(MechanismAudit):
    """Laplace noise."""

    @cached_property
    def mechanism(self) -> Laplace:
        """The mechanism, as clients use it."""
        return Laplace(
            level=Level.USER, neighbours="add-remove", scale=1 / self.epsilon, sensitivity=1.0
        )

    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely values are if the true one is 1."""
        return laplace_log_ratio(values, 1.0, self.mechanism.scale)


class DiscreteGaussianAudit(MechanismAudit):
    """Discrete normal noise, as wide as the accounting asks for by way of continuous noise."""

    @cached_property
    def mechanism(self) -> DiscreteGaussian:
        """The mechanism, as clients use it."""
        continuous = noise_multiplier(self.epsilon, self.delta, n_rounds=1, method="pld")
        return DiscreteGaussian(
            level=Level.USER,
            neighbours="add-remove",
            sigma=math.hypot(continuous, ROUNDING_SIGMA),
            sensitivity=1.0,
        )

    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely values are if the true one is 1."""
        return normal_log_ratio(values, 1.0, self.mechanism.sigma)


class DiscreteLaplaceAudit(MechanismAudit):
    """Discrete Laplace noise."""

    @cached_property
    def mechanism(self) -> DiscreteLaplace:
        """The mechanism, as clients use it."""
        return DiscreteLaplace(
            level=Level.USER, neighbours="add-remove", scale=1 / self.epsilon, sensitivity=1
        )

    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely values are if the true one is 1."""
        return laplace_log_ratio(values, 1.0, self.mechanism.scale)


class RandomisedResponseAudit(MechanismAudit):
    """An answer of several.

    Parameters
    ----------
    n_options
        How many answers there are: 11 values of FOLtR-ES's reward on a page of ten.
    """

    n_options: int = Field(default=11, ge=2)

    @property
    def neighbours(self) -> str:
        """Which two inputs are told apart, and what the adversary sees."""
        return f"answer 0 or 1 of {self.n_options}; the randomised answer is seen"

    @cached_property
    def mechanism(self) -> RandomisedResponse:
        """The mechanism, as clients use it."""
        others = (self.n_options - 1) * math.exp(-self.epsilon)
        return RandomisedResponse(
            level=Level.INTERACTION, keep_probability=1 / (1 + others), n_options=self.n_options
        )

    def log_ratio(self, values: NDArray[Any]) -> Floats:
        """Return how much more likely answers are if the true one is 1."""
        ratio: Floats = self.epsilon * ((values == 1) * 1.0 - (values == 0))
        return ratio
