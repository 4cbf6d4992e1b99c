"""Discrete normal noise on whole numbers (Canonne, Kamath and Steinke 2020)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.privacy.mechanisms.mechanism import Mechanism
from cloister.privacy.mechanisms.noise_source import MOST_WIDTH, NoiseSource, checked_integers
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import ROUNDING_SIGMA, DiscreteGaussianRelease

__all__ = ["DiscreteGaussian"]


class DiscreteGaussian(Mechanism):
    """Concentrated differential privacy with rho = (sensitivity / sigma)^2 / 2, hence an epsilon.

    Parameters
    ----------
    sigma
        Width of the noise in steps, above 2. It is the parameter of the distribution; at such
        widths the standard deviation is the same up to 1e-30.
    sensitivity
        How far one unit can move the values, in Euclidean length.
    sampling_rate
        As in `Gaussian`.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> counts = DiscreteGaussian(level="token", neighbours="add-remove", sigma=5, sensitivity=1)
    >>> values, release = counts.protect([3, 0, 7], SimulatedNoise(stream(1, "example")))
    >>> values.dtype.name, release.sigma
    ('int64', 5.0)
    """

    sigma: float = Field(gt=ROUNDING_SIGMA, le=MOST_WIDTH)
    sensitivity: float = Field(gt=0)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    def _kind(self) -> type[Release]:
        return DiscreteGaussianRelease

    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        array = checked_integers(values, where="DiscreteGaussian")
        return source.discrete_gaussian(array.ravel(), self.sigma).reshape(array.shape)
