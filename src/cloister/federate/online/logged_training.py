"""What the users of one site learn from their logged pages: all users in one call.

Each user copies the round's ranker and takes a step for each page, oldest first, as a simulated
client does (`cloister.federate.local_training`); only that pages were drawn by the ranker that
served when they were shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel
from cloister.federate.fedprox import pull_back
from cloister.federate.fpdgd import FpdgdSettings
from cloister.rank.logged_pages import PageRoom, add_page_gradient, new_page_room
from cloister.rank.pair_weights import PairRule
from cloister.rank.ranker import RankerSettings, RankerShape

__all__ = ["FlatPages", "LoggedPage", "flat_pages", "train_users"]

Floats = NDArray[np.float32]


class LoggedPage(NamedTuple):
    """A page with its clicks.

    Parameters
    ----------
    features, drawn
        Of all candidates: feature vectors, and the scores that the page was drawn from.
    places, clicked
        The documents shown, best rank first, and which were clicked.
    """

    features: Floats
    drawn: Floats
    places: NDArray[np.int64]
    clicked: NDArray[np.bool_]


class FlatPages(NamedTuple):
    """The pages of many users, laid side by side.

    Parameters
    ----------
    features, drawn
        Candidates of all pages.
    candidate_bounds
        Where the candidates of each page begin and end.
    places, clicked
        Documents shown of all pages.
    shown_bounds
        Where those of each page begin and end.
    user_bounds
        Where the pages of each user begin and end.
    """

    features: Floats
    drawn: Floats
    candidate_bounds: NDArray[np.int64]
    places: NDArray[np.int64]
    clicked: NDArray[np.bool_]
    shown_bounds: NDArray[np.int64]
    user_bounds: NDArray[np.int64]


def flat_pages(users: Sequence[Sequence[LoggedPage]], n_features: int) -> FlatPages:
    """Lay the pages of users side by side; each user's pages in their order."""
    pages = [page for user in users for page in user]
    return FlatPages(
        np.concatenate([np.empty((0, n_features), np.float32), *(p.features for p in pages)]),
        np.concatenate([np.empty(0, np.float32), *(page.drawn for page in pages)]),
        _bounds([len(page.features) for page in pages]),
        np.concatenate([np.empty(0, np.int64), *(page.places for page in pages)]),
        np.concatenate([np.empty(0, np.bool_), *(page.clicked for page in pages)]),
        _bounds([len(page.places) for page in pages]),
        _bounds([len(user) for user in users]),
    )


def train_users(
    pages: FlatPages,
    model: NDArray[np.float64],
    ranker: RankerSettings,
    training: FpdgdSettings,
    *,
    round: int,
) -> Floats:
    """Return each user's difference from the round's ranker; users x parameters.

    Parameters
    ----------
    pages
        What users were shown and clicked.
    model
        The round's ranker.
    ranker, training
        As agreed on.
    round
        Its number: the learning rate has decayed as if a user had had ``queries_per_round``
        interactions in each round before.

    Examples
    --------
    >>> page = LoggedPage(np.eye(2, dtype=np.float32), np.zeros(2, np.float32),
    ...                   np.array([1, 0]), np.array([True, False]))
    >>> train_users(flat_pages([[page]], 2), np.zeros(2), RankerSettings(n_features=2),
    ...             FpdgdSettings(), round=0)
    array([[-0.0125,  0.0125]], dtype=float32)
    """
    origin = model.astype(np.float32)
    updates = np.zeros((len(pages.user_bounds) - 1, len(origin)), np.float32)
    rate = training.pdgd.learning_rate
    rate *= training.pdgd.decay ** (training.queries_per_round * round)
    most_candidates = int(np.diff(pages.candidate_bounds).max(initial=0))
    most_shown = int(np.diff(pages.shown_bounds).max(initial=0))
    _train_users(
        pages,
        origin,
        ranker.shape,
        training.pdgd.pair_rule,
        rate,
        training.pdgd.decay,
        training.proximal,
        new_page_room(most_candidates, most_shown, ranker.shape),
        np.empty_like(origin),
        np.empty_like(origin),
        updates,
    )
    return updates


@kernel
def _train_users(
    pages: FlatPages,
    origin: Floats,
    shape: RankerShape,
    pairs: PairRule,
    first_rate: float,
    decay: float,
    proximal: float,
    room: PageRoom,
    local: Floats,
    before: Floats,
    updates: Floats,
) -> None:
    for user in range(len(updates)):
        local[:] = origin
        rate = first_rate
        for number in range(pages.user_bounds[user], pages.user_bounds[user + 1]):
            start, stop = pages.candidate_bounds[number], pages.candidate_bounds[number + 1]
            top, end = pages.shown_bounds[number], pages.shown_bounds[number + 1]
            before[:] = local
            add_page_gradient(
                local,
                local,
                shape,
                pairs,
                pages.features[start:stop],
                pages.drawn[start:stop],
                pages.places[top:end],
                pages.clicked[top:end],
                rate,
                room,
            )
            if proximal > 0.0:
                pull_back(local, before, origin, np.float32(rate * proximal))
            rate *= decay
        for i in range(len(origin)):
            updates[user, i] = local[i] - origin[i]


def _bounds(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
