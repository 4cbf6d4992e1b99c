"""Laplace noise on real numbers (Dwork, McSherry, Nissim and Smith 2006)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.privacy.mechanisms.mechanism import Mechanism
from cloister.privacy.mechanisms.noise_source import NoiseSource, checked_floats
from cloister.privacy.release import Release
from cloister.privacy.releases.laplace import LaplaceRelease

__all__ = ["Laplace"]


class Laplace(Mechanism):
    """Pure differential privacy with epsilon = sensitivity / scale for all values together.

    With `SecureNoise` the noise is discrete Laplace on the multiples of 2^-1074, added exactly and
    rounded to a float at the end. Every float is such a multiple, so nothing is rounded before the
    noise and the sensitivity does not grow; that grid's effect on the cost is below 1e-300.

    Parameters
    ----------
    scale
        Of the noise; its standard deviation is sqrt(2) times that.
    sensitivity
        How far one unit can move the values: the sum of the absolute changes.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> mechanism = Laplace(level="user", neighbours="add-remove", scale=2.0, sensitivity=1.0)
    >>> values, release = mechanism.protect([10.0, 20.0], SimulatedNoise(stream(1, "example")))
    >>> release.epsilon, release.n_values, release.simulated
    (0.5, 2, True)
    """

    scale: float = Field(gt=0)
    sensitivity: float = Field(gt=0)

    def _kind(self) -> type[Release]:
        return LaplaceRelease

    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        array = checked_floats(values, where="Laplace")
        return source.laplace(array.ravel(), self.scale).reshape(array.shape)
