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

from cloister.core.ids import ServerId
from cloister.index.entity_scoring import EntityScorer
from cloister.index.entity_weights import (
    SUM,
    EntityStatistics,
    ModelSettings,
    query_weights,
)
from cloister.index.postings import TermPostings
from cloister.search.all_term_statistics import AllTermStatistics
from cloister.search.node import LevelScore, ServerSummary
from cloister.search.score_parts import score_rest, term_parts
from cloister.search.summary_statistics import user_statistics

__all__ = ["ServerScore", "explained_servers", "rank_servers"]


class ServerScore(NamedTuple):
    """How promising a server is; larger is better, and compares within one ranking only."""

    server_id: ServerId
    score: float


def rank_servers(
    summaries: Sequence[ServerSummary],
    terms: Sequence[str],
    settings: ModelSettings,
    statistics: EntityStatistics | None = None,
    norms: NDArray[np.float64] | None = None,
) -> list[ServerScore]:
    """Rank the servers that hold a term of the query, best first; names decide between equals.

    Parameters
    ----------
    summaries
        What the user may know of each server; for TF-IDF with all terms.
    statistics
        Of servers; the user's own over these servers where not given.
    norms
        `AllTermStatistics.norms` of these summaries and statistics, for TF-IDF; made anew where
        not given.

    Raises
    ------
    DataError
        If TF-IDF is asked for without ``norms`` and a summary does not hold all terms.

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
    if query.finish != SUM and norms is None:
        norms = _norms(summaries, settings, statistics)
    scorer = EntityScorer(np.array([one.n_tokens for one in summaries], np.float64))
    places, scores = scorer.best(query, lambda t: _matches(summaries, t), len(summaries), norms)
    listed = [
        ServerScore(summaries[place].server_id, score)
        for place, score in zip(places.tolist(), scores.tolist(), strict=True)
    ]
    return sorted(listed, key=lambda one: (-one.score, one.server_id))


def explained_servers(
    summaries: Sequence[ServerSummary],
    terms: Sequence[str],
    settings: ModelSettings,
    statistics: EntityStatistics | None = None,
    norms: NDArray[np.float64] | None = None,
) -> list[tuple[ServerId, LevelScore]]:
    """Rank servers as `rank_servers` does, and take their scores apart."""
    whole = statistics or user_statistics(summaries, list(dict.fromkeys(terms)), "server")
    query = query_weights(terms, whole, settings)
    if query.finish != SUM and norms is None:
        norms = _norms(summaries, settings, statistics)
    ranked = rank_servers(summaries, terms, settings, whole, norms)
    places = {one.server_id: place for place, one in enumerate(summaries)}
    found = []
    for rank, (name, score) in enumerate(ranked, 1):
        one = summaries[places[name]]
        counts = [_count(one, term) for term in query.terms]
        norm = 0.0 if norms is None else float(norms[places[name]])
        parts = term_parts(query, whole, counts, one.n_tokens)
        rest = score_rest(query, whole, settings, one.n_tokens, norm)
        found.append((name, LevelScore(score, rank, len(ranked), one.n_tokens, parts, rest)))
    return found


def _norms(
    summaries: Sequence[ServerSummary],
    settings: ModelSettings,
    statistics: EntityStatistics | None,
) -> NDArray[np.float64]:
    known = AllTermStatistics(None if statistics is None else {"server": statistics})
    known.update(summaries)
    return known.norms(settings.idf)


def _matches(summaries: Sequence[ServerSummary], term: str) -> TermPostings:
    counts = np.array([_count(one, term) for one in summaries], np.int32)
    places = np.flatnonzero(counts > 0).astype(np.int32)
    return TermPostings(places, counts[places])


def _count(summary: ServerSummary, term: str) -> int:
    """Return how often a server holds a term; above 2^31 - 1 the number would say no more."""
    found = summary.terms.get(term)
    return 0 if found is None else min(found.n_occurrences, 2**31 - 1)
