"""How much each pair of a clicked and an unclicked document weighs in PDGD's gradient.

A pair's weight is the slope of its preference (thesis eq. 3.11) times rho (eq. 3.12): the chance of
the page with the two swapped, over that chance plus the page's own.

The two pages differ only in the positions from the upper to the lower of the pair. With the
candidates' masses ``exp(score)`` summed from the end of the page, the ratio of their chances is a
product over those positions, and no tiling of pairs, positions and documents is needed. The sums
are made anew for the swapped page, never by subtracting: nothing cancels. Where masses differ by
more than double precision bears, everything is done in logarithms.

A page that was logged is learnt from later, by a ranker that has changed since: rho is of the
scores that the page was drawn from, as it weighs by how the page came about, and the slope is of
the ranker that learns.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel
from cloister.rank.plackett_luce import mass_of_rest

__all__ = ["PairRule", "logged_pair_coefficients", "pair_coefficients"]

Floats = NDArray[np.float32]

_LOG_LARGEST: Final = 650.0  # double precision ends near exp(709)


class PairRule(NamedTuple):
    """How pairs are read off a page, as kernels take it."""

    to_last_click: bool
    over_candidates: bool


@kernel
def pair_coefficients(
    scores: Floats,
    n: int,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    last: int,
    rule: PairRule,
    room: Floats,
    masses: NDArray[np.float64],
    coefficients: Floats,
) -> int:
    """Find each shown document's weight in the gradient, inside a kernel (eq. 3.11, 3.12).

    Parameters
    ----------
    scores, n
        Scores of the candidates, and their number.
    page
        Places of the documents shown, best rank first.
    clicked, last
        Which were clicked, and the place on the page of the last click; -1 for none.
    rule
        How pairs are read off the page.
    room, masses
        Room to work in: one number a candidate; two rows of one number more than the page.
    coefficients
        Receives the weights: the gradient is their sum over documents times each one's score
        gradient. They add up to 0.

    Returns
    -------
    int
        How many documents, from the top, can have a weight other than 0.
    """
    shown = len(page)
    considered = min(last + 2, shown) if rule.to_last_click else shown
    if last < 0:
        return 0
    for p in range(considered):
        coefficients[p] = np.float32(0.0)
    if considered < 2:
        return 0
    top = page[:considered]
    beyond = _log_mass_beyond(scores, n, page, considered, rule, room)
    reference = scores[top[0]]
    lowest = reference
    for place in top:
        reference = max(reference, scores[place])
        lowest = min(lowest, scores[place])
    # The products are of sums of masses, fewer than considered; each is within exp(-spread) to
    # exp(spread), so a product is within the range of double precision.
    spread = max(reference - lowest, beyond - reference, 0.0) + math.log(considered + 1.0)
    if (considered + 2.0) * spread < _LOG_LARGEST:
        _by_masses(scores, top, clicked, reference, beyond, masses, coefficients)
    else:
        _by_logarithms(scores, scores, top, clicked, beyond, masses, coefficients)
    return considered


@kernel
def logged_pair_coefficients(
    drawn: Floats,
    scores: Floats,
    n: int,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    last: int,
    rule: PairRule,
    room: Floats,
    masses: NDArray[np.float64],
    coefficients: Floats,
) -> int:
    """Find each shown document's weight where the page was drawn from other scores.

    Parameters
    ----------
    drawn
        Scores that the page was drawn from: rho's (eq. 3.12).
    scores
        Scores of the ranker that learns: the slope's (eq. 3.11).
    n, page, clicked, last, rule, room, masses, coefficients
        As for `pair_coefficients`.

    Returns
    -------
    int
        How many documents, from the top, can have a weight other than 0.
    """
    considered = min(last + 2, len(page)) if rule.to_last_click else len(page)
    if last < 0 or considered < 2:
        return 0
    for p in range(considered):
        coefficients[p] = np.float32(0.0)
    beyond = _log_mass_beyond(drawn, n, page, considered, rule, room)
    _by_logarithms(drawn, scores, page[:considered], clicked, beyond, masses, coefficients)
    return considered


@kernel
def _log_mass_beyond(
    scores: Floats,
    n: int,
    page: NDArray[np.int64],
    considered: int,
    rule: PairRule,
    room: Floats,
) -> float:
    """Return the logarithm of the mass of all that rho counts besides the considered documents."""
    if rule.over_candidates:
        highest, total = mass_of_rest(scores, n, page[:considered], room)
    else:
        highest, total = _mass_of(scores, page[considered:])
    return highest + math.log(total) if total > 0.0 else -np.inf


@kernel
def _mass_of(scores: Floats, places: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mass of a few candidates, as `mass_of_rest` does."""
    highest = -np.inf
    for place in places:
        highest = max(highest, np.float64(scores[place]))
    total = 0.0
    for place in places:
        total += math.exp(np.float64(scores[place]) - highest)
    return highest, total


