"""How clients behave over many rounds: who pushes elsewhere than the others, again and again.

In one round the updates of honest clients differ by chance, and an attacker hides among them. Over
many rounds chance averages out and a purpose does not. So each client's push, less the mean push of
the round, is added up in twelve parts. If clients are alike, those who share a part could be
shuffled without anybody noticing (:func:`cloister.federate.client_groups.distance_from_chance`); if
some push elsewhere, the same clients stand out in every part, and the parts' common direction tells
who.

A push is what enters the model, so that nobody can be heard there and not here. Which of its turns
goes into which part is drawn by the server, and must stay its secret: a client that knew it could
let the parts of a harmful push cancel.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.core.random import stream
from cloister.federate.client_groups import N_PARTS, distance_from_chance, draw_folding
from cloister.federate.rules.gap_statistic import two_means

__all__ = ["Behaviour", "Finding"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]

LEAST_CLIENTS: Final = 3  # of two, nobody can say who is wrong
FEW_CLIENTS: Final = 100
STANDS_OUT: Final = 3.0  # standard deviations by which each suspect's parts agree, by themselves


class Finding(NamedTuple):
    """What a test of some clients has found.

    Parameters
    ----------
    suspects
        Those who push elsewhere than the larger part of the others.
    certainty
        How much more clients differ than chance explains, in standard deviations.
    is_clear
        Whether those who are left agree with each other. If not, it cannot be said who is right,
        and there are no suspects.
    """

    suspects: Ints
    certainty: float
    is_clear: bool


class Behaviour:
    """What is special to each client, added up over its turns.

    Parameters
    ----------
    seed
        Decides into which part a turn goes; the server's secret.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> behaviour = Behaviour(seed=1)
    >>> for _ in range(60):
    ...     pushes = rng.standard_normal((10, 20))
    ...     pushes[7:] -= 0.7  # three push elsewhere
    ...     behaviour.observe(np.arange(10), pushes, np.ones(10, bool))
    >>> behaviour.find(np.arange(10), certainty=5.0, least_effect=0.0).suspects
    array([7, 8, 9])
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed
        self._sums = np.zeros((0, N_PARTS, 0))
        self._turns = np.zeros(0, np.int64)
        self._orders = np.zeros((0, N_PARTS), np.int64)  # of parts, by twelve turns
        self._place = np.zeros(0, np.int64)
        self._sign = np.zeros(0)

    def copy(self) -> Behaviour:
        """Return the same, to go on by itself."""
        twin = Behaviour(seed=self._seed)
        twin._sums, twin._turns = self._sums.copy(), self._turns.copy()
        twin._orders, twin._place, twin._sign = self._orders, self._place, self._sign
        return twin

    def observe(self, clients: Ints, pushes: Floats, trusted: Truths) -> None:
        """Take in one round; ``trusted`` says with whose mean push the others are compared."""
        if not len(clients):
            return
        self._make_room(int(clients.max()) + 1, pushes.shape[1])
        blocks = int(self._turns[clients].max()) // N_PARTS + 1
        while len(self._orders) < blocks:
            order = stream(self._seed, "parts", len(self._orders)).permutation(N_PARTS)
            self._orders = np.concatenate((self._orders, order[None]))
        _add_pushes(
            self._sums,
            self._turns,
            self._orders,
            self._place,
            self._sign,
            clients,
            pushes,
            trusted,
        )

    def _make_room(self, n_clients: int, n_parameters: int) -> None:
        known = len(self._turns)
        if not len(self._place):
            folding = draw_folding(n_parameters, stream(self._seed, "folding"))
            self._place, self._sign = folding.place, folding.sign
            self._sums = np.zeros((0, N_PARTS, folding.width))
        if n_clients > known:
            room = np.zeros((max(n_clients, 2 * known) - known, *self._sums.shape[1:]))
            self._sums = np.concatenate((self._sums, room))
            self._turns = np.concatenate((self._turns, np.zeros(len(room), np.int64)))

    def turns(self, clients: Ints) -> Ints:
        """Return how many turns each of these clients has had."""
        known = clients < len(self._turns)
        found: Ints = np.zeros(len(clients), np.int64)
        found[known] = self._turns[clients[known]]
        return found

    def forget(self, clients: Ints | None = None) -> None:
        """Begin anew for some clients, or for all."""
        chosen = slice(None) if clients is None else clients[clients < len(self._turns)]
        self._sums[chosen] = 0.0
        self._turns[chosen] = 0

    def find(self, clients: Ints, *, certainty: float, least_effect: float) -> Finding:
        """Say who of some clients pushes elsewhere than the others.

        As long as clients differ by more than ``certainty`` standard deviations, they are divided
        in two, and the smaller side is suspected, if the two sides' mean pushes lie at least
        ``least_effect`` apart and each of the suspects stands out by itself; but never half of all
        or more. Clients with fewer than twelve turns are not judged.
        """
        judged = clients[self.turns(clients) >= N_PARTS]
        parts = self._means(judged)
        remaining = np.arange(len(judged))
        most = (len(judged) - 1) // 2
        first = 0.0
        while len(remaining) >= LEAST_CLIENTS:
            found = distance_from_chance(parts[remaining])
            first = first or found
            if found <= certainty:
                break
            smaller = _smaller_side(parts[remaining])
            others = np.delete(remaining, smaller)
            suspects = remaining[smaller]
            if _effect(parts[suspects], parts[others]) < least_effect:
                break
            relative = parts[suspects] - parts[others].mean(axis=0)
            suspects = suspects[_consistency(relative) > STANDS_OUT]
            if not len(suspects) or len(judged) - len(remaining) + len(suspects) > most:
                return Finding(judged[:0], first, False)
            remaining = np.setdiff1d(remaining, suspects)
        return Finding(np.delete(judged, remaining), first, True)

    def consistency(self, clients: Ints) -> Floats:
        """Return by how many standard deviations each client's own parts agree with each other."""
        return _consistency(self._means(clients))

    def _means(self, clients: Ints) -> Floats:
        """Return what is special to clients, for a turn: clients x parts x parameters."""
        turns = np.maximum(self._turns[clients], 1)[:, None, None]
        means: Floats = self._sums[clients] * (N_PARTS / turns)
        return means


