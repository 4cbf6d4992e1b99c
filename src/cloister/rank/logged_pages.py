"""PDGD from logged pages: drawn by the ranker that served, learnt from by another, later.

Thesis eq. 3.9 to 3.12. The weight rho of a pair answers for how the page came about, so its chances
are those of the scores that the page was drawn from. The slope of a preference is that of the
ranker that learns. Where both rankers are the same, this is `cloister.rank.pdgd`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.kernel import kernel
from cloister.rank.linear import add_linear_gradient, score_linear
from cloister.rank.mlp import add_mlp_gradient, score_mlp
from cloister.rank.pair_weights import PairRule, logged_pair_coefficients
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker, RankerShape

__all__ = ["PageRoom", "add_page_gradient", "logged_click_gradient", "new_page_room"]

Floats = NDArray[np.float32]

_NO_ROWS: Final = np.empty(0, np.int64)
_NO_UNITS: Final = np.empty(0, np.float32)


class PageRoom(NamedTuple):
    """Room to work in, for pages of so many candidates and so many documents shown."""

    scores: Floats
    rest: Floats
    masses: NDArray[np.float64]
    coefficients: Floats
    hidden: Floats
    slopes: Floats
    no_rows: NDArray[np.int64]
    no_units: Floats


def new_page_room(n_candidates: int, n_shown: int, shape: RankerShape) -> PageRoom:
    """Make room for the largest of some pages."""
    n_hidden = shape.n_hidden
    return PageRoom(
        np.empty(n_candidates, np.float32),
        np.empty(n_candidates, np.float32),
        np.empty((2, n_shown + 1)),
        np.empty(n_shown, np.float32),
        np.empty((n_candidates if n_hidden else 0, n_hidden), np.float32),
        np.empty((n_shown, n_hidden), np.float32),
        _NO_ROWS,
        _NO_UNITS,
    )


@kernel
def add_page_gradient(
    target: Floats,
    parameters: Floats,
    shape: RankerShape,
    rule: PairRule,
    features: Floats,
    drawn: Floats,
    page: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    rate: float,
    room: PageRoom,
) -> None:
    """Add ``rate`` times what one page teaches to ``target``, inside a kernel; nothing is checked.

    ``target`` may be ``parameters`` itself.

    Parameters
    ----------
    target, parameters
        What is added to, and the ranker at which the slope is taken.
    shape, rule
        The ranker's make-up; how pairs are read off the page.
    features, drawn
        Of all candidates: feature vectors, and the scores that the page was drawn from.
    page, clicked
        Places of the documents shown, best rank first, and which were clicked.
    """
    last = -1
    for p in range(len(clicked)):
        if clicked[p]:
            last = p
    if last < 0:
        return
    n = len(features)
    if shape.n_hidden == 0:
        score_linear(parameters, features, room.no_rows, 0, n, room.scores)
    else:
        score_mlp(
            parameters,
            shape.n_features,
            shape.n_hidden,
            shape.activation,
            features,
            room.no_rows,
            0,
            n,
            room.hidden,
            room.scores,
        )
    considered = logged_pair_coefficients(
        drawn,
        room.scores,
        n,
        page,
        clicked,
        last,
        rule,
        room.rest[:n],
        room.masses,
        room.coefficients,
    )
    top = page[:considered]
    coefficients = room.coefficients[:considered]
    for p in range(considered):
        coefficients[p] *= np.float32(rate)
    if shape.n_hidden == 0:
        add_linear_gradient(target, features, room.no_units, room.no_rows, 0, top, coefficients)
    else:
        add_mlp_gradient(
            target,
            parameters,
            shape.n_features,
            shape.n_hidden,
            shape.activation,
            features,
            room.no_rows,
            0,
            top,
            coefficients,
            room.hidden,
            room.slopes,
        )


def logged_click_gradient(
    ranker: Ranker,
    features: NDArray[Any],
    drawn_scores: NDArray[Any],
    page: NDArray[Any],
    clicked: NDArray[Any],
    settings: PdgdSettings | None = None,
) -> NDArray[np.float32]:
    """Return the gradient that the clicks on one logged page give to a ranker.

    Parameters
    ----------
    ranker
        The ranker that learns.
    features
        Feature vectors of all candidates of the query.
    drawn_scores
        The scores from which the page was drawn, one a candidate.
    page, clicked, settings
        As for `cloister.rank.pdgd.click_gradient`.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker.initial(RankerSettings(n_features=2))
    >>> logged_click_gradient(ranker, np.eye(2), [0.0, 0.0], [1, 0], [True, False])
    array([-0.125,  0.125], dtype=float32)
    >>> logged_click_gradient(ranker, np.eye(2), [4.0, 0.0], [1, 0], [True, False]).round(3)
    array([-0.246,  0.246], dtype=float32)
    """
    matrix = np.ascontiguousarray(features, np.float32)
    ranker.score(matrix)  # refuses feature vectors of another length
    drawn = np.ascontiguousarray(drawn_scores, np.float32)
    places, clicks = _checked_page(len(matrix), drawn, page, clicked)
    gradient = np.zeros_like(ranker.parameters)
    shape = ranker.settings.shape
    add_page_gradient(
        gradient,
        ranker.parameters,
        shape,
        (settings or PdgdSettings()).pair_rule,
        matrix,
        drawn,
        places,
        clicks,
        1.0,
        new_page_room(len(matrix), len(places), shape),
    )
    return gradient


def _checked_page(
    n: int, drawn: Floats, page: NDArray[Any], clicked: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    places, clicks = np.asarray(page), np.asarray(clicked, np.bool_)
    whole = not places.size or np.issubdtype(places.dtype, np.integer)
    places = places.astype(np.int64)
    sound = (
        whole
        and places.ndim == 1
        and places.shape == clicks.shape
        and bool(((places >= 0) & (places < n)).all())
        and len(np.unique(places)) == len(places)
    )
    if not sound:
        raise DataError(
            "a page is places of different candidates, each clicked or not", where="logged page"
        )
    if drawn.shape != (n,) or not np.isfinite(drawn).all():
        raise DataError("one finite score for each candidate", where="logged page")
    return places, clicks
