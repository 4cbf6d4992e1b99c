"""Click inference: which documents of a page a client clicked, read off what it sends.

PDGD moves a ranker by a weighted sum of the shown documents' score gradients. Clicked documents
have positive weights, the others negative ones or none. Whoever knows the documents and sees the
update can solve for the weights.

What each attack needs, beside the update and the global ranker:

- *higher score*, *higher probability*, *higher distance count* (report section 4.1): the set of
  documents shown, in any order. They see the client's ranker through its scores only.
- *least squares* (report section 4.1): the same set. Where fewer numbers are seen than documents
  were shown, it is the shortest of all solutions (minimum norm).
- *least squares, clipping known* (:mod:`cloister.adversary.click_clipped_squares`): the same set.
- *least absolute deviations* (:mod:`cloister.adversary.click_least_absolute`): the same set. It
  tolerates noise in a few coordinates, and clients that clip their whole ranker.
- *sparse* (:mod:`cloister.adversary.click_sparse`): all candidates, and not which were shown.
- *prior and update* (:mod:`cloister.adversary.click_best_linear`): the set, the click model, and a
  belief in each document's relevance; with the order of the page the belief is sharper. It
  tolerates sums over many pages, and noise of a known size.

All take stacks: one observation a row, ``rows`` observations x documents x parameters.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ROUNDING",
    "SURE",
    "Guess",
    "guess_random",
    "higher_distance_count",
    "higher_probability",
    "higher_score",
    "least_squares",
    "pseudoinverse",
    "without_rounding",
]

Floats = NDArray[np.float64]

ROUNDING: Final = 2.0**-24  # half a unit in the last place of single precision, relative
SMALLEST: Final = 1e-6  # singular values below so much of the largest are rounding
SURE: Final = 4.0  # standard errors of rounding above which a weight is called positive
KEPT_BITS: Final = 24  # of the largest weight: what single precision can tell
MAJORITY: Final = 5  # report section 4.1: of the nine other documents


class Guess(NamedTuple):
    """What an attack says: the higher a document's value, the likelier its click.

    Parameters
    ----------
    values
        Observations x documents.
    clicked
        The documents that it calls clicked.
    """

    values: Floats
    clicked: NDArray[np.bool_]


def higher_score(before: Floats, after: Floats) -> Guess:
    """Guess the documents whose score has risen.

    Parameters
    ----------
    before, after
        Pages x documents: scores by the global ranker, and by the client's.

    Examples
    --------
    >>> higher_score(np.array([[1.0, 1.0]]), np.array([[1.5, 0.5]])).clicked
    array([[ True, False]])
    """
    rise = after - before
    return Guess(rise, rise > 0)


def higher_probability(before: Floats, after: Floats) -> Guess:
    """Guess the documents whose chance to come first, among those shown, has risen.

    Examples
    --------
    >>> higher_probability(np.array([[1.0, 1.0]]), np.array([[1.5, 1.4]])).clicked
    array([[ True, False]])
    """
    rise = _softmax(after) - _softmax(before)
    return Guess(rise, rise > 0)


def higher_distance_count(before: Floats, after: Floats) -> Guess:
    """Guess the documents that gained on more than five of the others.

    Examples
    --------
    >>> gained = np.zeros((1, 10))
    >>> gained[0, 3] = 1.0
    >>> higher_distance_count(np.zeros((1, 10)), gained).values[0].astype(int).tolist()
    [0, 0, 0, 9, 0, 0, 0, 0, 0, 0]
    """
    now = after[..., :, None] - after[..., None, :]
    then = before[..., :, None] - before[..., None, :]
    count = (now > then).sum(axis=-1)
    return Guess(count.astype(np.float64), count > MAJORITY)


def least_squares(rows: Floats, updates: Floats, parameters: Floats | None = None) -> Guess:
    """Solve for the weights of documents in an update, and guess those that are positive.

    Parameters
    ----------
    rows
        Observations x documents x parameters: each document's score gradient.
    updates
        Observations x parameters.
    parameters
        Of the global ranker: given, weights are called positive only above what the rounding of a
        client's parameters to single precision explains. Else above 0, as in the report.

    Examples
    --------
    >>> rows = np.array([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])
    >>> least_squares(rows, np.array([[0.5, -0.5, 0.0]])).values.round(6)
    array([[ 0.5, -0.5]])
    """
    inverse = pseudoinverse(rows)
    weights = np.einsum("opd,op->od", inverse, updates)
    settled = without_rounding(weights)
    if parameters is None:
        return Guess(settled, settled > 0)
    unit = ROUNDING * float(np.abs(parameters).max(initial=0.0))
    return Guess(settled, weights > SURE * unit * np.sqrt((inverse**2).sum(axis=1)))


def without_rounding(weights: Floats) -> Floats:
    """Return weights of observations without the digits that rounding made up.

    Documents that are alike have equal weights; the order in which a processor adds things up must
    not put one before the other.

    Examples
    --------
    >>> without_rounding(np.array([[0.1 + 0.2, 0.3, 1e-17]])).tolist()
    [[0.3..., 0.3..., 0.0]]
    """
    largest = np.abs(weights).max(axis=-1, keepdims=True, initial=0.0)
    unit = 2.0 ** (np.ceil(np.log2(np.maximum(largest, 1e-300))) - KEPT_BITS)
    return np.asarray(np.round(weights / unit) * unit)


def pseudoinverse(rows: Floats) -> Floats:
    """Return the pseudoinverse of each observation's rows, parameters x documents.

    With many more documents than parameters it comes from the small products of columns.

    Examples
    --------
    >>> pseudoinverse(np.array([[[2.0, 0.0]]])).tolist()
    [[[0.5], [0.0]]]
    """
    if rows.shape[1] <= 4 * rows.shape[2]:
        return np.asarray(np.linalg.pinv(rows, rcond=SMALLEST), np.float64)
    columns = rows.transpose(0, 2, 1)
    products = np.linalg.pinv(columns @ rows, rcond=SMALLEST**2, hermitian=True)
    return np.asarray(products @ columns, np.float64)


def guess_random(there: NDArray[np.bool_], n_guesses: int, rng: np.random.Generator) -> Guess:
    """Guess so many documents of each page, drawn at random among those that are there.

    Examples
    --------
    >>> pages = np.ones((5, 10), bool)
    >>> guess_random(pages, 3, np.random.default_rng(1)).clicked.sum(axis=1).tolist()
    [3, 3, 3, 3, 3]
    """
    values = np.where(there, rng.random(there.shape), -1.0)
    rank = np.argsort(np.argsort(-values, axis=-1), axis=-1)
    return Guess(values, (rank < n_guesses) & there)


def _softmax(scores: Floats) -> Floats:
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
