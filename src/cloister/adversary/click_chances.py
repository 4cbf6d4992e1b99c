"""What a server may believe of clicks before it sees any update.

From how relevant each shown document is likely to be (:mod:`cloister.adversary.click_grades`) and
the click model follow the chances of all 2^k patterns of clicks on a page of k documents. Each
pattern has its weights in PDGD's update. So a page gives the chance of each click, and what the
update is expected to be: weights with their mean and covariance, and how they go with clicks.

Where the server does not know in which order documents were shown, or which of the candidates,
patterns are drawn instead of listed: an order by score, then clicks. Where it knows which documents
were shown and not in which order, this is approximate: orders are drawn by score among those shown
alone (Plackett-Luce over the page), and not, as PDGD draws them, one after the other among all
candidates, given that these were shown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.core.kernel import kernel
from cloister.data.clicks import ClickModel, ClickTable
from cloister.rank.pdgd import PairRule, PdgdSettings, pair_coefficients

__all__ = ["PageBeliefs", "all_patterns", "page_beliefs", "pattern_chances"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

N_DRAWS: Final = 1000  # patterns of a page whose order is not known
LONGEST: Final = 14  # documents of a page: 16,384 patterns


class PageBeliefs(NamedTuple):
    """What is believed of one page, or with a first axis more of several.

    Parameters
    ----------
    clicked
        Chance of a click on each document, given that there is one on the page.
    weight
        Expected weight of each document in the update, the learning rate included.
    covariance
        Of the weights.
    with_clicks
        Covariance of each click (first axis) with each weight.
    """

    clicked: Floats
    weight: Floats
    covariance: Floats
    with_clicks: Floats


def all_patterns(length: int) -> Flags:
    """Return every pattern of clicks on a page.

    Examples
    --------
    >>> all_patterns(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if not 1 <= length <= LONGEST:
        raise SettingsError(f"1 to {LONGEST} documents (given: {length})", where="page length")
    numbers = np.arange(2**length)
    patterns: Flags = (numbers[:, None] >> np.arange(length)) & 1 == 1
    return patterns


def pattern_chances(patterns: Flags, grades: Floats, table: ClickTable) -> Floats:
    """Return the chance of each pattern on one page.

    Parameters
    ----------
    patterns
        Patterns x ranks.
    grades
        Ranks x grades: the chance of each grade, independent of the other documents'.
    table
        The click model.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> table = click_model("navigational", 2).table(2)
    >>> relevant = np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> pattern_chances(all_patterns(2), relevant, table).round(4).tolist()
    [0.0025, 0.8598, 0.0475, 0.0902]
    """
    seen, left = np.ones(len(patterns)), np.zeros(len(patterns))
    for rank in range(patterns.shape[1]):
        click = table.examination[rank] * table.click
        chance = float(grades[rank] @ click)
        leaving = float(grades[rank] @ (click * table.stop))
        passing = float(grades[rank] @ ((1 - click) * table.stop)) if table.stop_at_each else 0.0
        hit = patterns[:, rank]
        left = np.where(hit, seen * leaving, left + seen * passing)
        seen = np.where(hit, seen * (chance - leaving), seen * (1 - chance - passing))
    return seen + left


def page_beliefs(
    scores: NDArray[np.float32],
    page: NDArray[np.int64],
    grades: Floats,
    click_model: ClickModel,
    settings: PdgdSettings,
    *,
    gram: Floats | None = None,
    clip_norm: float = 0.0,
    rng: np.random.Generator | None = None,
    shown: int | None = None,
) -> PageBeliefs:
    """Return what to believe of one page on which something, but not everything, was clicked.

    Parameters
    ----------
    scores
        Of all candidates, by the global ranker.
    page
        Places of the documents shown: in order, or with ``rng`` in any order.
    grades
        Documents x grades, as `GradeModel.chances` gives them.
    click_model
        How the client is taken to click.
    settings
        What a page teaches.
    gram, clip_norm
        Inner products of the documents' score gradients, and the longest update that a client
        sends; 0 for any.
    rng
        Draws orders where the server does not know it. For a page that is only a part of the
        candidates they are approximate: drawn by score among the documents of ``page`` alone.
    shown
        How many of ``page`` were truly shown, where the server does not know which; needs ``rng``.
        Orders are drawn by score, and the best so many seen.
    """
    length = len(page) if shown is None else shown
    table = click_model.table(length)
    if rng is None:
        patterns = all_patterns(len(page))
        chances = pattern_chances(patterns, grades, table)
        orders = np.broadcast_to(np.arange(len(page)), patterns.shape)
    else:
        orders, patterns = _drawn(scores[page], grades, table, rng, length)
        chances = np.ones(len(patterns))
    told = patterns.any(axis=1) & ~patterns.all(axis=1) & (chances > 0)
    if not told.any():  # by this belief there is nothing to see
        nothing = np.zeros((len(page), len(page)))
        return PageBeliefs(nothing[0], nothing[0], nothing, nothing)
    orders, patterns, chances = orders[told], patterns[told], chances[told] / chances[told].sum()
    weights = _weights(scores, page[orders], patterns, settings.pair_rule)
    weights = settings.learning_rate * _by_document(weights, orders, len(page))
    clicks = _by_document(patterns.astype(np.float64), orders, len(page))
    if gram is not None and clip_norm > 0:
        lengths = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", weights, gram, weights), 1e-300))
        weights *= np.minimum(1.0, clip_norm / lengths)[:, None]
    return _moments(clicks, weights, chances)


def _moments(clicks: Floats, weights: Floats, chances: Floats) -> PageBeliefs:
    clicked, weight = chances @ clicks, chances @ weights
    spread = (weights - weight) * chances[:, None]
    return PageBeliefs(
        clicked, weight, spread.T @ (weights - weight), (clicks - clicked).T @ spread
    )


def _by_document(values: Floats, orders: NDArray[np.int64], n_documents: int) -> Floats:
    """Return values by document, given those by rank; 0 for what is not shown."""
    by_document = np.zeros((len(values), n_documents))
    np.put_along_axis(by_document, orders, values, axis=1)
    return by_document


def _drawn(
    scores: NDArray[np.float32],
    grades: Floats,
    table: ClickTable,
    rng: np.random.Generator,
    length: int,
) -> tuple[NDArray[np.int64], Flags]:
    """Draw orders by score among these documents alone, and clicks on each of them."""
    shape = (N_DRAWS, len(scores))
    orders = np.argsort(-(scores + rng.gumbel(size=shape)), axis=1)[:, :length]
    bounds = grades.cumsum(axis=1)[:, :-1]
    relevance = (rng.random(shape)[..., None] > bounds).sum(axis=2)
    relevance = np.take_along_axis(relevance, orders, axis=1)
    clicked = np.zeros(orders.shape, np.bool_)
    there = np.ones(N_DRAWS, np.bool_)
    for rank in range(length):
        grade = relevance[:, rank]
        hit = there & (rng.random(N_DRAWS) < table.examination[rank] * table.click[grade])
        clicked[:, rank] = hit
        could_leave = there if table.stop_at_each else hit
        there = there & ~(could_leave & (rng.random(N_DRAWS) < table.stop[grade]))
    return orders, clicked


def _weights(
    scores: NDArray[np.float32], pages: NDArray[np.int64], clicked: Flags, rule: PairRule
) -> Floats:
    """Return the weights by rank of many patterns on pages of the same candidates."""
    weights = np.zeros(pages.shape, np.float32)
    _fill_weights(
        np.ascontiguousarray(scores, np.float32),
        np.ascontiguousarray(pages),
        np.ascontiguousarray(clicked),
        rule,
        weights,
    )
    return weights.astype(np.float64)


@kernel
def _fill_weights(
    scores: NDArray[np.float32],
    pages: NDArray[np.int64],
    clicked: Flags,
    rule: PairRule,
    weights: NDArray[np.float32],
) -> None:
    room = np.empty(len(scores), np.float32)
    masses = np.empty((2, pages.shape[1] + 1))
    for i in range(len(pages)):
        last = -1
        for rank in range(pages.shape[1]):
            if clicked[i, rank]:
                last = rank
        pair_coefficients(
            scores, len(scores), pages[i], clicked[i], last, rule, room, masses, weights[i]
        )
