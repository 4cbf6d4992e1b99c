"""Click inference by the best linear estimate: what was believed before, corrected by what is seen.

Least squares looks for weights and knows nothing of what is likely. Here every page brings its
beliefs (:mod:`cloister.adversary.click_chances`), so that a sum over many pages, which leaves the
weights open, still moves the chance of each click as far as it can by linear means.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_chances import PageBeliefs
from cloister.adversary.click_inference import Guess

__all__ = ["guess_prior", "prior_and_update"]

Floats = NDArray[np.float64]

SMALLEST: Final = 1e-9  # noise that is always reckoned with, over the mean variance
FEWEST_DIGITS: Final = 5  # of a chance that are kept
MOST_DIGITS: Final = 12


def prior_and_update(
    beliefs: PageBeliefs, rows: Floats, update: Floats, *, sigma: float = 0.0
) -> Guess:
    """Correct what is believed of clicks by an update that is a sum over pages.

    The best linear estimate: with clicks c of belief E[c], and the update u of belief E[u], it is
    E[c] + Cov(c, u) Cov(u)^-1 (u - E[u]).

    Parameters
    ----------
    beliefs
        Of each page.
    rows
        Pages x documents x parameters.
    update
        The sum of the pages' updates, with noise.
    sigma
        Standard deviation of the noise in each of its coordinates, at least; where documents do not
        span all parameters, more may be seen. So a neural ranker that moved several times, whose
        update is a sum of gradients only to first order, misleads it less.

    Returns
    -------
    Guess
        Pages x documents; clicked where the estimate is above one half.
    """
    n_pages, n_documents, n_parameters = rows.shape
    flat, outside = rows.reshape(-1, n_parameters), 0.0
    if len(flat) < n_parameters:  # what lies outside the documents' span is noise
        basis, corner = np.linalg.qr(flat.T)
        inside = basis.T @ update
        outside = float(((update - basis @ inside) ** 2).sum()) / (n_parameters - len(flat))
        flat, update = corner.T, inside
    rows = flat.reshape(n_pages, n_documents, -1)
    expected = np.einsum("nd,ndp->p", beliefs.weight, rows)
    spread = np.matmul(beliefs.covariance, rows)  # Cov(weights of a page, u)
    covariance = flat.T @ spread.reshape(flat.shape)
    total = float(np.trace(covariance))
    level = max(sigma**2, outside) + SMALLEST * total / len(covariance) + 1e-300
    surprise = np.linalg.solve(covariance + level * np.eye(len(covariance)), update - expected)
    change = np.einsum("ncd,nd->nc", beliefs.with_clicks, rows @ surprise)
    values = np.round(beliefs.clicked + change, _digits(total / level))
    return Guess(values, values > 0.5)


def _digits(condition: float) -> int:
    """Return how many digits of a solution do not depend on the order of adding up.

    Examples
    --------
    >>> _digits(1.0), _digits(1e6), _digits(1e12)
    (12, 7, 5)
    """
    known = MOST_DIGITS + 1 - math.log10(max(condition, 1.0))
    return int(min(MOST_DIGITS, max(FEWEST_DIGITS, known)))


def guess_prior(beliefs: PageBeliefs) -> Guess:
    """Return the best guess from rank, score and click model: no update is seen.

    Examples
    --------
    >>> nothing = np.zeros((2, 2))
    >>> guess_prior(PageBeliefs(np.array([0.9, 0.2]), nothing[0], nothing, nothing)).clicked
    array([ True, False])
    """
    return Guess(beliefs.clicked, beliefs.clicked > 0.5)
