"""What a server sees of clients' updates under each protection that click inference is tried on.

- *alone*: each client's update, as FPDGD without protection sends it.
- *paper noise*: each client's clipped and noised weights, as the thesis sends them
  (:mod:`cloister.federate.paper_laplace`). The noise is one client's share of what 1,000 clients
  would add together.
- *sums*: nothing but sums of so many clients, as secure aggregation gives them, to a server that
  does not collude with any of the clients. With a clipping length and noise it is one round of
  :mod:`cloister.federate.private_fpdgd`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.federate.paper_laplace import PaperLaplaceNoise

__all__ = ["Seen", "seen_alone", "seen_in_sums", "seen_under_paper_noise"]

Floats = NDArray[np.float64]


class Seen(NamedTuple):
    """What a server sees.

    Parameters
    ----------
    updates
        Observations x parameters: what arrived less the global ranker's parameters (of a sum, the
        sum of updates).
    members
        Observations x clients: whose updates are in it.
    sigma
        Standard deviation of the noise in each coordinate.
    """

    updates: Floats
    members: NDArray[np.int64]
    sigma: float


def seen_alone(updates: Floats) -> Seen:
    """Show each client's update as it is."""
    return Seen(updates, np.arange(len(updates))[:, None], 0.0)


def seen_under_paper_noise(
    updates: Floats,
    parameters: Floats,
    noise: PaperLaplaceNoise,
    *,
    n_clients: int = 1000,
    rng: np.random.Generator,
) -> Seen:
    """Show each client's weights, clipped and with its share of noise (thesis algorithm 3).

    Parameters
    ----------
    updates, parameters
        Clients' updates, and the global ranker that they are to.
    noise
        Clipping and scale.
    n_clients
        How many shares make one Laplace variable.
    rng
        Draws the noise.
    """
    whole = parameters + updates
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    whole *= np.minimum(1.0, noise.clip_norm / np.maximum(lengths, 1e-300))
    shape, scale = 1.0 / n_clients, noise.sensitivity / noise.epsilon
    share = rng.gamma(shape, scale, whole.shape) - rng.gamma(shape, scale, whole.shape)
    sigma = scale * math.sqrt(2.0 * shape)
    return Seen(whole + share - parameters, np.arange(len(updates))[:, None], sigma)


def seen_in_sums(
    updates: Floats,
    n_clients: int,
    *,
    clip_norm: float = 0.0,
    sigma: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Seen:
    """Show sums of so many clients, in order; clients left over are not used.

    Parameters
    ----------
    updates
        Of clients.
    n_clients
        In each sum.
    clip_norm
        Longest update of a client; 0 for any.
    sigma, rng
        Standard deviation of the normal noise in each sum, and what draws it.

    Examples
    --------
    >>> seen_in_sums(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]), 2).updates.tolist()
    [[3.0], [7.0]]
    """
    n_sums = len(updates) // n_clients
    if n_sums == 0:
        raise DataError(f"{len(updates)} clients do not make a sum of {n_clients}", where="clients")
    members = np.arange(n_sums * n_clients).reshape(n_sums, n_clients)
    if clip_norm > 0:
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        updates = updates * np.minimum(1.0, clip_norm / np.maximum(lengths, 1e-300))
    sums = updates[members].sum(axis=1)
    if sigma > 0 and rng is not None:
        sums = sums + rng.normal(0.0, sigma, sums.shape)
    return Seen(sums, members, sigma)
