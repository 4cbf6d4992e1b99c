"""Aggregation rules as their formulas are written: slow, in loops.

Updates are lists of numbers in the order of arrival. Each rule also says how clear its choices
were: the smallest difference between a score that was chosen and one that was not. A tie between
single distances is exact and counts as clear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Update = tuple[float, ...]


class Outcome(NamedTuple):
    update: Update
    margin: float


def distance(a: Update, b: Update, squared: bool) -> float:
    total = math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    return total if squared else math.sqrt(total)


def scores(updates: Sequence[Update], m: int, squared: bool) -> list[float]:
    """s(i): the sum of the n - m - 2 shortest distances to others, one at least (eq. 5.2)."""
    k = min(max(1, len(updates) - m - 2), len(updates) - 1)
    return [
        math.fsum(
            sorted(distance(own, other, squared) for j, other in enumerate(updates) if j != i)[:k]
        )
        for i, own in enumerate(updates)
    ]


def mean(updates: Sequence[Update]) -> Update:
    return tuple(math.fsum(column) / len(updates) for column in zip(*updates, strict=True))


def by_score(updates: Sequence[Update], m: int, squared: bool) -> list[tuple[float, Update]]:
    return sorted(zip(scores(updates, m, squared), updates, strict=True))


def krum(updates: Sequence[Update], m: int, *, squared: bool) -> Outcome:
    ranked = by_score(updates, m, squared)
    best, chosen = ranked[0]
    exact = len(updates) - m - 2 <= 1
    others = [
        score - best
        for score, update in ranked
        if update != chosen and not (exact and score == best)
    ]
    return Outcome(ranked[0][1], min(others, default=math.inf))


def multi_krum(updates: Sequence[Update], m: int, *, squared: bool) -> Outcome:
    ranked = by_score(updates, m, squared)
    f = max(1, len(updates) - m)
    margin = ranked[f][0] - ranked[f - 1][0] if f < len(ranked) else math.inf
    return Outcome(mean([update for _, update in ranked[:f]]), margin)


def trimmed_mean(updates: Sequence[Update], m: int) -> Outcome:
    columns = [sorted(column)[m : len(updates) - m] for column in zip(*updates, strict=True)]
    return Outcome(tuple(math.fsum(column) / len(column) for column in columns), math.inf)


def middle(values: Sequence[float]) -> float:
    ordered, n = sorted(values), len(values)
    return ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def median(updates: Sequence[Update], m: int) -> Outcome:
    return Outcome(tuple(middle(column) for column in zip(*updates, strict=True)), math.inf)


def bulyan(updates: Sequence[Update], m: int, *, squared: bool) -> Outcome:
    """Select theta = n - 2m by Krum, one by one; average the beta = theta - 2m nearest medians."""
    left, chosen, margin = list(updates), [], math.inf
    theta = len(updates) - 2 * m
    while len(chosen) < theta:
        best = krum(left, m, squared=squared)
        margin = min(margin, best.margin)
        left.remove(best.update)
        chosen.append(best.update)
    result = []
    for column in zip(*chosen, strict=True):
        centre = middle(column)
        near = sorted(column, key=lambda value: (abs(value - centre), value))[: theta - 2 * m]
        result.append(math.fsum(near) / len(near))
    return Outcome(tuple(result), margin)


def norm_bounding(updates: Sequence[Update], bound: float | None, factor: float) -> Outcome:
    lengths = [math.sqrt(math.fsum(x * x for x in update)) for update in updates]
    most = factor * middle(lengths) if bound is None else bound
    short = [
        update if length <= most else tuple(x * most / length for x in update)
        for update, length in zip(updates, lengths, strict=True)
    ]
    return Outcome(mean(short), math.inf)


def bfgs_matrix(steps: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """B, pair by pair: B - B s s'B / s'Bs + y y'/ y's, from y's / s's of the newest times I."""
    d = steps.shape[1]
    if not len(steps):
        return np.zeros((d, d))
    B = np.eye(d) * (changes[-1] @ steps[-1]) / (steps[-1] @ steps[-1])
    for s, y in zip(steps, changes, strict=True):
        Bs = B @ s
        B = B - np.outer(Bs, Bs) / (s @ Bs) + np.outer(y, y) / (y @ s)
    return B


class FLDetectorScores:
    """FLDetector's scores, by client, from dicts: no decision is made here.

    Told after each round by what the model moved.
    """

    def __init__(self, n_parameters: int, window: int) -> None:
        self.window = window
        self.model = np.zeros(n_parameters)
        self.moves: list[np.ndarray] = []
        self.last: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.shares: dict[int, list[float]] = {}

    def observe(self, updates: dict[int, np.ndarray]) -> dict[int, float]:
        steps, changes = [], []
        for before, after in zip(self.moves, self.moves[1:], strict=False):
            if before @ (before - after) > 1e-8 * np.linalg.norm(before) * np.linalg.norm(
                before - after
            ):
                steps.append(before)
                changes.append(before - after)
        d = len(self.model)
        B = bfgs_matrix(
            np.reshape(steps[-self.window :], (-1, d)), np.reshape(changes[-self.window :], (-1, d))
        )
        errors = {
            client: float(
                np.linalg.norm(
                    update - (self.last[client][0] - B @ (self.model - self.last[client][1]))
                )
            )
            for client, update in updates.items()
            if client in self.last
        }
        for client, error in errors.items():
            total = math.fsum(errors.values())
            share = error * len(errors) / total if total else 1.0
            self.shares.setdefault(client, []).append(share)
        for client, update in updates.items():
            self.last[client] = (update, self.model)
        return {
            client: math.fsum(self.shares[client][-self.window :]) / self.window
            for client in updates
            if len(self.shares.get(client, ())) >= self.window
        }

    def move(self, update: np.ndarray) -> None:
        self.moves.append(update)
        self.model = self.model + update
