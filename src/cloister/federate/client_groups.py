"""Do clients want the same thing? Groups of like clients, found from their updates alone.

Each client's updates are gathered in several blocks of rounds. If all clients are alike, then
inside a block it does not matter who sent which update: shuffling the clients of every block gives
blocks as likely as those seen. If clients differ, a client's updates point the same way block after
block, and its sum over blocks is longer than any sum after shuffling. That is a permutation test,
and it needs no assumption about the updates' distribution.

How many groups there are is chosen by what predicts best: groups and their centres from one half of
the blocks, the error on the other half.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream

__all__ = ["Directions", "distance_from_chance", "find_groups"]

Floats = NDArray[np.float64]

N_SHUFFLES: Final = 200
N_STARTS: Final = 8  # of k-means; the best is kept
MOST_COORDINATES: Final = 256  # longer updates are folded


class Directions:
    """Each client's updates, as unit vectors summed by block of rounds.

    Parameters
    ----------
    n_clients, n_parameters
        Sizes. Updates longer than 256 numbers are folded to 256: each parameter is added to a
        random place with a random sign, which keeps angles within a few hundredths.
    n_blocks
        Blocks to spread a client's updates over.
    seed
        Decides the folding.
    """

    def __init__(self, n_clients: int, n_parameters: int, *, n_blocks: int = 8, seed: int) -> None:
        width = min(n_parameters, MOST_COORDINATES)
        self.sums = np.zeros((n_clients, n_blocks, width))
        self.counts = np.zeros((n_clients, n_blocks), np.int64)
        self._seen = np.zeros(n_clients, np.int64)
        rng = stream(seed, "directions")
        self._place = rng.integers(width, size=n_parameters)
        self._sign = rng.choice(np.array([-1.0, 1.0]), n_parameters)
        self._folded = n_parameters > width

    def add(self, participants: NDArray[np.int64], updates: NDArray[np.float32]) -> None:
        """Add one round's updates; one of all zeros says nothing and is left out."""
        vectors = updates.astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        told = lengths > 0
        vectors = self._fold(vectors[told] / lengths[told, None])
        clients = participants[told]
        blocks = self._seen[clients] % self.counts.shape[1]
        self.sums[clients, blocks] += vectors
        self.counts[clients, blocks] += 1
        self._seen[clients] += 1

    def _fold(self, vectors: Floats) -> Floats:
        if not self._folded:
            return vectors
        folded = np.zeros((len(vectors), self.sums.shape[2]))
        np.add.at(folded.T, self._place, (vectors * self._sign).T)
        return folded

    def means(self, clients: NDArray[np.int64]) -> Floats:
        """Return the mean direction of clients in each block: clients x blocks x coordinates."""
        return self.sums[clients] / np.maximum(self.counts[clients], 1)[:, :, None]

    def forget(self, clients: NDArray[np.int64]) -> None:
        """Begin anew for some clients."""
        self.sums[clients] = 0.0
        self.counts[clients] = 0
        self._seen[clients] = 0

    def fewest(self, clients: NDArray[np.int64]) -> int:
        """Return the smallest number of updates that a client has in a block."""
        return int(self.counts[clients].min())


def distance_from_chance(blocks: Floats, *, rng: np.random.Generator) -> float:
    """Say how much more clients differ than chance explains, in standard deviations.

    Parameters
    ----------
    blocks
        Clients x blocks x coordinates.
    rng
        For the shuffles.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> noise = rng.standard_normal((6, 8, 20))
    >>> abs(distance_from_chance(noise, rng=rng)) < 4
    True
    >>> distance_from_chance(noise + 2 * rng.standard_normal((6, 1, 20)), rng=rng) > 10
    True
    """
    centred = blocks - blocks.mean(axis=0)
    seen = _agreement(centred)
    shuffled = np.array([_agreement(_shuffled(centred, rng)) for _ in range(N_SHUFFLES)])
    return float((seen - shuffled.mean()) / max(shuffled.std(), 1e-300))


def _agreement(centred: Floats) -> float:
    return float((centred.sum(axis=1) ** 2).sum())


def _shuffled(blocks: Floats, rng: np.random.Generator) -> Floats:
    """Shuffle the clients of each block, whole updates at a time."""
    order = rng.permuted(np.tile(np.arange(len(blocks)), (blocks.shape[1], 1)), axis=1)
    return np.stack([blocks[order[b], b] for b in range(blocks.shape[1])], axis=1)


def find_groups(blocks: Floats, *, most_groups: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the group of each client, by number.

    The number of groups is that which predicts one half of the blocks best from the other; one
    group is among the candidates.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> wanted = np.repeat(np.eye(3, 20), 4, axis=0)[:, None]  # three groups of four clients
    >>> groups = find_groups(wanted + rng.normal(0, 0.2, (12, 8, 20)), most_groups=6, rng=rng)
    >>> len(set(groups.tolist())), len(set(groups[:4].tolist()))
    (3, 1)
    """
    centred = blocks - blocks.mean(axis=0)
    halves = centred[:, 0::2].mean(axis=1), centred[:, 1::2].mean(axis=1)
    errors = [
        _error(halves[0], halves[1], k, rng) + _error(halves[1], halves[0], k, rng)
        for k in range(1, min(most_groups, len(blocks)) + 1)
    ]
    best = int(np.argmin(errors)) + 1
    return _k_means(centred.mean(axis=1), best, rng)[1]


def _error(known: Floats, unseen: Floats, k: int, rng: np.random.Generator) -> float:
    """Return the squared error of predicting the unseen half by centres of the known one."""
    centres, group = _k_means(known, k, rng)
    return float(((unseen - centres[group]) ** 2).sum())


def _k_means(points: Floats, k: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Return centres and members of the best of several starts; starts with empty groups fail."""
    from scipy.cluster.vq import ClusterError, kmeans2

    if k == 1:
        return points.mean(axis=0)[None], np.zeros(len(points), np.int64)
    if k == len(points):
        return points, np.arange(k)
    best: tuple[Floats, NDArray[np.int64]] = _k_means(points, 1, rng)
    least = np.inf
    for _ in range(N_STARTS):
        try:
            centres, group = kmeans2(points, k, minit="++", missing="raise", rng=rng, iter=30)
        except ClusterError:
            continue
        spread = float(((points - centres[group]) ** 2).sum())
        if spread < least:
            best, least = (centres, group.astype(np.int64)), spread
    return best
