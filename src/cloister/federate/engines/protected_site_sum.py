"""What a site does to its users' updates before their sum leaves: clip each, sum, add noise.

Each user's update is clipped and cut to whole steps on its own, and then added: one user more or
less changes the sum by one clipped update, exactly. The noise is the site's share of what the sum
over all sites carries; alone it hides little.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.federate.protected_update import UpdateProtection
from cloister.privacy.clipping import clipped
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint

__all__ = ["SiteSumProtection"]

MOST_SITES: Final = 100_000  # of one sum
# The largest value of one site, in steps, of which a clipped update has at most 2^21. That is room
# for 44 million users at each of the most sites: far beyond any site, so that no number of users
# makes a site refuse, and nobody learns how many there are.
ROOM: Final = (2**63 - 1) // MOST_SITES


class SiteSumProtection(UpdateProtection):
    """What the sites of one sum agree on; survivors and colluders are sites here.

    Examples
    --------
    >>> from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
    >>> agreed = SiteSumProtection(
    ...     clip_norm=0.5, sigma=0.02, min_survivors=2, n_values=2)
    >>> source = SimulatedNoise(np.random.default_rng(1))
    >>> users = np.array([[3.0, 4.0], [0.3, 0.0]], np.float32)
    >>> sums = [agreed.protected_sum(users, source) for _ in range(2)]
    >>> agreed.decoded(np.sum(sums, axis=0)).round(1)  # twice (0.3 + 0.3, 0.4), and noise
    array([1.2, 0.8])
    """

    @property
    def fixed_point(self) -> FixedPoint:
        """The range of what one site sends, in whole steps."""
        return FixedPoint(bound=float(ROOM), scale_bits=0)

    def longest_sum(self, n_users: int, n_sites: int, *, chance: float) -> float:
        """Return a length that the honest sum of these users and sites exceeds with this chance.

        Users add up to ``n_users`` clipped updates at most. Each site adds a share of the noise, so
        more sites than ``min_survivors`` carry more noise. A coordinate of a share is sub-Gaussian
        with its sigma (Canonne, Kamath, Steinke 2020, corollary 17), and so is the sum of shares.
        Hsu, Kakade, Zhang (2012), theorem 1, with A = I: its squared length exceeds
        sigma^2 (d + 2 sqrt(d t) + 2 t) with a chance of at most exp(-t).

        Examples
        --------
        >>> agreed = SiteSumProtection(
        ...     clip_norm=0.5, sigma=0.02, min_survivors=4, n_values=2)
        >>> [round(agreed.longest_sum(10, n, chance=1e-9), 3) for n in (4, 16)]
        [5.15, 5.3]
        """
        t = math.log(1 / chance)
        squared = self.n_values + 2 * math.sqrt(self.n_values * t) + 2 * t
        return n_users * self.clip_norm + self.share_sigma * math.sqrt(n_sites * squared)

    def protected_sum(self, updates: NDArray[np.float32], source: NoiseSource) -> NDArray[np.int64]:
        """Return what one site hands to secure aggregation, from a row a user."""
        if updates.ndim != 2 or updates.shape[1] != self.n_values:
            raise DataError(f"updates are users x {self.n_values} numbers", where="updates")
        total = self.shares.draw_share(self.n_values, source)
        for update in updates:
            short = clipped(update, self.clip_norm).astype(np.float64)
            total += np.trunc(np.ldexp(short, self.scale_bits)).astype(np.int64)
        return total
