"""A sign test on noisy counts: whether a candidate is better, by votes known with noise only.

Each user has one vote: for the candidate, for the serving ranker, or none. If the candidate is not
better, each vote that is cast is for it with a chance of at most one half, and users vote
independently. Then wins less losses over n votes is at most a fair sum of n signs, and the noise of
all counts is added: what is known exactly is its distribution, and from that a threshold which is
exceeded with a chance of at most alpha. Nothing is approximated by a normal variable.

The number of votes is known with noise, too. One tenth of alpha goes into an upper bound of it, and
the threshold is that of the bound; by the union bound both together err with a chance of at most
alpha, if no smaller number of votes has a higher threshold. A sum of two signs more is wider, but a
sum of one sign more has other values (even, or odd) and may have a lower threshold where the noise
is small. So the higher one counts of those for the bound and for one vote less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["VoteCounts", "SignTest", "Verdict", "exceeded_with"]

_FOR_THE_NUMBER: Final = 0.1  # the part of alpha that goes into the number of votes
_EXACT: Final = 1 << 17  # signs whose distribution is worked out; more are bounded


class VoteCounts(NamedTuple):
    """Votes for the candidate, and for the ranker that serves; with noise where they have left."""

    wins: int
    losses: int


class Verdict(NamedTuple):
    """What the votes say.

    Parameters
    ----------
    better
        Whether the candidate is better, at the test's level.
    n_nodes
        Nodes that voted.
    margin
        Wins less losses, with noise.
    n_votes
        Votes, with noise.
    most_votes
        A bound that the true number of votes exceeds with a small chance only.
    threshold
        What the margin must exceed.
    """

    better: bool
    n_nodes: int
    margin: int
    n_votes: int
    most_votes: int
    threshold: int


class SignTest(Settings):
    """The test's level, and how many votes it takes.

    Parameters
    ----------
    alpha
        The largest chance with which a candidate that is not better passes.
    min_votes
        With fewer votes (by the noisy count) no candidate passes.
    epsilon
        Of each node's counts: discrete Laplace noise of scale 1 / epsilon on each.

    Examples
    --------
    >>> SignTest(epsilon=1.0).verdict([VoteCounts(40, 11), VoteCounts(35, 14)])
    Verdict(better=True, n_nodes=2, margin=50, n_votes=100, most_votes=108, threshold=18)
    """

    alpha: float = Field(default=0.05, ge=1e-6, le=0.5)
    min_votes: int = Field(default=20, ge=1)
    epsilon: float = Field(default=1.0, ge=0.01, le=100)

    def verdict(self, counts: Sequence[VoteCounts]) -> Verdict:
        """Say whether the candidate is better."""
        margin = sum(one.wins - one.losses for one in counts)
        n_votes = sum(one.wins + one.losses for one in counts)
        n_noises, scale = 2 * len(counts), 1 / self.epsilon
        slack = exceeded_with(self.alpha * _FOR_THE_NUMBER, 0, n_noises, scale)
        most_votes = max(0, n_votes + slack)
        level = self.alpha * (1 - _FOR_THE_NUMBER)
        threshold = max(
            exceeded_with(level, n, n_noises, scale) for n in (most_votes, max(0, most_votes - 1))
        )
        better = bool(counts) and n_votes >= self.min_votes and margin > threshold
        return Verdict(better, len(counts), margin, n_votes, most_votes, threshold)


@lru_cache(maxsize=256)
def exceeded_with(chance: float, n_signs: int, n_noises: int, scale: float) -> int:
    """Return the smallest t that a sum of fair signs and noise exceeds with at most this chance.

    The sum is of ``n_signs`` fair signs and ``n_noises`` discrete Laplace variables of one scale.
    Its distribution comes from its characteristic function: cos(a)^n times, for each noise with
    p = exp(-1 / scale), (1 - p)^2 / (1 - 2 p cos(a) + p^2).

    Examples
    --------
    >>> exceeded_with(0.05, 0, 0, 1.0), exceeded_with(0.05, 5, 0, 1.0)
    (0, 3)
    """
    if n_signs > _EXACT:  # Hoeffding's bound for the signs, half of the chance for each part
        of_signs = math.ceil(math.sqrt(2 * n_signs * math.log(2 / chance)))
        return of_signs + exceeded_with(chance / 2, 0, n_noises, scale)
    # Chernoff's bound at 1 / (2 scale): beyond this the noise has a chance of less than exp(-35).
    widest = math.ceil(2 * scale * (0.29 * n_noises + 36)) if n_noises else 0
    half = n_signs + widest + 1
    size = 1 << (2 * half + 1).bit_length()
    angles = 2 * np.pi * np.arange(size) / size
    p = math.exp(-1 / scale)
    one_noise = (1 - p) ** 2 / (1 - 2 * p * np.cos(angles) + p * p)
    chances = np.fft.ifft(np.cos(angles) ** n_signs * one_noise**n_noises).real
    by_value = np.concatenate([chances[-half:], chances[: half + 1]])  # from -half to half
    above = np.append(np.cumsum(by_value[::-1])[::-1][1:], 0.0)  # P(sum > value)
    return int(np.flatnonzero(above <= chance)[0]) - half
