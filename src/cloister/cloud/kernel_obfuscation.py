"""Kernel values as whole levels: the logarithm to a base r, rounded up.

Private neural ranking: ``a_j = ceil(log_r K_j)`` where ``K_j > 1``, else 1. Without logarithms:
``a_j`` is the least k >= 1 with ``K_j <= r^k``. That is how it is computed, by comparing with the
powers of r, so that a value exactly at a power has that power's level, however logarithms round.

**What holds.** Whoever sees the level of a kernel value learns an interval, ``(r^(a-1), r^a]``, or
``[0, r]`` at level 1, and nothing finer. It is a deterministic bucketing and holds for ever.

**What does not.** There is no noise and hence no probability: two documents with different levels
are told apart with certainty by whoever knows both. The slides call a distance of two level vectors
"statistical" and derive a bound 1/2 + epsilon from it; `statistical_distance` computes that number,
which bounds nothing. What kernel values tell of a term frequency, levels still tell roughly: exact
matches must be masked out of every soft kernel before. Even then the sum of soft values tells how
many words were not masked (`cloister.rank.kernel_pooling`); levels blur that and do not hide it.
`TermFrequencyGuess` is the best guess that is left to whoever knows how the levels of one (term,
document) go with frequencies; it uses neither other terms nor the document's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.rank.kernel_pooling import kernel_features

__all__ = [
    "KernelObfuscation",
    "TermFrequencyGuess",
    "bayes_success",
    "levels_of",
    "statistical_distance",
]

Floats = NDArray[np.float64]
Levels = NDArray[np.uint8]

MOST_LEVELS: Final = 255  # a level is one byte; 2^255 is far above any sum of kernel values


class KernelObfuscation(Settings):
    """How soft kernel values are stored: as levels to a base, or as they are.

    Parameters
    ----------
    base
        r of the slides, which try 5 and 10. None keeps plain values: no protection.

    Examples
    --------
    >>> KernelObfuscation(base=10).stored(np.array([0.2, 1.0, 10.0, 10.1])).tolist()
    [1, 1, 1, 2]
    """

    base: float | None = Field(default=10, ge=2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a stored value: a byte, or single precision where values are plain."""
        return np.dtype(np.float32 if self.base is None else np.uint8)

    @property
    def absent(self) -> float:
        """What stands for a term of a document that is not stored, as if no word were like it."""
        return 0.0 if self.base is None else 1.0

    def stored(self, kernels: NDArray[Any]) -> NDArray[Any]:
        """Return kernel values as they are stored."""
        if self.base is None:
            return _checked(kernels).astype(np.float32)
        return levels_of(kernels, self.base)

    def features(self, stored: NDArray[Any]) -> Floats:
        """Return phi, summed over query terms, the last axis but one.

        With a base ``phi_j`` is the sum of ``a_j``, which is a logarithm already. Plain values give
        K-NRM's ``0.01 ln(max(K, 1e-10))``.

        Examples
        --------
        >>> KernelObfuscation(base=5).features(np.array([[1, 2], [3, 1]], np.uint8)).tolist()
        [4.0, 3.0]
        """
        if self.base is None:
            return kernel_features(np.moveaxis(np.asarray(stored), -2, 0))
        return np.asarray(np.asarray(stored, np.float64).sum(axis=-2))


def levels_of(kernels: NDArray[Any], base: float) -> Levels:
    """Return ceil(log_base K) where K > 1, else 1, exactly.

    Raises
    ------
    DataError
        If a value is negative, not finite, or above base^255.

    Examples
    --------
    >>> levels_of(np.array([0.0, 5.0, 25.0, 125.0, 125.1]), 5).tolist()
    [1, 1, 2, 3, 4]
    """
    values = _checked(kernels)
    powers = _powers(float(base))
    levels = np.searchsorted(powers, values, side="left") + 1
    if values.size and int(levels.max()) > MOST_LEVELS:
        raise DataError(f"a value is above {base}^{MOST_LEVELS}", where="kernels")
    return levels.astype(np.uint8)


def statistical_distance(
    first: NDArray[Any], second: NDArray[Any], *, normalise: bool = True
) -> float:
    """Return what the slides call the statistical distance of two kernel vectors.

    It is half the sum of absolute differences. A statistical distance is one of two probability
    distributions; here it is applied to two fixed vectors, as if their shares were probabilities.
    It guarantees nothing: two vectors that differ are told apart with certainty, however small this
    number is.

    Parameters
    ----------
    normalise
        Bring each vector to the sum 1 first, without which the number can exceed 1. The slides'
        formula cannot be read in this point.

    Examples
    --------
    >>> statistical_distance(np.array([1, 1, 2]), np.array([1, 1, 2]))
    0.0
    >>> statistical_distance(np.array([1, 3]), np.array([3, 1]))
    0.5
    """
    a, b = _checked(first), _checked(second)
    if a.shape != b.shape or a.ndim != 1:
        raise DataError("two vectors of one length are needed", where="statistical_distance")
    if normalise:
        if not (a.sum() > 0 and b.sum() > 0):
            raise DataError("a vector of zeros has no shares", where="statistical_distance")
        a, b = a / a.sum(), b / b.sum()
    return float(np.abs(a - b).sum() / 2)


