"""Aggregation rules: microseconds a call, by size of the round, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.federate.rules import RULES, make_rule
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["run"]

Floats = NDArray[np.float64]

SIZES: Final = ((10, 46, 3_000), (100, 136, 300), (1_000, 136, 10))  # clients, parameters, calls
SHARE: Final = 10  # one client in so many is expected to attack
N_WARM: Final = 15  # calls before the clock: kernels compiled, a detector's window full


def run(advance: Advance) -> Figures:
    """Time each rule with a tenth of the clients expected to attack, and peers on the same data."""
    figures: Figures = {}
    total = len(SIZES) * (len(RULES) + len(_PEERS))
    for n, d, n_calls in SIZES:
        updates = stream(1, "bench rules", n).normal(size=(n, d))
        n_attackers = n // SHARE
        works = {name: _call(name, updates, n_attackers) for name in RULES}
        works |= {name: _peer_call(name, updates, n_attackers) for name in _PEERS}
        for name, work in works.items():
            key = f"{name.replace('-', '_')}_{n}x{d}_us"
            figures[key] = _microseconds(work, n_calls)
            advance(len(figures), total)
    return figures


def _call(name: str, updates: Floats, n_attackers: int) -> Callable[[int], Any]:
    rule = make_rule(name, n_attackers=n_attackers, beyond="mark")
    clients = np.arange(len(updates))
    return lambda round: rule.aggregate(updates, clients, round=round)


def _peer_call(name: str, updates: Floats, n_attackers: int) -> Callable[[int], Any]:
    return lambda round: _PEERS[name](updates, n_attackers)


def _microseconds(work: Callable[[int], Any], n_calls: int) -> float:
    for round in range(N_WARM):
        work(round)
    with timed() as timing:
        for round in range(N_WARM, N_WARM + n_calls):
            work(round)
    return timing.cpu_s / n_calls * 1e6


def _numpy_krum(updates: Floats, n_attackers: int) -> Floats:
    """Find Krum from a Gram matrix, which is quick and loses digits where updates are near."""
    n = len(updates)
    squares = (updates**2).sum(axis=1)
    apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * updates @ updates.T, 0))
    scores = np.sort(apart, axis=1)[:, 1 : n - n_attackers - 1].sum(axis=1)
    chosen: Floats = updates[scores.argmin()]
    return chosen


def _numpy_median(updates: Floats, n_attackers: int) -> Floats:
    found: Floats = np.median(updates, axis=0)
    return found


def _scipy_trimmed_mean(updates: Floats, n_attackers: int) -> Floats:
    from scipy.stats import trim_mean

    found: Floats = trim_mean(updates, n_attackers / len(updates), axis=0)
    return found


_PEERS: Final[dict[str, Callable[[Floats, int], Floats]]] = {
    "peer_numpy_krum": _numpy_krum,
    "peer_numpy_median": _numpy_median,
    "peer_scipy_trimmed_mean": _scipy_trimmed_mean,
}
