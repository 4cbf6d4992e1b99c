"""Source selection as ESPRESSO does it: a server is ranked as one large document.

The entity is the union of all documents of a server that the user may read (equations 1 to 4);
counts are those of this user, and N, df and mean length over servers are the user's or published
ones. The models are the ones that rank documents.

Large documents hide what is in them: a server with a few excellent documents scores less than one
with many fair ones. `cloister.search.best_impact` looks at documents instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.index.entity_scoring import EntityScorer
from cloister.index.entity_weights import (
    SUM,
    EntityStatistics,
    ModelSettings,
    inverse_frequencies,
    query_weights,
)
from cloister.index.postings import TermPostings
from cloister.search.node import ServerSummary
from cloister.search.summary_statistics import user_statistics

__all__ = ["ServerScore", "rank_servers"]


class ServerScore(NamedTuple):
    """How promising a server is; larger is better, and compares within one ranking only."""

    server_id: ServerId
    score: float


def rank_servers(
    summaries: Sequence[ServerSummary],
    terms: Sequence[str],
    settings: ModelSettings,
    statistics: EntityStatistics | None = None,
) -> list[ServerScore]:
    """Rank the servers that hold a term of the query, best first; names decide between equals.

    Parameters
    ----------
    summaries
        What the user may know of each server; for TF-IDF with all terms.
    statistics
        Of servers; the user's own over these servers where not given.

    Raises
    ------
    DataError
        If TF-IDF is asked for and a summary does not hold all terms.

    Examples
    --------
    >>> from cloister.search.node import LevelSummary, TermSummary
    >>> def server(name, n):
    ...     found = {"cough": TermSummary(n, n, n)}
    ...     return ServerSummary(ServerId(name), 1, 9, LevelSummary(3, 0), LevelSummary(3, 0), 0,
    ...                          found)
    >>> ranked = rank_servers([server("a", 0), server("b", 1), server("c", 2)], ["cough"],
    ...                       ModelSettings())
    >>> [one.server_id for one in ranked]
    ['c', 'b']
    """
    whole = statistics or user_statistics(summaries, list(dict.fromkeys(terms)), "server")
    query = query_weights(terms, whole, settings)
    norms = None if query.finish == SUM else _norms(summaries, settings, statistics)
    scorer = EntityScorer(np.array([one.n_tokens for one in summaries], np.float64))
    places, scores = scorer.best(query, lambda t: _matches(summaries, t), len(summaries), norms)
    listed = [
        ServerScore(summaries[place].server_id, score)
        for place, score in zip(places.tolist(), scores.tolist(), strict=True)
    ]
    return sorted(listed, key=lambda one: (-one.score, one.server_id))


def _matches(summaries: Sequence[ServerSummary], term: str) -> TermPostings:
    counts = np.array(
        [one.terms[term].n_occurrences if term in one.terms else 0 for one in summaries], np.int64
    )
    places = np.flatnonzero(counts > 0).astype(np.int32)
    # A count above 2^31 - 1 would say no more than that one does.
    return TermPostings(places, np.minimum(counts[places], 2**31 - 1).astype(np.int32))


def _norms(
    summaries: Sequence[ServerSummary],
    settings: ModelSettings,
    statistics: EntityStatistics | None,
) -> NDArray[np.float64]:
    """Return the length of each server's TF-IDF vector over all its terms."""
    for one in summaries:
        if sum(found.n_occurrences for found in one.terms.values()) != one.n_tokens:
            raise DataError(
                "TF-IDF needs summaries with all terms",
                where="rank_servers",
                remedy="ask with SummaryRequest.all_terms",
            )
    terms = sorted({term for one in summaries for term in one.terms})
    whole = statistics or user_statistics(summaries, terms, "server")
    idf = inverse_frequencies(
        np.maximum(whole.frequencies(terms), 0.0), whole.n_entities, settings.idf
    )
    weight = dict(zip(terms, idf.tolist(), strict=True))
    squares = [
        sum((found.n_occurrences * weight[term]) ** 2 for term, found in one.terms.items())
        for one in summaries
    ]
    return np.sqrt(np.array(squares, np.float64))
