"""Pairwise differentiable gradient descent: what clicks on one page say about a ranker.

A click on one document and none on another is taken as a preference. Each such pair pulls the
ranker (thesis eq. 3.11), weighted against the bias of the page's order by rho (eq. 3.12): the
chance of the page with the two swapped, over that chance plus the page's own.

The two pages differ only in the positions from the upper to the lower of the pair. With the
candidates' masses ``exp(score)`` summed from the end of the page, the ratio of their chances is a
product over those positions, and no tiling of pairs, positions and documents is needed. The sums
are made anew for the swapped page, never by subtracting: nothing cancels. Where masses differ by
more than double precision bears, everything is done in logarithms.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.kernel import inline_kernel, kernel
from cloister.core.settings import Settings
from cloister.rank.linear import add_linear_gradient
from cloister.rank.mlp import add_mlp_gradient, score_mlp
from cloister.rank.plackett_luce import mass_of_rest
from cloister.rank.ranker import Ranker

__all__ = ["PairRule", "PdgdSettings", "click_gradient", "pair_coefficients"]

Floats = NDArray[np.float32]

# Log of the widest ratio of masses that is handled without logarithms.
_WIDEST: Final = 46.0
_NO_ROWS: Final = np.empty(0, np.int64)
_NO_UNITS: Final = np.empty(0, np.float32)


class PairRule(NamedTuple):
    """How pairs are read off a page, as kernels take it."""

    to_last_click: bool
    over_candidates: bool


class PdgdSettings(Settings):
    """The conventions in which published implementations of PDGD differ.

    Parameters
    ----------
    negatives
        What counts as not preferred: unclicked documents down to one place below the last click
        (thesis, original code), or all unclicked documents of the page (click-inference report).
    rho_over
        Whether rho's chances are over all candidates (thesis), or over the page only.
    learning_rate
        Of one interaction.
    decay
        What the learning rate is multiplied by after each interaction; 1 in the thesis, 0.9999977
        in the original code. In federated training it counts the interactions of a client.
    """

    negatives: Literal["to_last_click", "whole_page"] = "to_last_click"
    rho_over: Literal["candidates", "page"] = "candidates"
    learning_rate: float = Field(default=0.1, gt=0)
    decay: float = Field(default=1.0, gt=0, le=1)

    @property
    def pair_rule(self) -> PairRule:
        """The conventions as kernels take them."""
        return PairRule(self.negatives == "to_last_click", self.rho_over == "candidates")


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
    # The mass of all that is not among them, total times exp(highest), enters as one number.
    if rule.over_candidates:
        highest, total = mass_of_rest(scores, n, top, room)
    else:
        highest, total = _mass_of(scores, page[considered:])
    reference = scores[top[0]]
    lowest = reference
    for place in top:
        reference = max(reference, scores[place])
        lowest = min(lowest, scores[place])
    # Products of so many masses, each within exp(-widest) to exp(widest), stay finite and not 0.
    widest = min(_WIDEST, 650.0 / (considered + 1))
    beyond = highest + math.log(total) if total > 0.0 else -np.inf
    if lowest - reference > -widest and beyond - reference < widest:
        _by_masses(scores, top, clicked, reference, beyond, masses, coefficients)
    else:
        _by_logarithms(scores, top, clicked, beyond, masses, coefficients)
    return considered


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
    scores: Floats,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    beyond: float,
    room: NDArray[np.float64],
    coefficients: Floats,
) -> None:
    """Find the weights where masses would leave double precision."""
    score, log_tail = room[0], room[1]
    considered = len(page)
    log_tail[considered] = beyond
    for p in range(considered - 1, -1, -1):
        score[p] = np.float64(scores[page[p]])
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
            difference = score[a] - score[b]
            weight = np.float32(
                _logistic(log_ratio) * _logistic(difference) * _logistic(-difference)
            )
            coefficients[a] += weight
            coefficients[b] -= weight


def click_gradient(
    ranker: Ranker,
    features: NDArray[Any],
    page: NDArray[Any],
    clicked: NDArray[Any],
    settings: PdgdSettings | None = None,
) -> NDArray[np.float32]:
    """Return the gradient that the clicks on one page give: thesis eq. 3.9 to 3.12.

    Parameters
    ----------
    ranker
        The ranker from whose scores the page was drawn.
    features
        Feature vectors of all candidates of the query.
    page
        Places of the documents shown, best rank first.
    clicked
        Which of them were clicked.
    settings
        Which convention to follow.

    Returns
    -------
    array
        A vector as long as the ranker's parameters; adding it, times a learning rate, makes the
        preferred documents more likely to be drawn first. All zeros where nothing was clicked or
        everything was.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker.initial(RankerSettings(n_features=2))
    >>> click_gradient(ranker, np.eye(2), [1, 0], [True, False])
    array([-0.125,  0.125], dtype=float32)
    """
    rule = (settings or PdgdSettings()).pair_rule
    matrix = np.ascontiguousarray(features, np.float32)
    scores = ranker.score(matrix)
    places, clicks = _checked_page(scores, page, clicked)
    last = int(np.flatnonzero(clicks)[-1]) if clicks.any() else -1
    coefficients = np.zeros(len(places), np.float32)
    room = np.empty((2, len(places) + 1))
    considered = pair_coefficients(
        scores, len(scores), places, clicks, last, rule, np.empty_like(scores), room, coefficients
    )
    gradient = np.zeros_like(ranker.parameters)
    shape = ranker.settings.shape
    places, coefficients = places[:considered], coefficients[:considered]
    if shape.n_hidden == 0:
        add_linear_gradient(gradient, matrix, _NO_UNITS, _NO_ROWS, 0, places, coefficients)
        return gradient
    hidden = np.empty((len(matrix), shape.n_hidden), np.float32)
    score_mlp(ranker.parameters, *shape, matrix, _NO_ROWS, 0, len(matrix), hidden, scores)
    slopes = np.empty((len(places), shape.n_hidden), np.float32)
    add_mlp_gradient(
        gradient,
        ranker.parameters,
        *shape,
        matrix,
        _NO_ROWS,
        0,
        places,
        coefficients,
        hidden,
        slopes,
    )
    return gradient


def _checked_page(
    scores: Floats, page: NDArray[Any], clicked: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    places = np.asarray(page)
    if not np.issubdtype(places.dtype, np.integer) and places.size:
        raise DataError("places are whole numbers", where="click_gradient")
    places = places.astype(np.int64)
    clicks = np.asarray(clicked, np.bool_)
    sound = (
        places.ndim == 1
        and places.shape == clicks.shape
        and bool(((places >= 0) & (places < len(scores))).all())
        and len(np.unique(places)) == len(places)
    )
    if not sound:
        raise DataError(
            "a page is places of different candidates, each clicked or not", where="click_gradient"
        )
    if not np.isfinite(scores).all():
        raise DataError(
            "a score is not finite", where="click_gradient", remedy="check features and parameters"
        )
    return places, clicks
