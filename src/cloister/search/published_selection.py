"""Source selection by what servers have published: no server is asked, no user is known.

Each server counts as one large document (`cloister.search.selection`). Published tables say in how
many documents of a server a term is, not how often it occurs: that number stands for both. What is
chosen depends on nothing but the tables, and so tells nothing that they do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cloister.core.ids import ServerId
from cloister.index.entity_weights import ModelSettings
from cloister.search.node import LevelSummary, ServerSummary, TermSummary
from cloister.search.published_statistics import PublishedStatistics
from cloister.search.selection import ServerScore, rank_servers

__all__ = ["published_summary", "rank_by_published"]


def published_summary(
    server_id: ServerId, published: PublishedStatistics, terms: Sequence[str]
) -> ServerSummary:
    """Return what a server's published tables say of some terms.

    A number that is no more than the table's floor is noise, or not known, and counts as 0.
    """
    documents, pods = published.level("document"), published.level("pod")
    found = {}
    for term in dict.fromkeys(terms):
        n = documents.table.get(term, 0.0)
        if n > documents.floor:
            n_pods = max(0, round(pods.table.get(term, 0.0)))
            found[term] = TermSummary(round(n), n_pods, round(n))
    n_documents = max(0, round(documents.n_entities))
    return ServerSummary(
        server_id,
        0,
        max(0, round(n_documents * documents.mean_length)),
        LevelSummary(n_documents, max(0, round(documents.n_pairs))),
        LevelSummary(max(0, round(pods.n_entities)), max(0, round(pods.n_pairs))),
        0,
        found,
    )


def rank_by_published(
    published: Mapping[ServerId, PublishedStatistics],
    terms: Sequence[str],
    settings: ModelSettings | None = None,
) -> list[ServerScore]:
    """Rank the servers that have published a term of the query, best first.

    Examples
    --------
    >>> import numpy as np
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.search.published_statistics import exact_statistics
    >>> from cloister.search.server_contents import ServerContents
    >>> def tables(name, *texts):
    ...     return exact_statistics([ServerContents(ServerId(name), count_terms(texts),
    ...                                             np.arange(len(texts)))])
    >>> held = {"a": tables("a", "cough", "rash"), "b": tables("b", "cough", "dry cough"),
    ...         "c": tables("c", "gout")}
    >>> [one.server_id for one in rank_by_published(held, ["cough"])]
    ['b', 'a']
    """
    summaries = [published_summary(name, table, terms) for name, table in sorted(published.items())]
    return rank_servers(summaries, terms, settings or ModelSettings())
