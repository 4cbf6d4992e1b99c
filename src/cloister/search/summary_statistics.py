"""The user's statistics at each level, added up from what the servers say.

No document and no pod is on two servers, so that numbers of both can be added. At server level each
server with anything readable is one entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cloister.index.entity_statistics import StatisticsTable, added_statistics
from cloister.index.entity_view import Level
from cloister.index.entity_weights import EntityStatistics
from cloister.search.node import ServerSummary

__all__ = ["PublishedLevels", "server_table", "statistics_of_terms", "user_statistics"]


class PublishedLevels(Protocol):
    """Statistics that everybody may see, at each level."""

    def level(self, level: Level) -> EntityStatistics:
        """Return those of documents, of pods, or of servers."""


def user_statistics(
    summaries: Sequence[ServerSummary], terms: Sequence[str], level: Level
) -> StatisticsTable:
    """Return N, df and mean length over all that the user may read on some servers.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> from cloister.search.node import LevelSummary, TermSummary
    >>> found = {"cough": TermSummary(2, 1, 5)}
    >>> ward = ServerSummary(ServerId("w"), 1, 12, LevelSummary(3, 0), LevelSummary(2, 0), 0, found)
    >>> user_statistics([ward, ward], ["cough"], "document").table
    {'cough': 4.0}
    >>> user_statistics([ward, ward], ["cough"], "pod").mean_length
    6.0
    """
    whole = added_statistics([server_table(one, terms, level) for one in summaries], terms)
    # Whole numbers are divided once, as one index of all documents would do it.
    n_tokens, n = sum(one.n_tokens for one in summaries), whole.n_entities
    return replace(whole, mean_length=n_tokens / n if n else 0.0)


def server_table(summary: ServerSummary, terms: Sequence[str], level: Level) -> StatisticsTable:
    """Return the statistics of one server's entities of a level."""
    found = {term: summary.terms[term] for term in terms if term in summary.terms}
    if level == "document":
        n, pairs = summary.documents
        df = {term: float(one.n_documents) for term, one in found.items()}
    elif level == "pod":
        n, pairs = summary.pods
        df = {term: float(one.n_pods) for term, one in found.items()}
    else:
        n, pairs = min(summary.documents.n_entities, 1), summary.n_terms
        df = {term: float(one.n_documents > 0) for term, one in found.items()}
    return StatisticsTable(float(n), summary.n_tokens / n if n else 0.0, float(pairs), df)


def statistics_of_terms(whole: EntityStatistics, terms: Sequence[str]) -> StatisticsTable:
    """Return what published statistics say of some terms, as a table that can be sent.

    Examples
    --------
    >>> statistics_of_terms(StatisticsTable(4, 2.5, 10, {"cough": 3, "gout": 1}), ["cough"]).table
    {'cough': 3.0}
    """
    df = [max(value, 0.0) for value in whole.frequencies(terms).tolist()]
    table = dict(zip(terms, df, strict=True))
    return StatisticsTable(
        float(whole.n_entities), float(whole.mean_length), float(whole.n_pairs), table
    )
