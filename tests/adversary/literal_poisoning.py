"""Poisoning attacks as the papers print them: plain loops over models, slow and literal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Rows = NDArray[np.float64]


def lie(updates: Rows, n: int, m: int) -> Rows:
    """Baruch et al., algorithm 3: mu - z sigma."""
    s = math.floor(n / 2 + 1) - m
    z = norm.ppf((n - m - s) / (n - m))
    return np.array([np.mean(column) - z * np.std(column) for column in updates.T])


def reversed_direction(models: Rows, model: Rows) -> list[float]:
    """Thesis section 5.2.3: s = -sign(mu - theta_g)."""
    mean = [math.fsum(column) / len(column) for column in models.T]
    return [float(-np.sign(mu - theta)) for mu, theta in zip(mean, model, strict=True)]


def trim_interval(values: Sequence[float], s: float, knowledge: str) -> tuple[float, float]:
    """Fang et al. section 4.3 for one parameter of the models; s is the reversed direction."""
    if knowledge == "partial":
        mu, sigma = float(np.mean(values)), float(np.std(values))
        return (mu + 3 * sigma, mu + 4 * sigma) if s == 1 else (mu - 4 * sigma, mu - 3 * sigma)
    if s == 1:
        highest = max(values)
        return (highest, 2 * highest) if highest > 0 else (highest, highest / 2)
    lowest = min(values)
    return (lowest / 2, lowest) if lowest > 0 else (2 * lowest, lowest)


def krum(models: Rows, m: int) -> int:
    """Thesis eq. 5.2: the model with the smallest sum of n - m - 2 distances."""
    n = len(models)
    scores = []
    for i in range(n):
        away = sorted(math.dist(models[i], models[j]) for j in range(n) if j != i)
        scores.append(math.fsum(away[: max(1, n - m - 2)]))
    return min(range(n), key=scores.__getitem__)


def fang_bound(benign: Rows, model: Rows, m: int) -> float:
    """Fang et al., theorem 1; benign are models, beside which stand m crafted ones."""
    n, d = len(benign) + m, benign.shape[1]
    sums = []
    for i, first in enumerate(benign):
        away = sorted(math.dist(first, second) for j, second in enumerate(benign) if j != i)
        sums.append(math.fsum(away[: n - m - 2]))
    furthest = max(math.dist(one, model) for one in benign)
    return min(sums) / ((n - 2 * m - 1) * math.sqrt(d)) + furthest / math.sqrt(d)


def fang_krum_full(honest: Rows, own: Rows, model: Rows) -> tuple[Rows, float]:
    """Fang et al. section 4.2: the crafted model, which all m attackers send, and lambda."""
    m = len(own)
    s = np.array(reversed_direction(np.concatenate((own, honest)), model))
    found = fang_bound(honest, model, m)
    while found >= 1e-5:
        crafted = model + found * s
        if krum(np.concatenate(([crafted] * m, honest)), m) < m:
            break
        found /= 2
    return model + found * s, found


def authors_search(succeeds: Callable[[float], bool], tolerance: float) -> float:
    """The search of Shejwalkar and Houmansadr's code, variable for variable."""
    lamda, lamda_fail, lamda_succ = 10.0, 10.0, 0.0
    while abs(lamda_succ - lamda) > tolerance:
        if succeeds(lamda):
            lamda_succ = lamda
            lamda = lamda + lamda_fail / 2
        else:
            lamda = lamda - lamda_fail / 2
        lamda_fail = lamda_fail / 2
    return lamda_succ


def min_max_holds(crafted: Rows, known: Rows) -> bool:
    """NDSS 2021, eq. 4: no further from any than the two furthest are from each other."""
    spread = max(math.dist(a, b) for a in known for b in known)
    return max(math.dist(crafted, one) for one in known) <= spread * (1 + 1e-12)


def min_sum_holds(crafted: Rows, known: Rows) -> bool:
    """NDSS 2021, eq. 5: squared distances sum to no more than those of any known one."""
    most = max(math.fsum(math.dist(a, b) ** 2 for b in known) for a in known)
    return math.fsum(math.dist(crafted, one) ** 2 for one in known) <= most * (1 + 1e-12)
