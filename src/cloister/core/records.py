"""The records that travel through Cloister: plain named tuples, whose fields cannot be set again.

All can be compared and hashed but `Update`: its vector is an array, which has no single truth
value and no hash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import AgentId, ClientId, DocId, PodId, QueryId, ServerId

__all__ = ["Click", "Document", "Judgement", "Query", "Result", "ResultPage", "Update"]


class Query(NamedTuple):
    """What somebody searches for."""

    query_id: QueryId
    text: str


class Document(NamedTuple):
    """A text with an id; ``title`` may be empty."""

    doc_id: DocId
    text: str
    title: str = ""


class Judgement(NamedTuple):
    """How relevant a document is for a query: 0 is not at all, higher is better."""

    query_id: QueryId
    doc_id: DocId
    grade: int


class Result(NamedTuple):
    """One line of a result page, and where it came from."""

    doc_id: DocId
    score: float
    pod_id: PodId = PodId("")
    server_id: ServerId = ServerId("")
    snippet: str = ""


class ResultPage(NamedTuple):
    """What one user was shown for one query, best first.

    Examples
    --------
    >>> page = ResultPage(QueryId("q1"), (Result(DocId("a"), 2.0), Result(DocId("b"), 1.5)))
    >>> page.rank_of(DocId("b"))
    2
    """

    query_id: QueryId
    results: tuple[Result, ...]
    agent_id: AgentId = AgentId("")  # who was shown it
    missing_servers: tuple[ServerId, ...] = ()

    def rank_of(self, doc_id: DocId) -> int:
        """Return the place of a document on the page, from 1; 0 if it is not there."""
        return next((i for i, r in enumerate(self.results, 1) if r.doc_id == doc_id), 0)


class Click(NamedTuple):
    """One click on a result page; ``rank`` counts from 1."""

    query_id: QueryId
    doc_id: DocId
    rank: int


class Update(NamedTuple):
    """What one client contributes to one round: a vector and what it stands for."""

    client_id: ClientId
    round: int
    values: NDArray[np.floating]
    n_interactions: int
