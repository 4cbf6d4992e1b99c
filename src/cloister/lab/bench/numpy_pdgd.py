"""PDGD as a plain NumPy loop: the peer that the simulator is measured against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.data.clicks import ClickTable
from cloister.data.ranking_data import RankingData

__all__ = ["train_by_numpy_loop"]

Floats = NDArray[np.float32]
PAGE: int = 10


def train_by_numpy_loop(
    data: RankingData,
    table: ClickTable,
    n_clients: int,
    n_queries: int,
    rate: float,
    rng: np.random.Generator,
) -> Floats:
    """Train a linear ranker for one round: clients one after the other, then their mean."""
    weights = np.zeros(data.n_features, np.float32)
    total = np.zeros(data.n_features)
    for _ in range(n_clients):
        local = weights.copy()
        for query in rng.integers(data.n_queries, size=n_queries):
            rows = data.rows(int(query))
            local += rate * _gradient(local, data.features[rows], data.labels[rows], table, rng)
        total += local
    return (total / n_clients).astype(np.float32)


def _gradient(
    weights: Floats,
    features: Floats,
    labels: NDArray[np.int8],
    table: ClickTable,
    rng: np.random.Generator,
) -> Floats:
    scores = features @ weights
    keys = scores + rng.gumbel(size=len(scores))
    page = np.argpartition(-keys, PAGE)[:PAGE]
    page = page[np.argsort(-keys[page])]
    clicked = _clicks(labels[page], table, rng)
    if not clicked.any():
        return np.zeros_like(weights)
    seen = min(int(np.flatnonzero(clicked)[-1]) + 2, PAGE)
    masses = np.exp((scores - scores.max()).astype(np.float64))
    mass = masses[page]
    tails = masses.sum() - np.concatenate(([0.0], np.cumsum(mass)[:-1]))
    coefficients = np.zeros(PAGE)
    for a in np.flatnonzero(clicked[:seen]):
        for b in np.flatnonzero(~clicked[:seen]):
            i, j = min(a, b), max(a, b)
            between = tails[i + 1 : j + 1]
            ratio = np.prod(between / (between + mass[i] - mass[j]))
            rho = ratio / (1.0 + ratio)
            weight = rho * mass[a] * mass[b] / (mass[a] + mass[b]) ** 2
            coefficients[a] += weight
            coefficients[b] -= weight
    return np.asarray(coefficients @ features[page], np.float32)


def _clicks(
    labels: NDArray[np.int8], table: ClickTable, rng: np.random.Generator
) -> NDArray[np.bool_]:
    clicked = np.zeros(len(labels), np.bool_)
    for rank, grade in enumerate(labels):
        if rng.random() < table.click[grade]:
            clicked[rank] = True
            if rng.random() < table.stop[grade]:
                break
    return clicked
