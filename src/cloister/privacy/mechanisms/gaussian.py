"""Normal noise on real numbers."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.privacy.mechanisms.mechanism import Mechanism
from cloister.privacy.mechanisms.noise_source import NoiseSource, checked_floats
from cloister.privacy.release import Release
from cloister.privacy.releases.gaussian import GaussianRelease

__all__ = ["Gaussian"]


class Gaussian(Mechanism):
    """Gaussian differential privacy with the parameter sensitivity / sigma, hence an epsilon.

    With `SecureNoise` the noise is discrete normal on the multiples of 2^-1074, added exactly and
    rounded to a float at the end. Every float is such a multiple, so nothing is rounded before the
    noise and the sensitivity does not grow; that grid's effect on the cost is below 1e-300.

    Parameters
    ----------
    sigma
        Standard deviation of the noise.
    sensitivity
        How far one unit can move the values, in Euclidean length.
    sampling_rate
        The chance with which each unit was drawn into the values (Poisson sampling), if nobody
        who sees the release knows who was drawn. The caller samples, the mechanism does not.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> mechanism = Gaussian(level="user", neighbours="add-remove", sigma=2.0, sensitivity=1.0)
    >>> values, release = mechanism.protect([10.0, 20.0], SimulatedNoise(stream(1, "example")))
    >>> release.noise_multiplier, release.n_values, release.simulated
    (2.0, 2, True)
    """

    sigma: float = Field(gt=0)
    sensitivity: float = Field(gt=0)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    def _kind(self) -> type[Release]:
        return GaussianRelease

    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        array = checked_floats(values, where="Gaussian")
        return source.gaussian(array.ravel(), self.sigma).reshape(array.shape)
