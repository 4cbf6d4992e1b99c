"""Canary: a client's own test of whether its contribution is in a ranker, harmless to the others.

The thesis (section 6.1.4) evaluates unlearning by a client that spoils the ranker, and asks for a
test that spoils nothing. Here a client that may want to leave one day adds a small secret mark to
each of its updates: plus or minus a fixed length along some directions, the signs drawn once and
kept to itself. A ranker that its updates went into leans towards these signs. After the client is
forgotten it must not: signs that nobody used are independent of the ranker, so among fresh signs
the client's own rank anywhere with the same chance. The p-value is exact for any ranker that is
independent of the signs: one trained without the client. After FedEraser it is approximate: the
kept lengths of the others come from a training in which the mark had a part.

Which directions: those in which documents of one query differ least (`quiet_directions`). There a
mark changes scores least, so that rankings hardly change, and clicks push back least, so that it
lasts. A feature that is constant in every query is the best of them: no score depends on it. A
neural ranker has parameters enough for marks along all of them (``np.eye``).

What a small p-value shows: the ranker was made with updates that carried the mark. What a large
one shows: no trace of the *mark* is left, at the test's power; that the rest of the contribution
has gone is inferred, not shown. The test serves against negligence, not against fraud: it convinces
only where the server does not work against it. Whoever has documents' features can compute quiet
directions as the client did, and project them out of the final ranker: the mark is gone, the rest
stays, and rankings hardly change. No single update need be seen for it.
"""

from __future__ import annotations

import math
import secrets
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError, SettingsError
from cloister.core.kernel import kernel
from cloister.data.ranking_data import RankingData
from cloister.federate.tampering import Sent

__all__ = ["Mark", "Marking", "draw_mark", "marked", "presence", "quiet_directions"]

Floats = NDArray[np.float64]

N_DRAWS: Final = 9_999  # fresh signs that a test draws: p-values from 0.0001
N_DIRECTIONS: Final = 16  # signs of a mark: one draw in 65,536 is the mark itself


class Mark(NamedTuple):
    """A client's secret.

    Parameters
    ----------
    directions
        Marks x parameters: orthogonal, of length 1. They may be known.
    signs
        One for each direction, +1 or -1. They must not be.
    """

    directions: Floats
    signs: Floats

    @property
    def vector(self) -> Floats:
        """The mark as a vector of length 1."""
        total: Floats = self.signs @ self.directions
        return total / math.sqrt(len(self.signs))


def quiet_directions(data: RankingData, n: int = N_DIRECTIONS) -> Floats:
    """Return the n directions of feature space in which documents of one query differ least.

    For linear rankers, whose scores they leave nearly as they are. A client computes them from its
    own queries.

    Parameters
    ----------
    data
        The client's queries with their documents.
    n
        How many; at most the number of features.

    Examples
    --------
    >>> features = np.array([[1.0, 5.0], [2.0, 5.0], [7.0, 6.0], [9.0, 6.0]], np.float32)
    >>> data = RankingData(features, np.zeros(4, np.int8), np.array([0, 2, 4]))
    >>> np.abs(quiet_directions(data, 1))  # the second feature is constant in each query
    array([[0., 1.]])
    """
    if not 1 <= n <= data.n_features:
        raise SettingsError(
            f"1 to {data.n_features}, the number of features (given: {n})", where="directions"
        )
    scatter = _scatter(data.features.astype(np.float64), data.offsets)
    _, vectors = np.linalg.eigh(scatter)  # by eigenvalue, ascending
    return np.ascontiguousarray(vectors.T[:n])


