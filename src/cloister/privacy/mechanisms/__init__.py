"""Mechanisms: values in, protected values and the record for the ledger out.

One file a mechanism. Noise comes from a source: `SecureNoise` for what truly leaves a party,
`SimulatedNoise` for experiments. ``opendp`` is imported when `SecureNoise` first draws.
"""

from __future__ import annotations

from cloister.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from cloister.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from cloister.privacy.mechanisms.gaussian import Gaussian
from cloister.privacy.mechanisms.laplace import Laplace
from cloister.privacy.mechanisms.mechanism import Mechanism, Protected
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.mechanisms.randomised_response import RandomisedResponse
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NoiseSource",
    "Protected",
    "RandomisedResponse",
    "SecureNoise",
    "SimulatedNoise",
]
