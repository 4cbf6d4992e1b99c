"""Source selection by word vectors: servers are ranked by their mean vectors (algorithm 1, part 2).

Each server says its mean vector for this user: of all words that the user may read there and has
vectors of. The query's vector stays with the searcher, and its terms are not part of the question:
only servers that are then asked for documents learn what is searched for. The searcher learns of a
server nothing but what the user may read there.

A server can say any vector. One that is not finite or of another size counts as missing; one that
lies is believed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cloister.core.ids import ServerId
from cloister.search.asking import Ask
from cloister.search.node import SearchNode, ServerSummary, SummaryRequest
from cloister.search.selection import ServerScore
from cloister.search.word_vector_ranking import VectorModel, similarities
from cloister.search.word_vector_table import WordVectors

__all__ = ["SimilarServers", "rank_by_vectors", "similar_servers"]


class SimilarServers(NamedTuple):
    """Servers, best first, and those that did not say their vector."""

    servers: list[ServerScore]
    missing: tuple[ServerId, ...] = ()


def similar_servers(
    nodes: Sequence[SearchNode],
    ask: Ask,
    vectors: WordVectors,
    terms: Sequence[str],
    model: VectorModel,
) -> SimilarServers:
    """Ask servers for their mean vectors and rank them for a query.

    Nobody is asked where no word of the query has a vector.
    """
    if not any(term in vectors.positions for term in terms):
        return SimilarServers([])
    answers, _ = ask(nodes, SummaryRequest((), vectors=vectors.digest))
    found, missing = [], []
    for node in nodes:
        summary = answers.get(node.server_id)
        if isinstance(summary, ServerSummary) and _sound(summary, node, vectors.size):
            found.append(summary)
        else:
            missing.append(node.server_id)
    return SimilarServers(rank_by_vectors(found, terms, vectors, model), tuple(missing))


def rank_by_vectors(
    summaries: Sequence[ServerSummary],
    terms: Sequence[str],
    vectors: WordVectors,
    model: VectorModel,
) -> list[ServerScore]:
    """Rank the servers that have a mean vector, best first; names decide between equals.

    Examples
    --------
    >>> from cloister.search.node import LevelSummary
    >>> def server(name, *mean):
    ...     one = LevelSummary(1, 0)
    ...     return ServerSummary(ServerId(name), 1, 9, one, one, 0, {}, mean)
    >>> vectors = WordVectors(("cough", "fever"), np.eye(2, dtype=np.float32), np.array([3, 1]))
    >>> servers = [server("a", 1.0, 0.2), server("b"), server("c", 0.1, 1.0)]
    >>> [one.server_id for one in rank_by_vectors(servers, ["fever"], vectors, "w2v-cosine")]
    ['c', 'a']
    """
    held = [one for one in summaries if one.mean_vector]
    if not held or not any(term in vectors.positions for term in terms):
        return []
    means = np.array([one.mean_vector for one in held], np.float64)
    scores = similarities(means, vectors.query_mean(terms), model).tolist()
    listed = [ServerScore(one.server_id, score) for one, score in zip(held, scores, strict=True)]
    return sorted(listed, key=lambda one: (-one.score, one.server_id))


def _sound(summary: ServerSummary, node: SearchNode, size: int) -> bool:
    """Say whether a summary is of the server that was asked, with a vector that can be used."""
    mean = summary.mean_vector
    # A mean of 32-bit numbers is within their range; squares of larger ones could overflow.
    limit = float(np.finfo(np.float32).max)
    return (
        summary.server_id == node.server_id
        and len(mean) in (0, size)
        and all(math.isfinite(value) and abs(value) <= limit for value in mean)
    )
