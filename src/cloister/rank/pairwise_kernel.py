"""Arithmetic of the pairwise linear ranker; nothing is checked here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, draw_below, start_stream
from cloister.core.kernel import kernel

__all__ = ["add_all_pairs", "has_pairs", "linear_scores", "run_pass"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel
def has_pairs(labels: Integers, offsets: Integers) -> NDArray[np.bool_]:
    """Say of each query whether it has two different grades."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    for query in range(len(found)):
        for row in range(offsets[query] + 1, offsets[query + 1]):
            if labels[row] != labels[offsets[query]]:
                found[query] = True
                break
    return found


@kernel
def linear_scores(parameters: Floats, features: NDArray[Any]) -> Floats:
    """Score all rows."""
    scores = np.zeros(len(features))
    _score_rows(parameters, features, 0, len(features), scores)
    return scores


@kernel
def _score_rows(
    parameters: Floats, features: NDArray[Any], first: int, last: int, scores: Floats
) -> None:
    for row in range(first, last):
        total = 0.0
        for f in range(len(parameters)):
            total += parameters[f] * features[row, f]
        scores[row] = total


@kernel
def _logistic(margin: float) -> tuple[float, float]:
    """Return ln(1 + exp(-margin)) and how fast it falls, both without overflow."""
    small = np.exp(-abs(margin))
    if margin >= 0:
        return np.log1p(small), small / (1 + small)
    return np.log1p(small) - margin, 1 / (1 + small)


@kernel
def _add_rows(
    features: NDArray[Any], pulls: Floats, first: int, last: int, scale: float, gradient: Floats
) -> None:
    for row in range(first, last):
        pull = pulls[row - first] * scale
        if pull != 0.0:
            for f in range(len(gradient)):
                gradient[f] += pull * features[row, f]


@kernel
def add_all_pairs(
    scores: Floats,
    features: NDArray[Any],
    labels: Integers,
    weights: Floats,
    first: int,
    last: int,
    gradient: Floats,
) -> float:
    """Add the gradient of a query's mean loss over its pairs; return the loss.

    The pulls of all pairs on a document are added up before its features are touched.
    """
    pulls = np.zeros(last - first)
    loss, n_pairs = 0.0, 0
    for i in range(first, last):
        for j in range(first, last):
            if labels[i] > labels[j]:
                weight = min(weights[i], weights[j])
                part, slope = _logistic(scores[i] - scores[j])
                loss += weight * part
                pulls[i - first] -= weight * slope
                pulls[j - first] += weight * slope
                n_pairs += 1
    _add_rows(features, pulls, first, last, 1.0 / n_pairs, gradient)
    return loss / n_pairs


@kernel
def _add_sampled_pairs(
    scores: Floats,
    features: NDArray[Any],
    labels: Integers,
    weights: Floats,
    first: int,
    last: int,
    n_sampled: int,
    state: NDArray[np.uint32],
    gradient: Floats,
) -> None:
    """Add an unbiased estimate of what `add_all_pairs` adds, from pairs drawn uniformly."""
    pulls = np.zeros(last - first)
    for _ in range(n_sampled):
        i = j = 0
        while labels[first + i] == labels[first + j]:
            i = draw_below(state, last - first)
            j = draw_below(state, last - first)
        if labels[first + i] < labels[first + j]:
            i, j = j, i
        weight = min(weights[first + i], weights[first + j])
        _, slope = _logistic(scores[first + i] - scores[first + j])
        pulls[i] -= weight * slope
        pulls[j] += weight * slope
    _add_rows(features, pulls, first, last, 1.0 / n_sampled, gradient)


@kernel
def run_pass(
    parameters: Floats,
    features: NDArray[Any],
    labels: Integers,
    weights: Floats,
    offsets: Integers,
    order: Integers,
    batch_queries: int,
    n_sampled: int,
    seed: np.uint64,
    step: float,
    l2: float,
) -> None:
    """Take one step a batch of queries, in place; 0 sampled pairs means all of them."""
    gradient = np.empty_like(parameters)
    scores = np.empty(len(features))
    state = np.zeros(STREAM_WORDS, np.uint32)
    for begin in range(0, len(order), batch_queries):
        queries = order[begin : begin + batch_queries]
        gradient[:] = 0.0
        for query in queries:
            first, last = offsets[query], offsets[query + 1]
            _score_rows(parameters, features, first, last, scores)
            if n_sampled == 0:
                add_all_pairs(scores, features, labels, weights, first, last, gradient)
            else:
                start_stream(state, seed, 0, query, 0)
                _add_sampled_pairs(
                    scores, features, labels, weights, first, last, n_sampled, state, gradient
                )
        for f in range(len(parameters)):
            parameters[f] -= step * (gradient[f] / len(queries) + l2 * parameters[f])
