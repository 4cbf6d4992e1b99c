"""Who takes part in a round."""

from __future__ import annotations

from functools import lru_cache

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

    Two turns of a client are at least ``n_clients // n_participants`` rounds apart, and at most
    one round more.

    Examples
    --------
    >>> [len(take_turns(7, 3, seed=1, round=r)) for r in range(3)]
    [3, 3, 3]
    >>> {c for r in range(3) for c in take_turns(7, 3, seed=1, round=r).tolist()}
    {0, 1, 2, 3, 4, 5, 6}
    """
    if not 1 <= n_participants <= n_clients:
        raise SettingsError(
            f"must be 1 to {n_clients}, the number of clients (given: {n_participants})",
            where="participants",
        )
    order = _order_of_turns(n_clients, seed)
    places = (round * n_participants + np.arange(n_participants)) % n_clients
    return np.sort(order[places])


@lru_cache(maxsize=1)
def _order_of_turns(n_clients: int, seed: int) -> NDArray[np.int64]:
    """Draw the order once for all rounds: for a million clients that takes longer than a round."""
    order: NDArray[np.int64] = stream(seed, "turns").permutation(n_clients)
    order.flags.writeable = False
    return order
