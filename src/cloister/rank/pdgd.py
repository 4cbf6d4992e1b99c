"""Pairwise differentiable gradient descent: what clicks on one page say about a ranker.

A click on one document and none on another is taken as a preference. Each such pair pulls the
ranker (thesis eq. 3.9), with the weight that :mod:`cloister.rank.pair_weights` finds for it.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.rank.linear import add_linear_gradient
from cloister.rank.mlp import add_mlp_gradient, score_mlp
from cloister.rank.pair_weights import PairRule, pair_coefficients
from cloister.rank.ranker import Ranker

__all__ = ["PairRule", "PdgdSettings", "click_gradient", "pair_coefficients"]

Floats = NDArray[np.float32]

_NO_ROWS: Final = np.empty(0, np.int64)
_NO_UNITS: Final = np.empty(0, np.float32)


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
        in the original code. In federated training it counts the interactions that a client would
        have had if it had taken part in every round.
    """

    negatives: Literal["to_last_click", "whole_page"] = "to_last_click"
    rho_over: Literal["candidates", "page"] = "candidates"
    learning_rate: float = Field(default=0.1, gt=0)
    decay: float = Field(default=1.0, gt=0, le=1)

    @property
    def pair_rule(self) -> PairRule:
        """The conventions as kernels take them."""
        return PairRule(self.negatives == "to_last_click", self.rho_over == "candidates")


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
