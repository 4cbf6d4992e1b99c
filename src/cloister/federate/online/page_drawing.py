"""The page that a user is shown: drawn by the ranker that serves, or made of two in a trial."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import new_stream
from cloister.core.ids import AgentId
from cloister.federate.online.page_table import ShownPage
from cloister.rank.plackett_luce import draw_page
from cloister.rank.ranker import Ranker
from cloister.rank.team_draft import interleave

__all__ = ["ServedRanker", "TriedRanker", "page_for"]

PAGE_LENGTH: Final = 10  # results shown for a query in every FOLTR paper


class TriedRanker(NamedTuple):
    """A candidate on trial, and the share of searches that it is tried on."""

    trial_id: str
    ranker: Ranker
    share: float


class ServedRanker(NamedTuple):
    """What a node serves with: a ranker, its SHA-256, and a candidate where one is on trial."""

    digest: str
    ranker: Ranker
    tried: TriedRanker | None = None


def page_for(
    served: ServedRanker,
    agent_id: AgentId,
    features: NDArray[Any],
    rng: np.random.Generator,
    *,
    length: int = PAGE_LENGTH,
) -> ShownPage:
    """Make the page for one search.

    A share of searches gets a page on which both rankers' best documents are interleaved; it
    teaches nothing, and counts for its user's vote. All others get a page that is drawn from the
    serving ranker's scores, so that documents lower down are seen at times.

    Parameters
    ----------
    served
        What the node serves with.
    agent_id
        Who searches.
    features
        Of all candidates of the query, one a row, at least one.
    rng
        Decides what is shown: nobody's privacy rests on it.
    length
        Documents shown at most.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker(RankerSettings(n_features=1), np.array([100.0]))
    >>> page = page_for(ServedRanker("0" * 64, ranker), AgentId("clinic-a:ann"),
    ...                 np.array([[0.0], [1.0]]), np.random.default_rng(1))
    >>> page.places.tolist()
    [1, 0]
    """
    scores = served.ranker.score(features)
    tried = served.tried
    if tried is None or rng.random() >= tried.share:
        stream = new_stream(int(rng.integers(2**63)))
        places = draw_page(scores, length, stream=stream)
        return ShownPage(agent_id, served.digest, features, scores, places)
    first, second = (np.argsort(-s, kind="stable") for s in (scores, tried.ranker.score(features)))
    made = interleave(first, second, length, rng)
    return ShownPage(
        agent_id, served.digest, features, scores, made.page, tried.trial_id, made.teams
    )
