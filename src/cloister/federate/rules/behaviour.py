"""How clients behave over many rounds: who pushes elsewhere than the others, again and again.

In one round the updates of honest clients differ by chance, and an attacker hides among them. Over
many rounds chance averages out and a purpose does not. So each client's direction, less the mean
direction of the round, is added up, in twelve parts that take its turns one after the other.
If clients are alike, those who share a part could be shuffled without anybody noticing
(:func:`cloister.federate.client_groups.distance_from_chance`); if some push elsewhere, the same
clients stand out in every part, and the parts' common direction tells who.

Directions have length 1: an attacker's vote does not grow with the length of its update.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.federate.client_groups import N_PARTS, distance_from_chance

__all__ = ["Behaviour", "Finding"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_CLIENTS: Final = 3  # of two, nobody can say who is wrong
FEW_CLIENTS: Final = 100


class Finding(NamedTuple):
    """What a test of all clients has found.

    Parameters
    ----------
    judged
        Clients that were seen often enough.
    suspects
        Those of them who push elsewhere than the larger part of the others.
    certainty
        How much more clients differ than chance explains, in standard deviations.
    is_clear
        Whether those who are left agree with each other. If not, too many push elsewhere to say
        who is right.
    """

    judged: Ints
    suspects: Ints
    certainty: float
    is_clear: bool


class Behaviour:
    """What is special to each client, added up over its turns.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> behaviour = Behaviour()
    >>> for _ in range(60):
    ...     updates = rng.standard_normal((10, 20))
    ...     updates[7:] -= 0.5  # three push elsewhere
    ...     behaviour.observe(np.arange(10), updates, np.ones(10, bool))
    >>> behaviour.find(certainty=5.0).suspects
    array([7, 8, 9])
    """

    def __init__(self) -> None:
        self._sums = np.zeros((0, N_PARTS, 0))
        self._turns = np.zeros(0, np.int64)

    def copy(self) -> Behaviour:
        """Return the same, to go on by itself."""
        twin = Behaviour()
        twin._sums, twin._turns = self._sums.copy(), self._turns.copy()
        return twin

    def observe(self, clients: Ints, updates: Floats, trusted: NDArray[np.bool_]) -> None:
        """Take in one round; ``trusted`` says whose mean direction the others are compared with."""
        self._make_room(int(clients.max()) + 1, updates.shape[1])
        _add_directions(self._sums, self._turns, clients, updates, trusted)

    def _make_room(self, n_clients: int, n_parameters: int) -> None:
        known = len(self._turns)
        if n_clients > known:
            sums = np.zeros((n_clients, N_PARTS, n_parameters))
            sums[:known] = self._sums.reshape(known, N_PARTS, -1) if known else 0.0
            self._sums = sums
            self._turns = np.concatenate((self._turns, np.zeros(n_clients - known, np.int64)))

    @property
    def usual_turns(self) -> int:
        """How many turns the middle one of those clients has had who had any."""
        turns = self._turns[self._turns > 0]
        return int(np.median(turns)) if len(turns) else 0

    def begin_anew(self) -> None:
        """Forget all turns."""
        self._sums[:] = 0.0
        self._turns[:] = 0

    def find(self, *, certainty: float) -> Finding:
        """Say who pushes elsewhere than the others.

        As long as clients differ by more than ``certainty`` standard deviations, they are divided
        in two, and the smaller side is suspected; but never half of all or more.
        """
        judged = np.flatnonzero(self._turns >= N_PARTS)
        parts = self._means(judged)
        remaining = np.arange(len(judged))
        most = (len(judged) - 1) // 2
        first: float | None = None
        while len(remaining) >= LEAST_CLIENTS:
            found = distance_from_chance(parts[remaining])
            first = found if first is None else first
            if found <= certainty:
                return self._finding(judged, remaining, first, True)
            smaller = _smaller_side(parts[remaining])
            if len(judged) - len(remaining) + len(smaller) > most:
                return self._finding(judged, remaining, first, False)
            remaining = np.delete(remaining, smaller)
        return self._finding(judged, remaining, first or 0.0, first is None)

    def distance(self, client: int, others: Ints) -> float:
        """Return how much more a client and these others differ than chance explains.

        0 where the client, or all but one of the others, were not seen often enough to tell.
        """
        judged = others[self._seen_enough(others)]
        if not self._seen_enough(np.array([client]))[0] or len(judged) < LEAST_CLIENTS - 1:
            return 0.0
        return distance_from_chance(self._means(np.append(judged, client)))

    def _seen_enough(self, clients: Ints) -> NDArray[np.bool_]:
        known = clients < len(self._turns)
        enough: NDArray[np.bool_] = known & (self._turns[np.where(known, clients, 0)] >= N_PARTS)
        return enough

    def _means(self, clients: Ints) -> Floats:
        """Return what is special to clients, for a turn: clients x parts x parameters."""
        means: Floats = self._sums[clients] / np.maximum(self._turns[clients], 1)[:, None, None]
        return means

    def _finding(self, judged: Ints, remaining: Ints, certainty: float, is_clear: bool) -> Finding:
        return Finding(judged, np.delete(judged, remaining), certainty, is_clear)


def _smaller_side(parts: Floats) -> Ints:
    """Divide clients in two along the direction in which they differ most, part after part."""
    centred = parts - parts.mean(axis=0)
    n_clients = len(parts)
    total = centred.sum(axis=1)
    flat = centred.reshape(n_clients, -1)
    products = total @ total.T - flat @ flat.T  # of different parts: chance has no product
    side = _two_means(_first_direction(products))
    return np.flatnonzero(side if 2 * side.sum() <= n_clients else ~side)


def _first_direction(products: Floats) -> Floats:
    """Return the eigenvector of the largest eigenvalue of a symmetric matrix."""
    if len(products) <= FEW_CLIENTS:
        return np.asarray(np.linalg.eigh(products)[1][:, -1])
    from scipy.sparse.linalg import eigsh  # finds one of many in a fraction of the time

    start = products[:, int(np.argmax(np.diag(products)))]
    _, vectors = eigsh(products, k=1, which="LA", v0=start)
    return np.asarray(vectors[:, 0])


def _two_means(places: Floats) -> NDArray[np.bool_]:
    """Divide points of a line where their squared distances from two means add up to the least."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    n = len(ordered)
    counts = np.arange(1, n)
    left = np.cumsum(ordered)[:-1]
    right = ordered.sum() - left
    cut = int(np.argmax(left**2 / counts + right**2 / (n - counts))) + 1
    upper = np.zeros(n, np.bool_)
    upper[order[cut:]] = True
    return upper


@kernel
def _add_directions(
    sums: Floats, turns: Ints, clients: Ints, updates: Floats, trusted: NDArray[np.bool_]
) -> None:
    """Add each row's direction, less the mean direction of the trusted rows, to its part."""
    n, width = updates.shape
    directions = np.empty((n, width))
    mean = np.zeros(width)
    n_trusted = 0
    for i in range(n):
        square = 0.0
        for j in range(width):
            square += updates[i, j] * updates[i, j]
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for j in range(width):
            directions[i, j] = updates[i, j] * scale
        if trusted[i]:
            n_trusted += 1
            for j in range(width):
                mean[j] += directions[i, j]
    for j in range(width):
        mean[j] /= max(n_trusted, 1)
    for i in range(n):
        part = turns[clients[i]] % sums.shape[1]
        turns[clients[i]] += 1
        for j in range(width):
            sums[clients[i], part, j] += directions[i, j] - mean[j]
