"""What every plan of noise shares states: how many clients, dropouts and colluders."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal, Self

from numpy.typing import NDArray
from pydantic import Field, model_validator

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.release import Release

__all__ = ["NoisePlan", "only_simulated"]

Neighbours = Literal["add-remove", "replace"]


class NoisePlan(Settings):
    """What every plan states.

    Parameters
    ----------
    n_clients
        Clients that draw a share.
    n_dropouts
        How many of them may fail to get their share into the sum.
    n_colluders
        How many of those in the sum may tell theirs to whoever reads it.

    Examples
    --------
    >>> from cloister.privacy.noise_shares import GaussianShares
    >>> plan = GaussianShares(sigma=8.0, n_clients=100, n_dropouts=20, n_colluders=16)
    >>> plan.share_sigma, plan.guaranteed_sigma(80), round(plan.total_sigma(80), 2)
    (1.0, 8.0, 8.94)
    """

    n_clients: int = Field(ge=1)
    n_dropouts: int = Field(default=0, ge=0)
    n_colluders: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _somebody_is_left(self) -> Self:
        if self.n_needed < 1:
            raise ValueError("all shares may drop out or be known: nothing is left to hide behind")
        return self

    @property
    def n_needed(self) -> int:
        """How many shares add up to the target."""
        return self.n_clients - self.n_dropouts - self.n_colluders

    @property
    @abstractmethod
    def target_sigma(self) -> float:
        """Standard deviation of the noise that is planned for."""

    @property
    def share_sigma(self) -> float:
        """Standard deviation of one share."""
        return self.target_sigma / math.sqrt(self.n_needed)

    def guaranteed_sigma(self, n_survivors: int) -> float:
        """Return the standard deviation of what nobody but the honest survivors knows."""
        return self.share_sigma * math.sqrt(self._enough(n_survivors) - self.n_colluders)

    def total_sigma(self, n_survivors: int) -> float:
        """Return the standard deviation of all noise in a sum: what accuracy suffers from."""
        return self.share_sigma * math.sqrt(self._enough(n_survivors))

    @abstractmethod
    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[Any]:
        """Draw one client's share, to be added to its values before they are masked."""

    @abstractmethod
    def draw_sum(self, n_values: int, n_survivors: int, source: SimulatedNoise) -> NDArray[Any]:
        """Draw all noise in a sum at once, as a simulation of many clients does."""

    def release(
        self,
        *,
        level: Level,
        neighbours: Neighbours,
        sensitivity: float,
        n_values: int = 1,
        simulated: bool = False,
        sampling_rate: float = 1.0,
        group_sizes: dict[Level, int] | None = None,
    ) -> Release:
        """Return the record of releasing the sum, by its least noise.

        Parameters
        ----------
        level, neighbours, group_sizes
            As in `Release`; the level is ``user`` where a client is one person.
        sensitivity
            How far one unit can move the sum: Euclidean length for normal noise, the sum of
            absolute changes for Laplace noise; for discrete noise, in steps.
        n_values
            How many numbers the sum has.
        simulated
            Whether the shares came from a seeded generator.
        sampling_rate
            As in `GaussianRelease`, and 1 against a server that sees who takes part.
        """
        fields: dict[str, Any] = {
            "level": level,
            "neighbours": neighbours,
            "sensitivity": sensitivity,
            "n_values": n_values,
            "simulated": simulated,
            "group_sizes": group_sizes or {},
            "note": self._note(),
        }
        if sampling_rate != 1.0:
            fields["sampling_rate"] = sampling_rate
        return self._release(fields)

    @abstractmethod
    def _release(self, fields: dict[str, Any]) -> Release:
        """Return the record with these fields."""

    def _note(self) -> str:
        return (
            f"shares of {self.n_clients} clients; holds with up to {self.n_dropouts} dropouts"
            f" and {self.n_colluders} colluders, against whoever sees the sum only"
        )

    def _enough(self, n_survivors: int) -> int:
        least = self.n_clients - self.n_dropouts
        if n_survivors < least:
            raise DataError(
                f"{n_survivors} shares arrived and {least} are planned for at least",
                where="noise shares",
                remedy="do not release the sum; plan for more dropouts next time",
            )
        if n_survivors > self.n_clients:
            raise DataError(
                f"{n_survivors} shares of {self.n_clients} clients", where="noise shares"
            )
        return n_survivors


def only_simulated(simulated: bool) -> None:
    """Refuse to draw, or to record, continuous shares as real ones."""
    if not simulated:
        raise SettingsError(
            "continuous shares exist for simulation only: sums of floats are rounded",
            where="noise shares",
            remedy="use discrete shares",
        )
