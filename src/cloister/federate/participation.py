"""Who takes part in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.random import stream

__all__ = ["draw_participants"]


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
