"""Shares that add up to normal noise, continuous or in whole steps."""

from __future__ import annotations

import math
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from cloister.privacy.mechanisms.noise_source import MOST_WIDTH, NoiseSource
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.noise_shares.plan import NoisePlan, only_simulated
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease

__all__ = ["DiscreteGaussianShares", "GaussianShares"]

# Sums of narrower discrete normal shares would have to be accounted for as what they are.
LEAST_SHARE_SIGMA: Final = 3.0


class GaussianShares(NoisePlan):
    """Shares that add up to normal noise: for simulation only, as floats do not add exactly.

    Parameters
    ----------
    sigma
        Standard deviation of the noise that is planned for.
    """

    sigma: float = Field(gt=0)

    @property
    def target_sigma(self) -> float:
        """The planned ``sigma``."""
        return self.sigma

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.float64]:
        """Draw one client's share."""
        only_simulated(source.simulated)
        return source.gaussian(np.zeros(n_values), self.share_sigma)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.float64]:
        """Draw the noise of all survivors."""
        return source.gaussian(np.zeros(n_values), self.total_sigma(n_survivors))

    def _release(self, fields: dict[str, Any]) -> Release:
        only_simulated(fields["simulated"])
        return GaussianRelease(sigma=self.sigma, **fields)


class DiscreteGaussianShares(NoisePlan):
    """Shares in whole steps whose sum is discrete normal noise, up to `sum_factor`.

    They can be added modulo 2^64 inside secure aggregation, with nothing lost.

    Parameters
    ----------
    sigma
        Width of the noise that is planned for, in steps.

    Examples
    --------
    >>> plan = DiscreteGaussianShares(sigma=1000.0, n_clients=120, n_dropouts=10, n_colluders=10)
    >>> plan.share_sigma
    100.0
    >>> DiscreteGaussianShares(sigma=20.0, n_clients=100)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: discrete gaussian shares: a share would be 2 steps wide...
    """

    sigma: float = Field(gt=0, le=MOST_WIDTH)

    @model_validator(mode="after")
    def _shares_are_wide(self) -> Self:
        if self.share_sigma < LEAST_SHARE_SIGMA:
            raise ValueError(
                f"a share would be {self.share_sigma:.3g} steps wide, and {LEAST_SHARE_SIGMA:g} is"
                " the least that is accounted for: take finer steps or more noise"
            )
        return self

    @property
    def target_sigma(self) -> float:
        """The planned ``sigma``; at such widths it is the standard deviation too."""
        return self.sigma

    @property
    def sum_factor(self) -> float:
        """The most by which a chance of the sum differs from the discrete normal one's, less 1.

        Kairouz, Liu and Steinke 2021: adding a k + 1st share of width s errs by a factor of at
        most 1 + 5 exp(-2 pi^2 s^2 k / (k + 1)); here over all clients' shares, for one value.
        """
        widths = (k / (k + 1) * self.share_sigma**2 for k in range(1, self.n_clients))
        return math.expm1(sum(5 * math.exp(-2 * math.pi**2 * width) for width in widths))

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw one client's share."""
        return source.discrete_gaussian(np.zeros(n_values, np.int64), self.share_sigma)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.int64]:
        """Draw the noise of all survivors, up to `sum_factor`."""
        return source.discrete_gaussian(np.zeros(n_values, np.int64), self.total_sigma(n_survivors))

    def _release(self, fields: dict[str, Any]) -> Release:
        return DiscreteGaussianRelease(sigma=self.sigma, share_sigma=self.share_sigma, **fields)
