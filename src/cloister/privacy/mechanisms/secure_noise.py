"""Noise for what truly leaves a party: ``opendp``'s samplers, which are exact and unpredictable."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.privacy.mechanisms.noise_source import Floats, Integers, checked_width

__all__ = ["SecureNoise"]

BATCH: Final = 4096  # proposals drawn at once at most: each costs about 10 microseconds
MOST_POLYA_SCALE: Final = 10_000.0  # a share of one value then takes a tenth of a second
WORD: Final = 2**64


class SecureNoise:
    """Noise from the system's random source.

    ``opendp`` samples with whole numbers and fractions only, so that no rounding error shows
    through. It is not quick, and how long it takes depends on what it draws: do not let others
    time it.

    Examples
    --------
    >>> source = SecureNoise()
    >>> source.discrete_gaussian(np.zeros(4, np.int64), 5.0).dtype.name, source.simulated
    ('int64', False)
    """

    simulated: Final = False

    def laplace(self, values: Floats, scale: float) -> Floats:
        """Return the values with Laplace noise on the grid of 2^-1074, rounded to floats."""
        return np.array(_measurement("laplace", "f64", scale)(values), np.float64)

    def gaussian(self, values: Floats, sigma: float) -> Floats:
        """Return the values with normal noise on the grid of 2^-1074, rounded to floats."""
        return np.array(_measurement("gaussian", "f64", sigma)(values), np.float64)

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Return the values with discrete Laplace noise."""
        scale = checked_width(scale, where="scale")
        return np.array(_measurement("laplace", "i64", scale)(values), np.int64)

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """Return the values with discrete normal noise."""
        sigma = checked_width(sigma, where="sigma")
        return np.array(_measurement("gaussian", "i64", sigma)(values), np.int64)

    def randomised_response(
        self, answers: Integers, keep_probability: float, n_options: int
    ) -> Integers:
        """Return each answer with the given chance, else one of the others, all alike."""
        respond = _response(keep_probability, n_options)
        return np.array([respond(answer) for answer in answers.tolist()], np.int64)

    def gamma_difference(self, n_values: int, scale: float, n_parts: int) -> Floats:
        """Refuse: there is no exact sampler of Gamma variables, and sums of floats are rounded."""
        raise SettingsError(
            "there are no secure continuous Laplace shares",
            where="SecureNoise",
            remedy="share discrete Laplace or discrete Gaussian noise",
        )

    def polya_difference(self, n_values: int, scale: float, n_parts: int) -> Integers:
        """Return differences of Polya (negative binomial) variables of shape 1 / ``n_parts``.

        Exact, by rejection from geometric variables: about ``scale`` proposals a variable.
        """
        both = _polya(2 * n_values, checked_width(scale, where="scale"), n_parts)
        return both[:n_values] - both[n_values:]


@lru_cache(maxsize=128)
def _measurement(kind: Literal["laplace", "gaussian"], number: str, scale: float) -> Any:
    """Make a measurement over vectors; for floats on the finest grid, which loses nothing."""
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")  # its samplers come with proofs whose vetting is not complete
    atom = domains.atom_domain(T=number, **({"nan": False} if number == "f64" else {}))
    if kind == "laplace":
        metric = metrics.l1_distance(T=number)
        return measurements.make_laplace(domains.vector_domain(atom), metric, scale=scale)
    metric = metrics.l2_distance(T="f64")
    return measurements.make_gaussian(domains.vector_domain(atom), metric, scale=scale)


@lru_cache(maxsize=128)
def _response(keep_probability: float, n_options: int) -> Any:
    from opendp import measurements
    from opendp.mod import enable_features

    enable_features("contrib")
    return measurements.make_randomized_response(list(range(n_options)), keep_probability, T="i64")


def _polya(n_values: int, scale: float, n_parts: int) -> Integers:
    """Draw Polya variables of shape r = 1/m and ratio q = exp(-1/scale).

    Their chances (1 - q)^r q^k r (r+1) ... (r+k-1) / k! are those of a geometric variable times
    the product over i = 1..k of (i - 1 + r) / i = ((i - 1) m + 1) / (i m), which is at most 1 and
    rational: each factor is one throw of a coin.
    """
    if scale > MOST_POLYA_SCALE:
        raise SettingsError(
            f"secure shares of discrete Laplace noise end at scale {MOST_POLYA_SCALE}",
            where="scale",
            remedy="share discrete Gaussian noise",
        )
    chance = (-math.expm1(-1 / scale)) ** (1 - 1 / n_parts)  # of a proposal, to be taken
    found = np.empty(0, np.int64)
    while len(found) < n_values:
        n_likely = int(1.2 * (n_values - len(found)) / chance) + 16
        drawn = _geometric(min(n_likely, BATCH), scale)
        found = np.append(found, drawn[_all_coins_fall(drawn, n_parts)])
    return found[:n_values]


def _geometric(n_draws: int, scale: float) -> Integers:
    """Draw geometric variables: of a discrete Laplace one, x or, where it is negative, -x - 1."""
    noise = _measurement("laplace", "i64", scale)(np.zeros(n_draws, np.int64))
    drawn = np.array(noise, np.int64)
    return np.where(drawn >= 0, drawn, -drawn - 1)


def _all_coins_fall(counts: Integers, n_parts: int) -> NDArray[np.bool_]:
    """Throw ``counts[j]`` coins of the chances ((i - 1) m + 1) / (i m) for every j."""
    alive = np.ones(len(counts), np.bool_)
    thrown = 0
    while len(left := np.flatnonzero(alive & (counts > thrown))):
        thrown += 1
        below = _uniform_below(len(left), thrown * n_parts)
        alive[left] = below <= (thrown - 1) * n_parts
    return alive


def _uniform_below(n_draws: int, bound: int) -> NDArray[np.uint64]:
    """Draw whole numbers below a bound, all alike, from the system's random source."""
    last = WORD - WORD % bound - 1  # numbers up to here fall on every remainder equally often
    drawn = np.frombuffer(os.urandom(8 * n_draws), np.uint64).copy()
    while len(over := np.flatnonzero(drawn > last)):
        drawn[over] = np.frombuffer(os.urandom(8 * len(over)), np.uint64)
    return drawn % np.uint64(bound)