def _effect(some: Floats, others: Floats) -> float:
    """Return how far apart the mean pushes of two sides are; from different parts, so no chance."""
    apart = some.mean(axis=0) - others.mean(axis=0)
    total = apart.sum(axis=0)
    n = len(apart)
    square = (float(total @ total) - float((apart**2).sum())) / (n * (n - 1))
    return float(np.sqrt(max(square, 0.0)))


def _consistency(parts: Floats) -> Floats:
    """Return the sum of inner products of each client's parts, in deviations of random signs.

    Were each part as likely to point the opposite way, the sum over pairs of parts would have the
    mean 0, and the sum of squares for its variance.
    """
    products = parts @ parts.transpose(0, 2, 1)
    upper = np.triu_indices(parts.shape[1], 1)
    pairs = products[:, upper[0], upper[1]]
    deviations = np.sqrt((pairs**2).sum(axis=1))
    return np.asarray(pairs.sum(axis=1) / np.maximum(deviations, 1e-300))


def _smaller_side(parts: Floats) -> Ints:
    """Divide clients in two along the direction in which they differ most, part after part."""
    centred = parts - parts.mean(axis=0)
    n_clients = len(parts)
    total = centred.sum(axis=1)
    flat = centred.reshape(n_clients, -1)
    products = total @ total.T - flat @ flat.T  # of different parts: chance has no product
    side = two_means(_first_direction(products)).upper
    return np.flatnonzero(side if 2 * side.sum() <= n_clients else ~side)


def _first_direction(products: Floats) -> Floats:
    """Return the eigenvector of the largest eigenvalue of a symmetric matrix."""
    if len(products) <= FEW_CLIENTS:
        return np.asarray(np.linalg.eigh(products)[1][:, -1])
    from scipy.sparse.linalg import eigsh  # finds one of many in a fraction of the time

    start = products[:, int(np.argmax(np.diag(products)))]
    _, vectors = eigsh(products, k=1, which="LA", v0=start)
    return np.asarray(vectors[:, 0])


@kernel
def _add_pushes(
    sums: Floats,
    turns: Ints,
    orders: Ints,
    place: Ints,
    sign: Floats,
    clients: Ints,
    pushes: Floats,
    trusted: Truths,
) -> None:
    """Add each row, less the mean of the trusted rows, to the part that its turn belongs to."""
    n, width = pushes.shape
    n_parts = sums.shape[1]
    mean = np.zeros(width)
    n_trusted = 0
    for i in range(n):
        if trusted[i]:
            n_trusted += 1
            for j in range(width):
                mean[j] += pushes[i, j]
    for j in range(width):
        mean[j] /= max(n_trusted, 1)
    for i in range(n):
        turn = turns[clients[i]]
        part = orders[turn // n_parts, turn % n_parts]
        turns[clients[i]] += 1
        for j in range(width):
            sums[clients[i], part, place[j]] += sign[j] * (pushes[i, j] - mean[j])