@kernel
def _by_masses(
    scores: Floats,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    reference: np.float32,
    beyond: float,
    room: NDArray[np.float64],
    coefficients: Floats,
) -> None:
    """Find the weights from masses relative to the largest score among the pairs."""
    mass, tail = room[0], room[1]  # tail[p]: masses from place p on, and all beyond
    considered = len(page)
    tail[considered] = math.exp(beyond - np.float64(reference))
    for p in range(considered - 1, -1, -1):
        mass[p] = math.exp(np.float64(scores[page[p]]) - np.float64(reference))
        tail[p] = tail[p + 1] + mass[p]
    for a in range(considered):
        if not clicked[a]:
            continue
        for b in range(considered):
            if clicked[b]:
                continue
            i, j = min(a, b), max(a, b)
            shown, swapped = 1.0, 1.0
            tail_swapped = tail[j + 1] + mass[i]
            for p in range(j, i, -1):
                shown *= tail[p]
                swapped *= tail_swapped
                tail_swapped += mass[p - 1]
            # rho = 1 / (1 + P(R) / P(R*)); both pages have the same numerators
            both = mass[a] + mass[b]
            weight = np.float32(shown * mass[a] * mass[b] / ((shown + swapped) * both * both))
            coefficients[a] += weight
            coefficients[b] -= weight


@inline_kernel
def _log_add(a: float, b: float) -> float:
    high = max(a, b)
    if high == -np.inf:
        return high
    return high + math.log1p(math.exp(min(a, b) - high))


@inline_kernel
def _logistic(x: float) -> float:
    """Return 1 / (1 + exp(-x)) for any x."""
    return 1.0 / (1.0 + math.exp(-max(min(x, 700.0), -700.0)))


@kernel
def _by_logarithms(
    drawn: Floats,
    scores: Floats,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    beyond: float,
    room: NDArray[np.float64],
    coefficients: Floats,
) -> None:
    """Find the weights where masses would leave double precision, or are of other scores."""
    score, log_tail = room[0], room[1]
    considered = len(page)
    log_tail[considered] = beyond
    for p in range(considered - 1, -1, -1):
        score[p] = np.float64(drawn[page[p]])
        log_tail[p] = _log_add(log_tail[p + 1], score[p])
    for a in range(considered):
        if not clicked[a]:
            continue
        for b in range(considered):
            if clicked[b]:
                continue
            i, j = min(a, b), max(a, b)
            log_ratio = 0.0
            tail_swapped = _log_add(log_tail[j + 1], score[i])
            for p in range(j, i, -1):
                log_ratio += log_tail[p] - tail_swapped
                tail_swapped = _log_add(tail_swapped, score[p - 1])
            difference = np.float64(scores[page[a]]) - np.float64(scores[page[b]])
            weight = np.float32(
                _logistic(log_ratio) * _logistic(difference) * _logistic(-difference)
            )
            coefficients[a] += weight
            coefficients[b] -= weight