@dataclass(frozen=True, eq=False)
class TermFrequencyGuess:
    """The Bayes-optimal guess of a term frequency from what is stored of (term, document).

    It knows a sample of (stored vector, term frequency). For each vector it guesses the frequency
    that went with it most often, the lowest of those where several did; for a vector that it has
    not seen, the commonest frequency of all. No rule that sees the vector alone is right more often
    on the sample itself. On other data a sample this size may mislead it, as it may anyone.

    Examples
    --------
    >>> levels = np.array([[1], [1], [1], [2]], np.uint8)
    >>> guess = TermFrequencyGuess.learnt(levels, np.array([0, 0, 3, 7]))
    >>> guess.guess(np.array([[1], [2], [9]], np.uint8)).tolist(), guess.success
    ([0, 7, 0], 0.75)
    """

    by_vector: dict[bytes, int]
    commonest: int
    success: float  # share of the sample on which the guess is right
    blind_success: float  # the same where no vector is seen
    width: int

    @classmethod
    def learnt(cls, stored: NDArray[Any], frequencies: NDArray[Any]) -> TermFrequencyGuess:
        """Learn how stored vectors (rows) and term frequencies go together."""
        rows, wanted = _sample(stored, frequencies)
        vectors, which = np.unique(rows, axis=0, return_inverse=True)
        pairs, n_times = np.unique(
            np.column_stack([which.reshape(-1), wanted]), axis=0, return_counts=True
        )
        # The most frequent comes first, then the lowest frequency.
        order = np.lexsort((pairs[:, 1], -n_times, pairs[:, 0]))
        first = order[np.unique(pairs[order, 0], return_index=True)[1]]
        values, n_each = np.unique(wanted, return_counts=True)
        return cls(
            {vectors[v].tobytes(): int(tf) for v, tf in pairs[first].tolist()},
            int(values[n_each.argmax()]),
            float(n_times[first].sum() / len(rows)),
            float(n_each.max() / len(rows)),
            rows.shape[1],
        )

    def guess(self, stored: NDArray[Any]) -> NDArray[np.int64]:
        """Guess the term frequency of each row."""
        rows = np.ascontiguousarray(stored, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise DataError(f"rows of {self.width} values are needed", where="stored")
        found = (self.by_vector.get((row + 0.0).tobytes(), self.commonest) for row in rows)
        return np.fromiter(found, np.int64, len(rows))


def bayes_success(stored: NDArray[Any], frequencies: NDArray[Any]) -> float:
    """Return the share of a sample that the best rule on stored vectors gets right.

    An upper bound for every attack that sees the vector of one (term, document) alone. Plain values
    are nearly all different, and then the bound is 1.

    Examples
    --------
    >>> bayes_success(np.array([[1], [1], [2]]), np.array([4, 5, 5]))
    0.6666666666666666
    """
    return TermFrequencyGuess.learnt(stored, frequencies).success


def _sample(stored: NDArray[Any], frequencies: NDArray[Any]) -> tuple[Floats, NDArray[np.int64]]:
    rows = np.ascontiguousarray(stored, np.float64) + 0.0  # -0.0 and 0.0 are one value
    wanted = np.asarray(frequencies, np.int64)
    if rows.ndim != 2 or not len(rows) or wanted.shape != (len(rows),):
        raise DataError("rows, and one frequency for each, are needed", where="TermFrequencyGuess")
    return rows, wanted


def _checked(values: NDArray[Any]) -> Floats:
    checked = np.asarray(values, np.float64)
    if not bool(np.isfinite(checked).all()) or (checked.size and float(checked.min()) < 0):
        raise DataError("kernel values are finite and at least 0", where="kernels")
    return checked


@cache
def _powers(base: float) -> Floats:
    """Return, for k = 1 to 255, the largest double that is not above base^k."""
    exact, powers = Fraction(base), []
    power = exact
    for _ in range(MOST_LEVELS):
        if power > Fraction(np.finfo(np.float64).max):
            break
        nearest = float(power)
        above = Fraction(nearest) > power
        powers.append(float(np.nextafter(nearest, 0.0)) if above else nearest)
        power *= exact
    return np.array(powers)
