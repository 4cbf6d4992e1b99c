"""Discrete Laplace (two-sided geometric) noise on whole numbers (Ghosh et al. 2009)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from cloister.privacy.mechanisms.mechanism import Mechanism
from cloister.privacy.mechanisms.noise_source import MOST_WIDTH, NoiseSource, checked_integers
from cloister.privacy.release import Release
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease

__all__ = ["DiscreteLaplace"]


class DiscreteLaplace(Mechanism):
    """Pure differential privacy with epsilon = sensitivity / scale for all values together.

    Parameters
    ----------
    scale
        Of the noise, in steps.
    sensitivity
        The sum of the absolute changes that one unit can make.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> counts = DiscreteLaplace(level="token", neighbours="add-remove", scale=2.0, sensitivity=1)
    >>> values, release = counts.protect([3, 0, 7], SimulatedNoise(stream(1, "example")))
    >>> values.dtype.name, release.epsilon
    ('int64', 0.5)
    """

    scale: float = Field(gt=0, le=MOST_WIDTH)
    sensitivity: int = Field(ge=1)

    def _kind(self) -> type[Release]:
        return DiscreteLaplaceRelease

    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        array = checked_integers(values, where="DiscreteLaplace")
        return source.discrete_laplace(array.ravel(), self.scale).reshape(array.shape)
