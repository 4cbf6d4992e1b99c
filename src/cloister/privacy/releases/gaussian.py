"""Releases with normal noise, continuous and discrete."""

from __future__ import annotations

import math
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["ROUNDING_SIGMA", "DiscreteGaussianRelease", "GaussianRelease"]

# A discrete normal variable is, up to 1 part in 10^33, a rounding of a continuous one of two
# steps' less width (see `DiscreteGaussianRelease`).
ROUNDING_SIGMA: Final = 2.0


class GaussianRelease(Release):
    """Normal noise on every value.

    Parameters
    ----------
    sigma
        Standard deviation of the noise.
    sensitivity
        How far one unit can move the values, in Euclidean length.
    sampling_rate
        The chance with which each unit was drawn into the release, apart from all others and
        unknown to whoever reads it (Poisson sampling); 1 for no sampling.

    Examples
    --------
    >>> GaussianRelease(level="user", sigma=2.0, sensitivity=0.5).noise_multiplier
    4.0
    """

    mechanism: Literal["gaussian"] = "gaussian"
    sigma: float = Field(gt=0)
    sensitivity: float = Field(gt=0)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _sampling_adds_or_removes(self) -> Self:
        _check_sampling(self.sampling_rate, self.neighbours)
        return self

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise over sensitivity."""
        return self.sigma / self.sensitivity

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        # Members of a group are sampled apart: counting the whole group as present is safe.
        rate = self.sampling_rate if group_size == 1 else 1.0
        return (Loss("gaussian", self.noise_multiplier / group_size, sampling_rate=rate),)


class DiscreteGaussianRelease(Release):
    """Discrete normal noise on whole numbers, drawn once or as the sum of several shares.

    It costs no more than continuous noise a little narrower: let y be drawn from the discrete
    normal of width s around a continuous normal variable of mean c and width r. Then y is the
    discrete normal of mean c and width sqrt(r^2 + s^2), up to a factor of 1 + 4 exp(-2 pi^2 s^2)
    (Poisson's summation formula; Peikert 2010, theorem 3.1), which for s = 2 is 1 + 2e-34. A
    function of a continuous Gaussian release costs no more than that release. The sum of shares
    of width at least 3 is a discrete normal variable up to an even smaller factor (Kairouz, Liu
    and Steinke 2021, theorem 1). Both factors, to the power of a million values, stay below
    anything that double precision shows.

    Parameters
    ----------
    sigma
        Width of the noise (of the whole sum, without what colluders know), in steps.
    sensitivity
        How far one unit can move the whole numbers, in Euclidean length.
    share_sigma
        Width of the narrowest share, where the noise is a sum of shares.
    sampling_rate
        As in `GaussianRelease`.

    Examples
    --------
    >>> from cloister.privacy.level import Level
    >>> release = DiscreteGaussianRelease(level="token", sigma=5.0, sensitivity=1)
    >>> round(release.losses(Level.TOKEN)[0].noise, 4)
    4.5826
    """

    mechanism: Literal["discrete-gaussian"] = "discrete-gaussian"
    sigma: float = Field(gt=ROUNDING_SIGMA)
    sensitivity: float = Field(gt=0)
    share_sigma: float | None = Field(default=None, ge=3)
    sampling_rate: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _sampling_adds_or_removes(self) -> Self:
        _check_sampling(self.sampling_rate, self.neighbours)
        return self

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        continuous = math.sqrt(self.sigma**2 - ROUNDING_SIGMA**2)
        rate = self.sampling_rate if group_size == 1 else 1.0
        noise = continuous / (self.sensitivity * group_size)
        return (Loss("gaussian", noise, sampling_rate=rate),)


def _check_sampling(sampling_rate: float, neighbours: str) -> None:
    if sampling_rate < 1 and neighbours != "add-remove":
        raise ValueError("a sampled release is accounted for units added or removed only")
