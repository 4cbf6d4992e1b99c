"""Noise shares: no client adds enough noise alone, all of them together do.

Each of n clients adds a share to what it sends, and a sum that nobody can take apart (secure
aggregation) carries the noise. A plan is made for a number of dropouts, whose shares are missing,
and of colluders, who tell the reader of the sum their shares: with both at their most, the shares
that are left still add up to the target. With fewer there is more noise, which never costs more.

What holds: the release of the sum is as private as `NoisePlan.release` states, against whoever
sees the sum and the shares of at most ``n_colluders`` clients. A client's values are hidden, not
that it takes part: the neighbour of a sum is one to which it adds nothing, or other values, and
its share all the same. What does not hold: whoever sees one message by itself sees values that are
hardly noised; clients that leave out their shares or draw them narrower count as colluders.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.noise_source import MOST_WIDTH, NoiseSource
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.privacy.release import (
    DiscreteGaussianRelease,
    DiscreteLaplaceRelease,
    GaussianRelease,
    LaplaceRelease,
    Release,
)

__all__ = [
    "DiscreteGaussianShares",
    "DiscreteLaplaceShares",
    "GaussianShares",
    "LaplaceShares",
    "NoisePlan",
]

Neighbours = Literal["add-remove", "replace"]

# Sums of narrower discrete normal shares would have to be accounted for as what they are.
LEAST_SHARE_SIGMA: Final = 3.0


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
    def target_sigma(self) -> float:
        """Standard deviation of the noise that is planned for."""
        raise NotImplementedError

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

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[Any]:
        """Draw one client's share, to be added to its values before they are masked."""
        raise NotImplementedError

    def draw_sum(self, n_values: int, n_survivors: int, source: SimulatedNoise) -> NDArray[Any]:
        """Draw all noise in a sum at once, as a simulation of many clients does."""
        raise NotImplementedError

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

    def _release(self, fields: dict[str, Any]) -> Release:
        raise NotImplementedError

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


class GaussianShares(NoisePlan):
    """Shares that add up to normal noise: for simulation only, as floats do not add exactly.

    Parameters
    ----------
    sigma
        Standard deviation of the noise that is planned for.
    """

    sigma: float = Field(gt=0)

    @property
    def target_sigma(self) -> float:
        """The planned ``sigma``."""
        return self.sigma

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.float64]:
        """Draw one client's share."""
        _only_simulated(source.simulated)
        return source.gaussian(np.zeros(n_values), self.share_sigma)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.float64]:
        """Draw the noise of all survivors."""
        return source.gaussian(np.zeros(n_values), self.total_sigma(n_survivors))

    def _release(self, fields: dict[str, Any]) -> Release:
        _only_simulated(fields["simulated"])
        return GaussianRelease(sigma=self.sigma, **fields)


class DiscreteGaussianShares(NoisePlan):
    """Shares in whole steps whose sum is discrete normal noise, up to `sum_factor`.

    They can be added modulo 2^64 inside secure aggregation, with nothing lost.

    Parameters
    ----------
    sigma
        Width of the noise that is planned for, in steps.

    Examples
    --------
    >>> plan = DiscreteGaussianShares(sigma=1000.0, n_clients=120, n_dropouts=10, n_colluders=10)
    >>> plan.share_sigma
    100.0
    >>> DiscreteGaussianShares(sigma=20.0, n_clients=100)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: DiscreteGaussianShares: a share would be 2 steps wide...
    """

    sigma: float = Field(gt=0, le=MOST_WIDTH)

    @model_validator(mode="after")
    def _shares_are_wide(self) -> Self:
        if self.share_sigma < LEAST_SHARE_SIGMA:
            raise ValueError(
                f"a share would be {self.share_sigma:.3g} steps wide, and {LEAST_SHARE_SIGMA:g} is"
                " the least that is accounted for: take finer steps or more noise"
            )
        return self

    @property
    def target_sigma(self) -> float:
        """The planned ``sigma``; at such widths it is the standard deviation too."""
        return self.sigma

    @property
    def sum_factor(self) -> float:
        """The most by which a chance of the sum differs from the discrete normal one's, less 1.

        Kairouz, Liu and Steinke 2021: adding a k + 1st share of width s errs by a factor of at
        most 1 + 5 exp(-2 pi^2 s^2 k / (k + 1)); here over all clients' shares, for one value.
        """
        widths = (k / (k + 1) * self.share_sigma**2 for k in range(1, self.n_clients))
        return math.expm1(sum(5 * math.exp(-2 * math.pi**2 * width) for width in widths))

    def draw_share(self, n_values: int, source: NoiseSource) -> NDArray[np.int64]:
        """Draw one client's share."""
        return source.discrete_gaussian(np.zeros(n_values, np.int64), self.share_sigma)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.int64]:
        """Draw the noise of all survivors, up to `sum_factor`."""
        return source.discrete_gaussian(np.zeros(n_values, np.int64), self.total_sigma(n_survivors))

    def _release(self, fields: dict[str, Any]) -> Release:
        return DiscreteGaussianRelease(sigma=self.sigma, share_sigma=self.share_sigma, **fields)


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
        _only_simulated(source.simulated)
        return source.gamma_difference(n_values, self.scale, self.n_needed)

    def draw_sum(
        self, n_values: int, n_survivors: int, source: SimulatedNoise
    ) -> NDArray[np.float64]:
        """Draw the noise of all survivors."""
        n_shares = self._enough(n_survivors)
        return source.gamma_difference(n_values, self.scale, self.n_needed, n_shares=n_shares)

    def _release(self, fields: dict[str, Any]) -> Release:
        _only_simulated(fields["simulated"])
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


def _only_simulated(simulated: bool) -> None:
    if not simulated:
        raise SettingsError(
            "continuous shares exist for simulation only: sums of floats are rounded",
            where="noise shares",
            remedy="use discrete shares",
        )
