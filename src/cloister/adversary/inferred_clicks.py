"""How well clicks were guessed: accuracy, precision, recall, area under the curve, advantage.

Means are over pages, as in the click-inference report; the area under the curve (AUC) is over all
documents together. Intervals are Student's over observations (an observation is what the server
sees of one client, or one sum), because pages of one sum are not independent. For the AUC each
observation's part is its influence on it (Obuchowski 1997, DeLong's method for clusters). Where
all observations are alike (all guessed right, say) there is no spread, and the interval has no
width: it then says nothing about observations not seen. By the rule of three up to 3 / n of those
may be otherwise.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_inference import Guess
from cloister.core.errors import DataError

__all__ = [
    "Measured",
    "Success",
    "advantage",
    "area_under_curve",
    "individual_advantage",
    "success",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CONFIDENCE: Final = 0.95


class Measured(NamedTuple):
    """A number with its interval at 95 %; no interval with fewer than two observations."""

    value: float
    low: float | None
    high: float | None
    n: int


class Success(NamedTuple):
    """How well one attack did."""

    accuracy: Measured
    precision: Measured
    recall: Measured
    auc: Measured


def success(guess: Guess, clicked: Flags) -> Success:
    """Measure a guess.

    Parameters
    ----------
    guess
        Observations x pages x documents.
    clicked
        What was clicked, of the same shape. Precision leaves out pages without a guess, and recall
        pages without a click. A value of NaN stands where there is no document.

    Examples
    --------
    >>> truth = np.array([[[True, False, False]], [[False, True, True]]])
    >>> values = np.array([[[0.9, 0.1, 0.2]], [[0.1, 0.8, 0.3]]])
    >>> found = success(Guess(values, values > 0.5), truth)
    >>> round(found.accuracy.value, 4), found.precision.value, found.recall.value, found.auc.value
    (0.8333, 1.0, 0.75, 1.0)
    """
    _check(guess, clicked)
    hits = (guess.clicked & clicked).sum(axis=2).astype(np.float64)
    return Success(
        _over_observations(_right(guess, clicked)),
        _over_observations(_share(hits, guess.clicked.sum(axis=2))),
        _over_observations(_share(hits, clicked.sum(axis=2))),
        _with_influence(*_auc_influence(guess.values, clicked)),
    )


def advantage(attack: Guess, baseline: Guess, clicked: Flags) -> dict[str, Measured]:
    """Return by how much an attack beats a baseline on the same observations: AUC and accuracy.

    Examples
    --------
    >>> truth = np.array([[[True, False]], [[False, True]]])
    >>> good = Guess(truth.astype(float), truth)
    >>> bad = Guess(np.zeros(truth.shape), np.zeros(truth.shape, bool))
    >>> advantage(good, bad, truth)["auc"].value
    0.5
    """
    _check(attack, clicked)
    _check(baseline, clicked)
    one, its = _auc_influence(attack.values, clicked)
    other, others = _auc_influence(baseline.values, clicked)
    return {
        "auc": _with_influence(one - other, its - others),
        "accuracy": _over_observations(_right(attack, clicked) - _right(baseline, clicked)),
    }


def individual_advantage(attack: Guess, baseline: Guess, clicked: Flags, others: Flags) -> Measured:
    """Return how much larger an attack's advantage is on the client than on others.

    An update also tells what is relevant on a page, and so of everybody's clicks. What is left here
    is what it tells of the one client, in AUC: nothing for a guess that never saw its update.

    Parameters
    ----------
    attack, baseline, clicked
        As for `advantage`.
    others
        Clicks of other clients on the same pages, whose updates the attack did not see.

    Examples
    --------
    >>> own = np.array([[[True, False]], [[False, True]]])
    >>> attack = Guess(own.astype(float), own)
    >>> blind = Guess(np.zeros(own.shape), np.zeros(own.shape, bool))
    >>> individual_advantage(attack, blind, own, ~own).value
    1.0
    """
    value, influence = 0.0, np.zeros(len(clicked))
    for guess, sign in ((attack, 1.0), (baseline, -1.0)):
        for truth, side in ((clicked, 1.0), (others, -1.0)):
            _check(guess, truth)
            area, its = _auc_influence(guess.values, truth)
            value, influence = value + sign * side * area, influence + sign * side * its
    return _with_influence(value, influence)


def area_under_curve(values: Floats, clicked: Flags) -> float:
    """Return the chance that a clicked document has a higher value than another; ties count half.

    Examples
    --------
    >>> area_under_curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    return _auc_influence(values.reshape(1, -1), clicked.reshape(1, -1))[0]


def _check(guess: Guess, clicked: Flags) -> None:
    if clicked.ndim != 3 or not (guess.values.shape == guess.clicked.shape == clicked.shape):
        raise DataError(
            "a guess and the clicks are observations x pages x documents", where="inferred clicks"
        )


def _right(guess: Guess, clicked: Flags) -> Floats:
    """Return the share of each page's documents that were guessed right."""
    there = ~np.isnan(guess.values)
    right = (there & (guess.clicked == clicked)).sum(axis=2).astype(np.float64)
    return _share(right, there.sum(axis=2))


def _share(hits: Floats, of: NDArray[np.int64]) -> Floats:
    shares: Floats = np.divide(hits, of, out=np.full(hits.shape, np.nan), where=of > 0)
    return shares


def _over_observations(by_page: Floats) -> Measured:
    """Return the mean over pages; each observation's influence is what its pages add to it."""
    kept = ~np.isnan(by_page)
    if not kept.any():
        return Measured(float("nan"), None, None, 0)
    mean = float(by_page[kept].mean())
    influence = np.where(kept, by_page - mean, 0.0).sum(axis=1) / kept.sum()
    return _with_influence(mean, influence[kept.any(axis=1)])


def _with_influence(value: float, influence: Floats) -> Measured:
    n = len(influence)
    if n < 2 or np.isnan(value):
        return Measured(value, None, None, n)
    from scipy.special import stdtrit  # Student's quantile, without the 1.2 s of scipy.stats

    error = float(np.sqrt((influence**2).sum() * n / (n - 1)))
    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
    return Measured(value, value - reach, value + reach, n)


def _auc_influence(values: Floats, clicked: Flags) -> tuple[float, Floats]:
    """Return the area, and each observation's influence on it."""
    n = len(values)
    there = ~np.isnan(values.reshape(-1))
    owner = np.repeat(np.arange(n), values.size // max(n, 1))[there]
    flat, hit = values.reshape(-1)[there], clicked.reshape(-1)[there]
    ups, downs = np.sort(flat[hit]), np.sort(flat[~hit])
    if not len(ups) or not len(downs):
        return float("nan"), np.zeros(n)
    below = _placement(downs, flat[hit])  # of each clicked document, the share of others below it
    above = 1.0 - _placement(ups, flat[~hit])
    area = float(below.mean())
    of_clicked = np.bincount(owner[hit], (below - area) / len(ups), minlength=n)
    of_others = np.bincount(owner[~hit], (above - area) / len(downs), minlength=n)
    return area, np.asarray(of_clicked + of_others, np.float64)


def _placement(others: Floats, values: Floats) -> Floats:
    """Return the share of sorted others below each value; ties count half."""
    lower = np.searchsorted(others, values, side="left")
    upper = np.searchsorted(others, values, side="right")
    return (lower + upper) / (2.0 * len(others))
