"""Who takes part in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream

__all__ = ["draw_participants", "draw_poisson", "take_turns"]


def draw_participants(
    n_clients: int, n_participants: int | None, *, seed: int, round: int
) -> NDArray[np.int64]:
    """Return the numbers of the clients who take part, ascending; all of them for ``None``.

    Examples
    --------
    >>> draw_participants(3, None, seed=1, round=0)
    array([0, 1, 2])
    >>> len(draw_participants(1000, 10, seed=1, round=7))
    10
    """
    if n_participants is None or n_participants == n_clients:
        return np.arange(n_clients)
    if not 1 <= n_participants <= n_clients:
        raise SettingsError(
            f"must be 1 to {n_clients}, the number of clients (given: {n_participants})",
            where="participants",
        )
    rng = stream(seed, "participants", round)
    return np.sort(rng.choice(n_clients, n_participants, replace=False, shuffle=False))


def draw_poisson(n_clients: int, rate: float, *, seed: int, round: int) -> NDArray[np.int64]:
    """Return the clients who take part where each does so with one chance, apart from the others.

    Examples
    --------
    >>> len(draw_poisson(1000, 1.0, seed=1, round=0))
    1000
    >>> 60 < len(draw_poisson(100_000, 0.001, seed=1, round=0)) < 140
    True
    """
    if not 0 < rate <= 1:
        raise SettingsError(f"must lie in (0, 1] (given: {rate})", where="sampling rate")
    n = int(stream(seed, "sample size", round).binomial(n_clients, rate))
    if n == 0:
        return np.empty(0, np.int64)
    return draw_participants(n_clients, n, seed=seed, round=round)


def take_turns(n_clients: int, n_participants: int, *, seed: int, round: int) -> NDArray[np.int64]:
    """Return the clients whose turn it is, in an order that is drawn once and then kept.

    Two turns of a client are exactly ``n_clients // n_participants`` rounds apart. The clients
    that are left over when the others are divided never come to their turn.

    Examples
    --------
    >>> turns = [set(take_turns(7, 3, seed=1, round=r).tolist()) for r in range(4)]
    >>> turns[0] == turns[2], turns[1] == turns[3], turns[0] & turns[1]
    (True, True, set())
    """
    if not 1 <= n_participants <= n_clients:
        raise SettingsError(
            f"must be 1 to {n_clients}, the number of clients (given: {n_participants})",
            where="participants",
        )
    order = stream(seed, "turns").permutation(n_clients)
    first = round % (n_clients // n_participants) * n_participants
    return np.sort(order[first : first + n_participants])
