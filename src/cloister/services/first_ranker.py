"""What a federation ranks with before it has learnt anything: the documents' own scores."""

from __future__ import annotations

from typing import Final

import numpy as np

from cloister.rank.ranker import Ranker, RankerSettings
from cloister.search.page_features import PAGE_FEATURES

__all__ = ["first_ranker", "fits_pages"]

SCORE_WEIGHT: Final = 5.0  # the best leads the worst by e^5: near equals change places


def fits_pages(settings: RankerSettings) -> bool:
    """Say whether a ranker ranks result pages: whether its features are theirs."""
    return settings.n_features == len(PAGE_FEATURES)


def first_ranker(settings: RankerSettings) -> Ranker:
    """Return the ranker that a training begins with.

    A linear ranker of result pages ranks as the search does; any other is untrained.

    Examples
    --------
    >>> first = first_ranker(RankerSettings(n_features=16))
    >>> dict(zip(PAGE_FEATURES, first.parameters.tolist()))["score"]
    5.0
    """
    first = Ranker.initial(settings)
    if not fits_pages(settings) or settings.kind != "linear":
        return first
    parameters = np.zeros_like(first.parameters)
    parameters[PAGE_FEATURES.index("score")] = SCORE_WEIGHT
    return first.with_parameters(parameters)
