"""What passes between somebody who searches and the servers that keep the documents.

A `SearchNode` is one server as one user reaches it: who the user is was verified where the
documents lie, and all that comes back is about what this user may read. A node answers two
questions: what do you have for these terms (`summarise`), and which documents are best (`answer`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from cloister.core.ids import DocId, PodId, ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import ModelSettings, SparseModel

__all__ = [
    "Hit",
    "Impact",
    "LevelSummary",
    "ScoreRest",
    "SearchNode",
    "ServerSummary",
    "SubAnswer",
    "SubQuery",
    "SummaryRequest",
    "TermPart",
    "TermSummary",
]


class SummaryRequest(NamedTuple):
    """Asks what a server has for some terms.

    Parameters
    ----------
    n_best
        How many documents with the highest weights are listed for each term that is named; 0 for
        none.
    with_pairs
        Whether the numbers are needed that only the language model uses; they take longer.
    all_terms
        Whether the answer is to hold all terms that the user may read there, and not only those
        named: TF-IDF needs the length of whole vectors.
    """

    terms: tuple[str, ...]
    n_best: int = 0
    with_pairs: bool = False
    all_terms: bool = False


class Impact(NamedTuple):
    """A document in which a term weighs much.

    The number stands for the document on that server and says nothing else.
    """

    document: int
    n_occurrences: int
    length: int


class TermSummary(NamedTuple):
    """What one user may know of one term on one server."""

    n_documents: int
    n_pods: int
    n_occurrences: int
    best: tuple[Impact, ...] = ()


class LevelSummary(NamedTuple):
    """How many entities of a level there are, and pairs of an entity and a term in it."""

    n_entities: int
    n_pairs: int


class ServerSummary(NamedTuple):
    """What one user may know of one server, for some terms; good until the version changes.

    The version is an opaque number. It stays while nothing changes that this user may read.
    """

    server_id: ServerId
    version: int
    n_tokens: int
    documents: LevelSummary
    pods: LevelSummary
    n_terms: int  # different ones on the server; 0 unless asked for pairs
    terms: dict[str, TermSummary]


class SubQuery(NamedTuple):
    """What a chosen server is asked.

    Parameters
    ----------
    terms
        Of the query, analysed.
    settings
        The model.
    pod_statistics, document_statistics
        Of which N, df and mean length are taken when pods and documents are ranked; the user's own
        on that server where not given.
    n_pods
        Documents come from so many pods at most, the best ones; None for all.
    k
        How many documents.
    explain
        Whether scores come with their parts.
    """

    terms: tuple[str, ...]
    settings: ModelSettings
    k: int
    n_pods: int | None = None
    pod_statistics: StatisticsTable | None = None
    document_statistics: StatisticsTable | None = None
    explain: bool = False


class TermPart(NamedTuple):
    """What one term adds to the score of one document, and from which numbers."""

    term: str
    weight: float
    n_occurrences: int
    frequency: float
    n_entities: float


class ScoreRest(NamedTuple):
    """What makes a score besides its terms' weights.

    Parameters
    ----------
    model
        Name of the model.
    constant
        What each document gets besides; of the language model.
    query_norm, document_norm
        Lengths of the two vectors; of TF-IDF.
    mean_length
        Of documents, from the statistics used.
    length_factor
        1 - b + b L / mean length; of BM25, 1 for the others.
    """

    model: SparseModel
    constant: float = 0.0
    query_norm: float = 0.0
    document_norm: float = 0.0
    mean_length: float = 0.0
    length_factor: float = 1.0


class Hit(NamedTuple):
    """One document of an answer."""

    doc_id: DocId
    pod_id: PodId
    score: float
    snippet: str = ""
    title: str = ""
    length: int = 0
    parts: tuple[TermPart, ...] = ()
    rest: ScoreRest | None = None


class SubAnswer(NamedTuple):
    """The best documents of one server, best first."""

    server_id: ServerId
    version: int
    hits: tuple[Hit, ...]


class SearchNode(Protocol):
    """One server, as one user reaches it."""

    @property
    def server_id(self) -> ServerId:
        """Name of the server."""

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        """Say what the user may read here of some terms."""

    def answer(self, query: SubQuery) -> SubAnswer:
        """Return the best documents that the user may read here."""
