"""PDGD as thesis eq. 3.7 to 3.12 are printed, term by term: what the kernels must equal.

Numbers are decimals of 28 digits with exponents up to a million, so exp(score) is taken as it
stands, for scores in the thousands too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from cloister.rank.ranker import RankerSettings

Pair = tuple[int, int]  # the preferred document dk, then dl
Scores = Sequence[float]
Vector = NDArray[np.float64]


def exponential(score: float) -> Decimal:
    return Decimal(float(score)).exp()


def document_probability(d: int, documents: Iterable[int], scores: Scores) -> Decimal:
    """P(d | D), eq. 3.7."""
    return exponential(scores[d]) / sum(exponential(scores[e]) for e in documents)


def page_probability(page: Sequence[int], documents: Iterable[int], scores: Scores) -> Decimal:
    """P(R | D), eq. 3.8."""
    remaining = set(documents)
    probability = Decimal(1)
    for d in page:
        probability *= document_probability(d, remaining, scores)
        remaining.remove(d)
    return probability


def swapped(page: Sequence[int], pair: Pair) -> list[int]:
    """R*(dk, dl, R): the page with two documents swapped."""
    dk, dl = pair
    return [dl if d == dk else dk if d == dl else d for d in page]


def rho(pair: Pair, page: Sequence[int], documents: Sequence[int], scores: Scores) -> Decimal:
    """Eq. 3.12."""
    other = page_probability(swapped(page, pair), documents, scores)
    return other / (page_probability(page, documents, scores) + other)


def preference_probability(pair: Pair, scores: Scores) -> Decimal:
    """P(dk > dl), eq. 3.10."""
    e_k, e_l = (exponential(scores[d]) for d in pair)
    return e_k / (e_k + e_l)


def preferences(page: Sequence[int], clicked: Sequence[bool], negatives: str) -> list[Pair]:
    """Return each (dk, dl) with dk >c dl."""
    if not any(clicked):
        return []
    last = max(i for i, click in enumerate(clicked) if click)
    considered = len(page) if negatives == "whole_page" else last + 2
    shown = list(zip(page, clicked, strict=True))[:considered]
    return [(dk, dl) for dk, click in shown if click for dl, other in shown if not other]


def rhos(
    page: Sequence[int],
    clicked: Sequence[bool],
    scores: Scores,
    *,
    negatives: str,
    rho_over: str,
) -> dict[Pair, Decimal]:
    """Return rho of each pair of a page."""
    documents = range(len(scores)) if rho_over == "candidates" else page
    pairs = preferences(page, clicked, negatives)
    return {pair: rho(pair, page, documents, scores) for pair in pairs}


def pair_weights(rhos: dict[Pair, Decimal], scores: Scores) -> dict[Pair, Decimal]:
    """Return what stands before f'(dk) - f'(dl) in eq. 3.11, for each pair."""
    weights = {}
    for pair, value in rhos.items():
        e_k, e_l = (exponential(scores[d]) for d in pair)
        weights[pair] = value * e_k * e_l / (e_k + e_l) ** 2
    return weights


def gradient(
    weights: dict[Pair, Decimal], score_gradient: Callable[[int], Vector], size: int
) -> Vector:
    """Eq. 3.11, given the pairs' weights and f'."""
    total = np.zeros(size)
    for (dk, dl), weight in weights.items():
        total += float(weight) * (score_gradient(dk) - score_gradient(dl))
    return total


def parts(settings: RankerSettings, parameters: Vector) -> tuple[Vector, Vector, Vector]:
    """Take W, b and v of v . s(W'x + b) out of the one vector."""
    n, hidden = settings.n_features, settings.hidden
    weights, biases, output = np.split(parameters, [n * hidden, (n + 1) * hidden])
    return weights.reshape(n, hidden), biases, output


def unit_outputs(settings: RankerSettings, parameters: Vector, x: Vector) -> Vector:
    weights, biases, _ = parts(settings, parameters)
    inputs = [math.fsum([*weights[:, h] * x, biases[h]]) for h in range(settings.hidden)]
    if settings.activation == "relu":
        return np.array([max(value, 0.0) for value in inputs])
    return np.array([1 / (1 + math.exp(-value)) for value in inputs])


def score(settings: RankerSettings, parameters: Vector, x: Vector) -> float:
    """Score one document in double precision."""
    if settings.kind == "linear":
        return math.fsum(parameters * x)
    return math.fsum(parts(settings, parameters)[2] * unit_outputs(settings, parameters, x))


def score_gradient(settings: RankerSettings, parameters: Vector, x: Vector) -> Vector:
    """f'(d), by the chain rule, unit by unit."""
    if settings.kind == "linear":
        return x
    output = parts(settings, parameters)[2]
    s = unit_outputs(settings, parameters, x)
    steepness = (s > 0).astype(float) if settings.activation == "relu" else s * (1 - s)
    of_inputs = output * steepness
    return np.concatenate([np.outer(x, of_inputs).ravel(), of_inputs, s])
