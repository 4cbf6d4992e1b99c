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

from cloister.privacy.noise_shares.gaussian import DiscreteGaussianShares, GaussianShares
from cloister.privacy.noise_shares.laplace import DiscreteLaplaceShares, LaplaceShares
from cloister.privacy.noise_shares.plan import NoisePlan

__all__ = [
    "DiscreteGaussianShares",
    "DiscreteLaplaceShares",
    "GaussianShares",
    "LaplaceShares",
    "NoisePlan",
]
