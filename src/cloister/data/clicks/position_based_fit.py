"""The position-based model fitted to logged clicks by maximum likelihood.

The chance of a click at rank i on grade g is attraction[g] * i^-eta. Examination at rank 1 is 1 by
definition, which makes the attraction a chance and not only a ratio. In the logarithm of the
attraction and in eta the log-likelihood is concave, so there is one maximum: eta by bisection on
the slope, and for each eta the best attraction of each grade, again by bisection.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.data.clicks.likelihood import log_likelihood
from cloister.data.clicks.pages import checked_clicks, checked_pages
from cloister.data.clicks.position_based import PositionBasedModel

__all__ = ["FittedPositionBased", "fit_position_based"]

_HALVINGS: Final = 50  # of an interval of length about 1: to the precision of a double


class FittedPositionBased(NamedTuple):
    """A position-based model and how well it fits.

    The attraction is ``None`` for a grade that no page shows.
    """

    model: PositionBasedModel
    log_likelihood: float  # natural logarithm, of all pages together, under ``model``
    n_pages: int
    n_iterations: int  # values of eta tried


class _Counts(NamedTuple):
    """Documents with and without a click, grades by ranks: all that the likelihood depends on."""

    clicked: NDArray[np.float64]
    ignored: NDArray[np.float64]
    log_rank: NDArray[np.float64]


def fit_position_based(
    page_labels: NDArray[Any], clicks: NDArray[Any], n_grades: int
) -> FittedPositionBased:
    """Fit attraction by grade and eta, which is at least 0, to logged pages.

    Parameters
    ----------
    page_labels
        Grades, pages by ranks; -1 after the last document of a short page.
    clicks
        1 where a document was clicked, of the same shape.
    n_grades
        Number of relevance grades.

    Examples
    --------
    >>> from cloister.data.clicks import click_model, sample_clicks
    >>> pages = np.random.default_rng(1).integers(0, 3, (20000, 10))
    >>> fit = fit_position_based(pages, sample_clicks(click_model("pbm-1", 3), pages, seed=1), 3)
    >>> round(fit.model.eta, 1), [round(chance, 1) for chance in fit.model.attraction]
    (1.0, [0.0, 0.5, 1.0])
    """
    pages = checked_pages(page_labels, n_grades)
    clicked = checked_clicks(pages, clicks)
    if not clicked[:, 1:].any():
        raise DataError(
            "no click below the first rank, so eta is not determined",
            where="fit_position_based",
            remedy="fit to more pages",
        )
    counts = _count(pages, clicked, n_grades)
    eta, n_iterations = _best_eta(counts)
    shown = (counts.clicked + counts.ignored).sum(axis=1) > 0
    attraction = tuple(
        float(chance) if is_shown else None
        for chance, is_shown in zip(_best_attraction(counts, eta), shown, strict=True)
    )
    model = PositionBasedModel(eta=eta, attraction=attraction)
    total = float(log_likelihood(model, pages, clicked).sum())
    return FittedPositionBased(model, total, len(pages), n_iterations)


def _count(pages: NDArray[np.int8], clicked: NDArray[np.bool_], n_grades: int) -> _Counts:
    by_grade = [pages == grade for grade in range(n_grades)]
    return _Counts(
        np.array([(rows & clicked).sum(axis=0) for rows in by_grade], np.float64),
        np.array([(rows & ~clicked).sum(axis=0) for rows in by_grade], np.float64),
        np.log(np.arange(1, pages.shape[1] + 1)),
    )


def _pull(counts: _Counts, attraction: NDArray[np.float64], eta: float) -> NDArray[np.float64]:
    """Return the derivative of the log-likelihood in log(chance), grades by ranks.

    It is clicked - ignored * p / (1 - p): minus infinity where a certain click did not happen.
    """
    chance = attraction[:, None] * np.exp(-eta * counts.log_rank)
    with np.errstate(divide="ignore"):
        odds = chance / (1.0 - chance)
    loss = np.multiply(counts.ignored, odds, out=np.zeros_like(odds), where=counts.ignored > 0)
    return counts.clicked - loss


def _best_attraction(counts: _Counts, eta: float) -> NDArray[np.float64]:
    """Return the most probable attraction of each grade under a given eta."""
    n_grades = len(counts.clicked)
    certain = _pull(counts, np.ones(n_grades), eta).sum(axis=1) >= 0
    low, high = np.zeros(n_grades), np.ones(n_grades)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rises = _pull(counts, middle, eta).sum(axis=1) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    never = counts.clicked.sum(axis=1) == 0
    return np.where(never, 0.0, np.where(certain, 1.0, (low + high) / 2))


def _slope(counts: _Counts, eta: float) -> float:
    """Return the derivative in eta of the log-likelihood at the best attraction."""
    pull = _pull(counts, _best_attraction(counts, eta), eta)
    return float(-(pull[:, 1:] * counts.log_rank[1:]).sum())


def _best_eta(counts: _Counts) -> tuple[float, int]:
    """Return the most probable eta, and how many values were tried.

    There is a click below rank 1, so the likelihood falls to 0 as eta grows without end.
    """
    if _slope(counts, 0.0) <= 0:
        return 0.0, 1
    low, high, tried = 0.0, 1.0, 2
    while _slope(counts, high) > 0:
        low, high, tried = high, 2 * high, tried + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(counts, middle) > 0 else (low, middle)
    return (low + high) / 2, tried + _HALVINGS
