"""Do clients want the same thing? Groups of like clients, found from what they learn.

Each client divides its queries into twelve parts and adds up what each part teaches. If all clients
want the same, what is special to a client comes from its few queries and its chance clicks: it
differs from part to part, and inside a part the clients could be shuffled without anybody
noticing. If clients differ, a client is special in the same direction part after part, and its sum
over parts is longer than sums after shuffling. How much longer is counted in standard deviations of
the shuffled sums, so nothing is assumed about the updates' distribution; clients with different
queries but the same wish pass as alike.

The direction in which all move is taken out first: how far a client comes along it depends on how
much it searches, not on what it wants.

How many groups there are is chosen by what predicts best: groups and their centres from one half of
the parts, the error on the other half.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream

__all__ = ["N_PARTS", "Folding", "Lessons", "distance_from_chance", "draw_folding", "find_groups"]

Floats = NDArray[np.float64]

N_PARTS: Final = 12  # of a client's queries; a client with fewer queries is not judged
N_STARTS: Final = 8  # of k-means; the best is kept
MOST_COORDINATES: Final = 256  # longer vectors are folded


class Folding(NamedTuple):
    """How long vectors are made shorter: each number goes to a place, with a sign."""

    place: NDArray[np.int64]
    sign: Floats
    width: int


def draw_folding(n_parameters: int, rng: np.random.Generator) -> Folding:
    """Return a random folding to 256 numbers, which nearly keeps angles; none for fewer.

    Examples
    --------
    >>> draw_folding(3, np.random.default_rng(1)).place
    array([0, 1, 2])
    >>> draw_folding(1000, np.random.default_rng(1)).width
    256
    """
    if n_parameters <= MOST_COORDINATES:
        return Folding(np.arange(n_parameters), np.ones(n_parameters), n_parameters)
    place = rng.integers(MOST_COORDINATES, size=n_parameters)
    sign = rng.choice(np.array([-1.0, 1.0]), n_parameters)
    return Folding(place, sign, MOST_COORDINATES)


class Lessons:
    """What each part of each client's queries has taught so far.

    Parameters
    ----------
    n_clients, n_parameters
        Sizes. Vectors of more than 256 numbers are folded to 256 before they are compared: each
        parameter is added to a random place with a random sign, which keeps angles within a few
        hundredths.
    width
        Numbers to keep of a vector, at least ``n_parameters``; kernels may want padding.
    seed
        Decides the folding.
    """

    def __init__(self, n_clients: int, n_parameters: int, *, width: int, seed: int) -> None:
        self.sums = np.zeros((n_clients, N_PARTS, max(width, n_parameters)), np.float32)
        self.n_rounds = np.zeros(n_clients, np.int64)
        self._n_parameters = n_parameters
        self._folding = draw_folding(n_parameters, stream(seed, "lessons"))

    def heard(self, participants: NDArray[np.int64]) -> None:
        """Count a round for those who took part in it."""
        self.n_rounds[participants] += 1

    def complete(self, clients: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which clients have learnt something from every part."""
        longest = np.abs(self.sums[clients]).max(axis=2)
        return np.asarray(longest.min(axis=1) > 0)

    def directions(self, clients: NDArray[np.int64]) -> Floats:
        """Return what is special to clients: clients x parts x coordinates.

        Every part's lesson is brought to length 1, and loses what it shares with all others.
        """
        vectors = self._folded(self.sums[clients, :, : self._n_parameters].astype(np.float64))
        lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
        vectors = vectors / np.maximum(lengths, 1e-300)
        shared = vectors.mean(axis=(0, 1))
        shared /= max(float(np.linalg.norm(shared)), 1e-300)
        return np.asarray(vectors - (vectors @ shared)[..., None] * shared)

    def forget(self, clients: NDArray[np.int64]) -> None:
        """Begin anew for some clients."""
        self.sums[clients] = 0.0
        self.n_rounds[clients] = 0

    def _folded(self, vectors: Floats) -> Floats:
        place, sign, width = self._folding
        if width == self._n_parameters:
            return vectors
        folded = np.zeros((*vectors.shape[:2], width))
        np.add.at(folded.transpose(2, 0, 1), place, (vectors * sign).transpose(2, 0, 1))
        return folded


def distance_from_chance(parts: Floats) -> float:
    """Say how much more clients differ than chance explains, in standard deviations.

    What is measured is how far each client's parts point the same way: the sum, over clients and
    over pairs of its parts, of their inner products. Chance is shuffling the clients of every part
    independently; the mean (0) and the variance of the sum under it are exact. Two clients reach
    at most the square root of the number of pairs of parts, 8.1.

    Parameters
    ----------
    parts
        Clients x parts x coordinates.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> noise = rng.standard_normal((6, 12, 20))
    >>> abs(distance_from_chance(noise)) < 4
    True
    >>> distance_from_chance(noise + 2 * rng.standard_normal((6, 1, 20))) > 10
    True
    """
    centred = (parts - parts.mean(axis=0)).transpose(1, 0, 2)
    n_clients = len(parts)
    # What parts p and q have in common is the matrix of inner products of every client's part p
    # with every client's part q. Its rows and columns add up to 0, so the sum along a random
    # permutation has the mean 0 and the variance sum of squares / (n - 1).
    total = centred.sum(axis=0)
    seen = (float((total**2).sum()) - float((centred**2).sum())) / 2
    variance = _squares_between_parts(centred) / (n_clients - 1)
    return float(seen / max(variance, 1e-300) ** 0.5)


def _squares_between_parts(centred: Floats) -> float:
    """Return the sum of the squared inner products of rows of different parts, each pair once."""
    n_parts, n_clients, width = centred.shape
    if n_clients <= width:
        rows = centred.reshape(n_parts * n_clients, width)
        squares = ((rows @ rows.T) ** 2).reshape(n_parts, n_clients, n_parts, n_clients)
        pairs = squares.sum(axis=(1, 3))
    else:  # the same as the trace of (P'P)(Q'Q), whatever the number of clients
        products = (centred.transpose(0, 2, 1) @ centred).reshape(n_parts, -1)
        pairs = products @ products.T
    return (float(pairs.sum()) - float(np.trace(pairs))) / 2


def find_groups(parts: Floats, *, most_groups: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the group of each client, by number.

    The number of groups is that which predicts one half of the parts best from the other; one
    group is among the candidates.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> wanted = np.repeat(np.eye(3, 20), 4, axis=0)[:, None]  # three groups of four clients
    >>> groups = find_groups(wanted + rng.normal(0, 0.2, (12, 8, 20)), most_groups=6, rng=rng)
    >>> len(set(groups.tolist())), len(set(groups[:4].tolist()))
    (3, 1)
    """
    centred = parts - parts.mean(axis=0)
    halves = centred[:, 0::2].mean(axis=1), centred[:, 1::2].mean(axis=1)
    errors = [
        _error(halves[0], halves[1], k, rng) + _error(halves[1], halves[0], k, rng)
        for k in range(1, min(most_groups, len(parts)) + 1)
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
