"""Click inference where the server knows the candidates, but not which of them were shown.

Where a query has more candidates than the ranker has parameters, many weights explain an update.
Few documents were shown, so the solution with few weights is looked for.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_inference import Guess, without_rounding

__all__ = ["sparse"]

Floats = NDArray[np.float64]

SWEEPS: Final = 30
SMALL: Final = 1e-3  # of the largest weight: less is none


def sparse(rows: Floats, update: Floats, sweeps: int = SWEEPS) -> Guess:
    """Solve for weights of all candidates of which few are shown: few are other than 0.

    The shortest solution again and again, each candidate weighted by its last weight (FOCUSS,
    Gorodnitsky and Rao 1997).

    Parameters
    ----------
    rows
        Candidates x parameters.
    update
        One observation.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> rows = rng.normal(size=(40, 20))
    >>> found = sparse(rows, 0.5 * rows[3] - 0.5 * rows[30]).values
    >>> int(found.argmax()), int(found.argmin())
    (3, 30)
    """
    say = np.ones(len(rows))
    weights = np.zeros(len(rows))
    for _ in range(sweeps):
        weighted = rows * say[:, None]
        gram = weighted @ weighted.T if len(rows) <= rows.shape[1] else weighted.T @ weighted
        ridge = 1e-10 * np.trace(gram) / len(gram) + 1e-300
        if len(rows) <= rows.shape[1]:
            inner = np.linalg.solve(gram + ridge * np.eye(len(gram)), weighted @ update)
        else:
            inner = weighted @ np.linalg.solve(gram + ridge * np.eye(len(gram)), update)
        weights = say * inner
        say = np.sqrt(np.abs(weights) / max(float(np.abs(weights).max()), 1e-300) + 1e-6)
    bar = SMALL * float(np.abs(weights).max(initial=0.0))
    few = without_rounding(np.where(np.abs(weights) > bar, weights, 0.0))
    return Guess(few[None], (few > 0)[None])
