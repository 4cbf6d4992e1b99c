"""What a noisy cell of a one-row sketch says of a count: the posterior mean.

With one row there is no second row to compare with. What tells a true count from noise is the law
of the noise, which the release's record states, and what is likely beforehand:

- A term that occurs in a share s of all documents occurs in one of length n with the chance
  1 - (1 - s)^(n / mean length): longer documents hold more terms.
- A term that occurs does so c times with a chance in proportion to 1 / c^2 (Zipf's law of counts in
  a document).

Both use numbers of the release alone, so the estimate is post-processing. Collisions with other
terms are left out: a posterior mean is about the whole cell. The exponent was chosen by the cover
rate on NFCorpus and MS MARCO 5k, and is the same for all collections.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.privacy.releases.noisy_tables import NoisyTable
from cloister.sketch.rtk_lists import LARGEST_VALUE

__all__ = ["CountPosterior"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EXPONENT: Final = 2.0  # of the counts' law
LEAST_WEIGHT: Final = 1e-18  # of noise, beside no noise: farther values are not expected
MOST_REACH: Final = 2000  # of noise that is followed: wider noise leaves nothing to find


class CountPosterior(NamedTuple):
    """Chances of each noisy value, without the term and with it; value ``v`` is at ``v + reach``.

    Parameters
    ----------
    reach
        How far noise is followed.
    without
        The chance of a value where the term does not occur, but for a constant.
    present
        The same where it does.
    moment
        ``present`` times the mean count.

    Examples
    --------
    >>> table = NoisyTable(name="cells", family="discrete-laplace", width=1.0, n_moved=1)
    >>> posterior = CountPosterior.of(table)
    >>> values, likely = np.array([1, 1, 9]), np.array([0.01, 0.5, 0.01])
    >>> posterior.means(values, likely).round(2).tolist()
    [0.02, 0.73, 4.98]
    """

    reach: int
    without: Floats
    present: Floats
    moment: Floats

    @classmethod
    def of(cls, table: NoisyTable, most: int = LARGEST_VALUE) -> CountPosterior:
        """Return the posterior for the noise of a table, up to the value ``most``."""
        noise = _noise_weights(table)
        reach = len(noise) // 2
        counts = np.arange(most + 2 * reach + 1, dtype=np.float64)
        weights = np.zeros(len(counts))
        weights[1:] = counts[1:] ** -EXPONENT
        weights /= weights.sum()
        size = most + reach + 1  # values -reach to most
        without = np.zeros(size)
        without[: min(len(noise), size)] = noise[:size]
        return cls(
            reach,
            without,
            np.convolve(weights, noise)[:size],
            np.convolve(counts * weights, noise)[:size],
        )

    def means(self, values: Integers, likely: Floats) -> Floats:
        """Return the mean count behind each noisy value.

        Parameters
        ----------
        values
            Noisy cells, with the term's sign.
        likely
            With what chance each document holds the term, before its cell is looked at.
        """
        places = np.clip(np.asarray(values, np.int64) + self.reach, 0, len(self.without) - 1)
        held = likely * self.present[places]
        total = held + (1 - likely) * self.without[places]
        mean = likely * self.moment[places]
        return np.divide(mean, total, out=np.zeros(len(places)), where=total > 0)


def _noise_weights(table: NoisyTable) -> Floats:
    """Return the chances of noise -reach to reach, but for a constant."""
    if table.family == "discrete-laplace":
        reach = min(MOST_REACH, int(-np.log(LEAST_WEIGHT) * table.width) + 1)
        return np.exp(-np.abs(np.arange(-reach, reach + 1)) / table.width)
    reach = min(MOST_REACH, int(np.sqrt(-2 * np.log(LEAST_WEIGHT)) * table.width) + 1)
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) / table.width) ** 2)