def draw_mark(directions: Floats, *, rng: np.random.Generator | None = None) -> Mark:
    """Draw the signs of a mark.

    Parameters
    ----------
    directions
        Along which it goes; `quiet_directions` for a linear ranker, ``np.eye`` for a neural one.
    rng
        For simulations; a real client leaves it out, and the system's random source is used.
    """
    n = len(directions)
    if rng is None:
        bits = np.unpackbits(np.frombuffer(secrets.token_bytes((n + 7) // 8), np.uint8))[:n]
    else:
        bits = rng.integers(2, size=n).astype(np.uint8)
    return Mark(np.asarray(directions, np.float64), 2.0 * bits.astype(np.float64) - 1.0)


def marked(update: Floats, mark: Mark, *, size: float) -> Floats:
    """Return an update with the mark: what the client sends.

    Parameters
    ----------
    update
        What the client has learnt in a round.
    mark
        The client's, the same in every round.
    size
        Length of the mark, as a share of the update's.

    Examples
    --------
    >>> mark = Mark(np.eye(2), np.array([1.0, -1.0]))
    >>> marked(np.array([3.0, 4.0]), mark, size=np.sqrt(2) / 10)
    array([3.5, 3.5])
    """
    if not size >= 0:
        raise SettingsError(f"at least 0 (given: {size})", where="size")
    return update + size * float(np.linalg.norm(update)) * mark.vector


def presence(
    parameters: NDArray[np.floating],
    mark: Mark,
    *,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
) -> float:
    """Return the p-value of "this ranker has nothing to do with my mark".

    Each direction counts by the sign of the ranker's part in it and by the rank of that part's
    size (Wilcoxon's signed ranks): a ranker has a few large parts of its own. If the signs are
    independent of the ranker, whatever else it is, a value of at most p comes up with a chance of
    at most p; a direction in which it has no part at all counts nothing, and a ranker with none in
    any direction gives 1.

    Parameters
    ----------
    parameters
        The ranker's; or the difference of two rankers, to ask whether the mark left between them.
    mark
        The client's secret.
    rng
        Draws the fresh signs. It must not be the one that the mark came from.
    n_draws
        How many fresh marks to compare with.
    """
    vector = np.asarray(parameters, np.float64)
    if vector.shape != (mark.directions.shape[1],) or not np.isfinite(vector).all():
        raise DataError(
            f"{mark.directions.shape[1]} finite parameters are needed (given: {vector.shape})",
            where="canary",
        )
    parts = mark.directions @ vector
    weights = np.sign(parts) * _ranks(np.abs(parts))
    own = float(mark.signs @ weights)
    fresh = (2.0 * rng.integers(2, size=(n_draws, len(weights))) - 1.0) @ weights
    # Ranks are halves of whole numbers: sums are exact, and ties are ties.
    return float(1 + np.count_nonzero(fresh >= own)) / (n_draws + 1)


class Marking:
    """A simulated client that marks its updates.

    Parameters
    ----------
    client
        Its number.
    mark
        Its secret.
    size
        Length of the mark, as a share of the update's.

    Examples
    --------
    >>> mark = Mark(np.eye(2), np.array([1.0, -1.0]))
    >>> sent = Sent(np.array([[3.0, 4.0], [1.0, 1.0]]), np.array([4, 9]), np.zeros(2), 0)
    >>> Marking(4, mark, size=np.sqrt(2) / 10).tampered(sent)
    array([[3.5, 3.5],
           [1. , 1. ]])
    """

    def __init__(self, client: int, mark: Mark, *, size: float) -> None:
        self.client = client
        self.mark = mark
        self.size = size

    def tampered(self, sent: Sent) -> Floats:
        """Return what arrives: the client's update marked, the others as they are."""
        arrived = sent.updates.copy()
        for row in np.flatnonzero(sent.clients == self.client):
            arrived[row] = marked(arrived[row], self.mark, size=self.size)
        return arrived


def _ranks(values: Floats) -> Floats:
    """Return ranks from 1, the mean of those that are equal; 0 for 0."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2.0)[inverse]
    return np.where(values > 0, ranks, 0.0)


@kernel
def _scatter(features: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Return the sum over documents of (x - mean of its query) (x - mean of its query)'."""
    n = features.shape[1]
    scatter = np.zeros((n, n), np.float64)
    for query in range(len(offsets) - 1):
        start, stop = offsets[query], offsets[query + 1]
        mean = np.zeros(n, np.float64)
        for row in range(start, stop):
            mean += features[row]
        mean /= max(1, stop - start)
        for row in range(start, stop):
            difference = features[row] - mean
            for i in range(n):
                for j in range(n):
                    scatter[i, j] += difference[i] * difference[j]
    return scatter
