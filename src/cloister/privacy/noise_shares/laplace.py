"""Shares that add up to Laplace noise, continuous or in whole steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.privacy.mechanisms.noise_source import MOST_WIDTH, NoiseSource
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.noise_shares.plan import NoisePlan, only_simulated
from cloister.privacy.release import Release
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease

__all__ = ["DiscreteLaplaceShares", "LaplaceShares"]


class LaplaceShares(NoisePlan):
    """Differences of Gamma variables that add up to Laplace noise: for simulation only.

    Most of a share's values are practically 0, if there are many clients. More shares than needed
    make the noise of the sum wider than Laplace noise; the record states the Laplace part.

    Parameters
    ----------
    scale
        Of the noise that is planned for.
    """

    scale: float = Field(gt=0)

    @property
    def target_sigma(self) -> float:
        """sqrt(2) times the scale."""
        return math.sqrt(2) * self.scale

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.float64]:
        """Draw one client's share."""
        only_simulated(source.simulated)
        return source.gamma_difference(n_values, self.scale, self.n_needed)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.float64]:
        """Draw the noise of all survivors."""
        n_shares = self._enough(n_survivors)
        return source.gamma_difference(n_values, self.scale, self.n_needed, n_shares=n_shares)

    def _release(self, fields: dict[str, Any]) -> Release:
        only_simulated(fields["simulated"])
        return LaplaceRelease(scale=self.scale, **fields)


class DiscreteLaplaceShares(NoisePlan):
    """Differences of Polya variables, in whole steps, that add up to discrete Laplace noise.

    They add up exactly, modulo 2^64 too. `SecureNoise` draws them exactly and slowly, in time in
    proportion to the scale.

    Parameters
    ----------
    scale
        Of the noise that is planned for, in steps.

    Examples
    --------
    >>> plan = DiscreteLaplaceShares(scale=10.0, n_clients=50, n_dropouts=5, n_colluders=5)
    >>> plan.release(level="user", neighbours="replace", sensitivity=2, n_values=136).epsilon
    0.2
    """

    scale: float = Field(gt=0, le=MOST_WIDTH)

    @property
    def target_sigma(self) -> float:
        """sqrt(2 q) / (1 - q) with q = exp(-1/scale), which is 1 / (sqrt(2) sinh(1/(2 scale)))."""
        half = 0.5 / self.scale
        return 0.0 if half > 700 else 1 / (math.sqrt(2) * math.sinh(half))

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw one client's share."""
        return source.polya_difference(n_values, self.scale, self.n_needed)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.int64]:
        """Draw the noise of all survivors."""
        n_shares = self._enough(n_survivors)
        return source.polya_difference(n_values, self.scale, self.n_needed, n_shares=n_shares)

    def _release(self, fields: dict[str, Any]) -> Release:
        return DiscreteLaplaceRelease(scale=self.scale, **fields)
