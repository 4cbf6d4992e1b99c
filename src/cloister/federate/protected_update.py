"""What a real client does to its update before it leaves: clip it, make it whole steps, add noise.

The steps are fine (a clipped update is a million of them long), and cutting off towards zero never
makes a vector longer, so that the sensitivity of the sum in steps is exactly that of clipping. The
noise is one share of what the sum carries (:mod:`cloister.privacy.noise_shares`): alone it hides
nothing. What comes out is for secure aggregation only.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.privacy.clipping import clipped
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.noise_shares import DiscreteGaussianShares
from cloister.privacy.release import Release
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint

__all__ = ["UpdateProtection"]

STEPS_OF_A_CLIP: Final = 2.0**20
WIDEST_SHARE: Final = 40.0  # times its sigma: beyond with a chance of exp(-800)


class UpdateProtection(Settings):
    """What the clients of one sum agree on.

    Parameters
    ----------
    clip_norm
        The longest update, in Euclidean length: one client's weight in the sum.
    sigma
        Standard deviation of the noise that the sum carries at least, whatever drops out or
        colludes, in units of the update.
    min_survivors
        The sum of fewer clients is not formed: secure aggregation refuses.
    n_colluders
        How many of those may tell the server their shares of the noise.
    n_values
        Length of an update.

    Examples
    --------
    >>> protection = UpdateProtection(clip_norm=0.5, sigma=0.02, min_survivors=20, n_values=3)
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> source = SimulatedNoise(np.random.default_rng(1))
    >>> steps = [protection.protected([3.0, 4.0, 0.0], source) for _ in range(20)]
    >>> protection.decoded(np.sum(steps, axis=0)).round(1) + 0.0  # 20 times (0.3, 0.4, 0), noise
    array([6., 8., 0.])
    """

    clip_norm: float = Field(gt=0)
    sigma: float = Field(gt=0)
    min_survivors: int = Field(ge=2)
    n_colluders: int = Field(default=0, ge=0)
    n_values: int = Field(ge=1)

    @model_validator(mode="after")
    def _enough_honest(self) -> Self:
        if self.n_colluders >= self.min_survivors:
            raise ValueError("somebody among the survivors must be honest")
        return self

    @property
    def scale_bits(self) -> int:
        """Binary digits after the point: steps are two to the power of minus that."""
        return max(0, math.ceil(math.log2(STEPS_OF_A_CLIP / self.clip_norm)))

    @cached_property
    def shares(self) -> DiscreteGaussianShares:
        """The plan of the noise, in steps: any survivors of at least the least number will do."""
        return DiscreteGaussianShares(
            sigma=math.ldexp(self.sigma, self.scale_bits),
            n_clients=self.min_survivors,
            n_colluders=self.n_colluders,
        )

    @property
    def fixed_point(self) -> FixedPoint:
        """The range of what one client sends, in whole steps."""
        largest = math.ldexp(self.clip_norm, self.scale_bits)
        return FixedPoint(bound=largest + WIDEST_SHARE * self.shares.share_sigma, scale_bits=0)

    def protected(self, update: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        """Return what one client hands to secure aggregation; NaN and infinity are refused."""
        given = np.asarray(update)
        if given.shape != (self.n_values,):
            raise DataError(
                f"an update is a vector of {self.n_values} numbers (given: shape {given.shape})",
                where="update",
            )
        short = clipped(given, self.clip_norm).astype(np.float64)
        steps: NDArray[np.int64] = np.trunc(np.ldexp(short, self.scale_bits)).astype(np.int64)
        return steps + self.shares.draw_share(self.n_values, source)

    def decoded(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a sum of steps in units of the update."""
        return np.ldexp(total.astype(np.float64), -self.scale_bits)

    @property
    def share_sigma(self) -> float:
        """Width of one client's noise, in units of the update."""
        return math.ldexp(self.shares.share_sigma, -self.scale_bits)

    def release(
        self, *, sampling_rate: float = 1.0, simulated: bool = False, note: str = ""
    ) -> Release:
        """Return the ledger's record of the sum.

        With a sampling rate below 1 it holds against those who cannot know who took part. What
        goes to the server, which knows, is to be recorded with rate 1.
        """
        release = self.shares.release(
            level=Level.USER,
            neighbours="add-remove",
            sensitivity=math.ldexp(self.clip_norm, self.scale_bits),
            n_values=self.n_values,
            simulated=simulated,
            sampling_rate=sampling_rate,
        )
        return release.model_copy(update={"note": "; ".join(filter(None, (note, release.note)))})
