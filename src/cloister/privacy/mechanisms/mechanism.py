"""What all mechanisms have in common: the unit they protect, and what they give back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple, Self

from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.release import Release

__all__ = ["Mechanism", "Protected"]


class Protected(NamedTuple):
    """What may leave, and the record that must reach the ledger with it."""

    values: NDArray[Any]
    release: Release


class Mechanism(Settings):
    """The base of all mechanisms.

    A mechanism protects against whoever sees what it returns, whatever else they know and for as
    long as they like. It trusts its caller for the sensitivity: values that one unit can move
    further are protected less than the record says. How long it takes is not protected.

    Parameters
    ----------
    level
        The unit that is protected.
    neighbours
        Whether neighbouring inputs differ by one unit more or less (``add-remove``), or by one
        unit changed to any other (``replace``); the sensitivity is stated for this.
    group_sizes
        How many units at most a larger one holds, as in `Release`.
    """

    level: Level
    neighbours: Literal["add-remove", "replace"]
    group_sizes: dict[Level, int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_recorded(self) -> Self:
        self.release(1)
        return self

    def protect(self, values: ArrayLike, source: NoiseSource) -> Protected:
        """Return protected values of the same shape, and what was released.

        The values may not leave before the ledger has the record.
        """
        noised = self._noised(values, source)
        return Protected(noised, self.release(noised.size, simulated=source.simulated))

    def release(self, n_values: int, *, simulated: bool = False) -> Release:
        """Return the record of protecting so many values, to ask the ledger beforehand."""
        return self._kind()(**self.model_dump(), n_values=n_values, simulated=simulated)

    @abstractmethod
    def _kind(self) -> type[Release]:
        """Return the kind of its records."""

    @abstractmethod
    def _noised(self, values: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        """Return the values with noise, or refuse them."""
