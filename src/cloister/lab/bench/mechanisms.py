"""Noise: each mechanism with secure and with simulated noise, shares, and clipping."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from cloister.core.random import stream
from cloister.lab.bench import Advance, Figures
from cloister.privacy.clipping import clipped
from cloister.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    NoiseSource,
    RandomisedResponse,
    SecureNoise,
    SimulatedNoise,
)
from cloister.privacy.noise_shares import DiscreteGaussianShares, DiscreteLaplaceShares

__all__ = ["run"]

N_FEATURES: Final = 136  # of MSLR-WEB: the weights of a linear ranker
LARGER: Final = (10_000, 100_000)
UNIT: Final[dict[str, Any]] = {"level": "user", "neighbours": "replace"}
MECHANISMS: Final[dict[str, Mechanism]] = {
    "laplace": Laplace(**UNIT, scale=1.0, sensitivity=1.0),
    "gaussian": Gaussian(**UNIT, sigma=1.0, sensitivity=1.0),
    "discrete_laplace": DiscreteLaplace(**UNIT, scale=50.0, sensitivity=1),
    "discrete_gaussian": DiscreteGaussian(**UNIT, sigma=50.0, sensitivity=1.0),
    "randomised_response": RandomisedResponse(**UNIT, keep_probability=0.5, n_options=11),
}


def run(advance: Advance) -> Figures:
    """Time a vector of 136 values, and larger ones with normal noise."""
    figures: Figures = {}
    sources: dict[str, NoiseSource] = {
        "opendp": SecureNoise(),
        "simulated": SimulatedNoise(stream(1, "bench mechanisms")),
    }
    n_steps = len(sources) * (len(MECHANISMS) + 3) + 1
    for name, source in sources.items():
        for kind, mechanism in MECHANISMS.items():
            advance(len(figures), n_steps)
            figures[f"{name}_{kind}_us_per_136_vector"] = _microseconds(
                partial(mechanism.protect, np.zeros(N_FEATURES, np.int64), source)
            )
        figures |= _larger(name, source)
        figures |= _shares(name, source)
        advance(len(figures), n_steps)
    figures["clip_us_per_136_vector"] = _microseconds(lambda: clipped(np.ones(N_FEATURES), 1.0))
    advance(n_steps, n_steps)
    return figures


def _larger(name: str, source: NoiseSource) -> Figures:
    figures: Figures = {}
    for n_values in LARGER:
        values = np.zeros(n_values, np.int64)
        for kind in ("gaussian", "discrete_gaussian"):
            work = partial(MECHANISMS[kind].protect, values, source)
            figures[f"{name}_{kind}_ms_per_{n_values}_vector"] = _microseconds(work) / 1e3
    return figures


def _shares(name: str, source: NoiseSource) -> Figures:
    """Time one client's share of noise, of a thousand clients."""
    clients: dict[str, Any] = {"n_clients": 1000, "n_dropouts": 100, "n_colluders": 100}
    normal = DiscreteGaussianShares(sigma=1000.0, **clients)
    laplace = DiscreteLaplaceShares(scale=100.0, **clients)
    return {
        f"{name}_discrete_gaussian_share_us_per_136_vector": _microseconds(
            lambda: normal.draw_share(N_FEATURES, source)
        ),
        f"{name}_discrete_laplace_share_us_per_136_vector": _microseconds(
            lambda: laplace.draw_share(N_FEATURES, source)
        ),
    }


def _microseconds(work: Callable[[], object], least_s: float = 0.2) -> float:
    """Return the CPU time of one call: the mean of as many as fill some time, after a first."""
    if (first := _seconds(work)) > least_s:
        return first * 1e6
    n_calls, spent = 0, 0.0
    while spent < least_s:
        spent += _seconds(work)
        n_calls += 1
    return spent / n_calls * 1e6


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
