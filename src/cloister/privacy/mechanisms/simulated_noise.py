"""Fast noise from a seeded generator, for experiments: it protects nobody."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cloister.privacy.mechanisms.noise_source import Floats, Integers, checked_width

__all__ = ["SimulatedNoise"]


class SimulatedNoise:
    """Noise of the right distribution that whoever knows the seed can take off again.

    Releases with it are marked as simulated. The discrete distributions are exact up to the
    precision of a double.

    Parameters
    ----------
    rng
        The generator to draw from.

    Examples
    --------
    >>> from cloister.core.random import stream
    >>> source = SimulatedNoise(stream(7, "noise"))
    >>> source.discrete_gaussian(np.zeros(4, np.int64), 5.0).dtype.name
    'int64'
    """

    simulated: Final = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def laplace(self, values: Floats, scale: float) -> Floats:
        """Return the values with Laplace noise."""
        return values + self.rng.laplace(0.0, scale, len(values))

    def gaussian(self, values: Floats, sigma: float) -> Floats:
        """Return the values with normal noise."""
        return values + self.rng.normal(0.0, sigma, len(values))

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Return the values with the difference of two geometric variables each."""
        scale = checked_width(scale, where="scale")
        return values + self._two_sided_geometric(len(values), scale)

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """Return the values with discrete normal noise, by rejection.

        Canonne, Kamath and Steinke 2020, algorithm 3: draw y from discrete Laplace of scale
        t = floor(sigma) + 1 and keep it with the chance exp(-(abs(y) - sigma^2/t)^2 / (2 sigma^2)).
        """
        sigma = checked_width(sigma, where="sigma")
        t = math.floor(sigma) + 1
        noise = np.empty(len(values), np.int64)
        done = 0
        while done < len(noise):
            n_drawn = int(1.7 * (len(noise) - done)) + 16  # about two in three are kept
            drawn = self._two_sided_geometric(n_drawn, t)
            misfit = (np.abs(drawn) - sigma * (sigma / t)) / sigma
            kept = drawn[self.rng.random(n_drawn) < np.exp(-0.5 * misfit * misfit)]
            kept = kept[: len(noise) - done]
            noise[done : done + len(kept)] = kept
            done += len(kept)
        return values + noise

    def randomised_response(
        self, answers: Integers, keep_probability: float, n_options: int
    ) -> Integers:
        """Return each answer with the given chance, else one of the others, all alike."""
        other = self.rng.integers(n_options - 1, size=len(answers))
        other += other >= answers
        kept = self.rng.random(len(answers)) < keep_probability
        return np.where(kept, answers, other)

    def gamma_difference(
        self, n_values: int, scale: float, n_parts: int, *, n_shares: int = 1
    ) -> Floats:
        """Return sums of ``n_shares`` Laplace shares, of which ``n_parts`` make one variable."""
        shape = n_shares / n_parts
        plus = self.rng.gamma(shape, scale, n_values)
        return plus - self.rng.gamma(shape, scale, n_values)

    def polya_difference(
        self, n_values: int, scale: float, n_parts: int, *, n_shares: int = 1
    ) -> Integers:
        """Return sums of ``n_shares`` discrete Laplace shares; ``n_parts`` make one variable."""
        p = -math.expm1(-1 / checked_width(scale, where="scale"))
        shape = n_shares / n_parts
        plus = self.rng.negative_binomial(shape, p, n_values)
        return plus - self.rng.negative_binomial(shape, p, n_values)

    def _two_sided_geometric(self, n_values: int, scale: float) -> Integers:
        p = -math.expm1(-1 / scale)
        return self.rng.geometric(p, n_values) - self.rng.geometric(p, n_values)
