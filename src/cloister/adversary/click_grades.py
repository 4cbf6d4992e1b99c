"""How relevant the documents of a page are likely to be, judged by their scores alone.

One logistic regression for each grade: the chance that a document has at least that grade, from
its score, its score beside the page's others, and its rank by score. It is fitted on pages of
queries whose grades are known, such as those that the ranker was trained on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError

__all__ = ["GradeModel", "fit_grades"]

Floats = NDArray[np.float64]

_RIDGE: Final = 1.0  # on standardised inputs: one page more or less decides nothing
_STEPS: Final = 50
_CLOSE: Final = 1e-8


class GradeModel(NamedTuple):
    """A fitted model: ``weights`` has one row for each grade from 1."""

    shift: Floats
    width: Floats
    weights: Floats

    def chances(self, scores: Floats) -> Floats:
        """Return the chance of each grade, pages x documents x grades."""
        inputs = (_inputs(scores) - self.shift) / self.width
        at_least = _logistic(inputs @ self.weights[:, 1:].T + self.weights[:, 0])
        at_least = np.minimum.accumulate(at_least, axis=-1)  # a higher grade is no more likely
        ends = np.zeros((*scores.shape, 1))
        return -np.diff(np.concatenate([ends + 1.0, at_least, ends], axis=-1), axis=-1)


def fit_grades(scores: Floats, labels: NDArray[np.int8], n_grades: int) -> GradeModel:
    """Fit the chances of grades to pages, documents in any order.

    Parameters
    ----------
    scores
        Pages x documents.
    labels
        Their grades.
    n_grades
        Number of grades of the scale.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> scores = rng.normal(size=(200, 10))
    >>> model = fit_grades(scores, (scores > 1).astype(np.int8), 2)
    >>> chances = model.chances(np.array([[2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -2.0]]))
    >>> bool(chances[0, 0, 1] > 0.9), bool(chances[0, -1, 1] < 0.1)
    (True, True)
    """
    if not len(scores) or scores.shape != labels.shape:
        raise DataError("grades are fitted to pages of scores and labels", where="fit_grades")
    inputs = _inputs(np.asarray(scores, np.float64)).reshape(-1, 4)
    shift, spread = inputs.mean(axis=0), inputs.std(axis=0)
    width = np.where(spread > 0, spread, 1.0)
    design = np.column_stack([np.ones(len(inputs)), (inputs - shift) / width])
    targets = labels.reshape(-1)
    weights = [_logistic_regression(design, targets >= grade) for grade in range(1, n_grades)]
    return GradeModel(shift, width, np.array(weights).reshape(n_grades - 1, design.shape[1]))


def _inputs(scores: Floats) -> Floats:
    """Return what the regression reads of each document."""
    order = np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1, kind="stable")
    mean = scores.mean(axis=-1, keepdims=True)
    spread = np.maximum(scores.std(axis=-1, keepdims=True), 1e-12)
    return np.stack([scores, scores - mean, (scores - mean) / spread, np.log1p(order)], axis=-1)


def _logistic_regression(design: Floats, target: NDArray[np.bool_]) -> Floats:
    """Return weights, the first for the constant, by Newton's method with a small ridge."""
    penalty = np.full(design.shape[1], _RIDGE)
    penalty[0] = 1e-3  # a grade that never occurs still has a finite weight
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = _logistic(design @ weights)
        slope = design.T @ (target - chance) - penalty * weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        weights += step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < _CLOSE:
            break
    return weights


def _logistic(x: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
