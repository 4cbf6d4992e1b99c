"""Releases with Laplace noise, continuous and discrete."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["DiscreteLaplaceRelease", "LaplaceRelease"]


class LaplaceRelease(Release):
    """Laplace noise on every value.

    Parameters
    ----------
    scale
        Of the noise; its standard deviation is sqrt(2) times that.
    sensitivity
        How far one unit can move the values: the sum of the absolute changes.

    Examples
    --------
    >>> LaplaceRelease(level="user", scale=2.0, sensitivity=1.0).epsilon
    0.5
    """

    mechanism: Literal["laplace"] = "laplace"
    scale: float = Field(gt=0)
    sensitivity: float = Field(gt=0)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of this release alone."""
        return self.sensitivity / self.scale

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("laplace", self.scale / (self.sensitivity * group_size)),)


class DiscreteLaplaceRelease(Release):
    """Discrete Laplace (two-sided geometric) noise on whole numbers.

    Parameters
    ----------
    scale
        Of the noise, in steps.
    sensitivity
        The sum of the absolute changes that one unit can make, in steps.
    """

    mechanism: Literal["discrete-laplace"] = "discrete-laplace"
    scale: float = Field(gt=0)
    sensitivity: int = Field(ge=1)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of this release alone."""
        return self.sensitivity / self.scale

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("discrete-laplace", self.scale, self.sensitivity * group_size),)
