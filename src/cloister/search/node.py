"""What passes between somebody who searches and the servers that keep the documents.

A `SearchNode` is one server as one user reaches it: who the user is was verified where the
documents lie, and all that comes back is about what this user may read. A node answers three
questions: what do you have for these terms (`summarise`), what do you have at all (`table`), and
which documents are best (`answer`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from cloister.core.ids import DocId, PodId, ServerId
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import ModelSettings, SparseModel
from cloister.search.table_settings import TableSettings
from cloister.search.word_vector_ranking import VectorModel, VectorPart

__all__ = [
    "Hit",
    "Impact",
    "LevelScore",
    "LevelSummary",
    "NodeAnswer",
    "NodeRequest",
    "ScoreRest",
    "SearchNode",
    "ServerSummary",
    "ServerTable",
    "SubAnswer",
    "SubQuery",
    "SummaryRequest",
    "TableRequest",
    "TermPart",
    "TermSummary",
    "VectorQuery",
    "VectorScore",
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
    vectors
        `WordVectors.digest` of the user's vectors, by which the server's mean vector is to be made;
        empty for none.
    """

    terms: tuple[str, ...]
    n_best: int = 0
    with_pairs: bool = False
    all_terms: bool = False
    vectors: str = ""


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

    The version is an opaque number. It stays while nothing changes that this user may read. The
    mean vector is of all words that this user may read there and has vectors of; empty where there
    are none, or where it was not asked for.
    """

    server_id: ServerId
    version: int
    n_tokens: int
    documents: LevelSummary
    pods: LevelSummary
    n_terms: int  # different ones on the server; 0 unless asked for pairs
    terms: dict[str, TermSummary]
    mean_vector: tuple[float, ...] = ()


class TableRequest(NamedTuple):
    """Asks for all that a searcher needs to choose servers, whatever the query will be."""

    settings: TableSettings = TableSettings()


class ServerTable(NamedTuple):
    """A selector table of one server for one user, as its server packed it.

    `cloister.search.selector_table.SelectorTable.from_bytes` reads it; good until the version
    changes, which is that of the server's summaries.
    """

    server_id: ServerId
    version: int
    content: bytes


class VectorQuery(NamedTuple):
    """Asks to rank with the user's word vectors instead of a sparse model.

    The vectors themselves do not travel with the request. The server has them from the user's pod
    or from whoever runs it for the user, and refuses where its digest is another one.
    """

    model: VectorModel
    digest: str


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
    vectors
        With which pods and documents are ranked instead of ``settings`` and statistics.
    explain_pods
        With ``explain``: whether documents also say how their pods stand; not with ``vectors``.
    with_texts
        Whether each document is confirmed with its pod and comes with a passage. Otherwise they are
        candidates, as the index has them: whoever shows one asks for it with ``only``.
    only
        Confirm these documents, of the candidates that this user was given before, and say nothing
        else of them than a passage. Nothing is ranked.
    """

    terms: tuple[str, ...]
    settings: ModelSettings
    k: int
    n_pods: int | None = None
    pod_statistics: StatisticsTable | None = None
    document_statistics: StatisticsTable | None = None
    explain: bool = False
    vectors: VectorQuery | None = None
    explain_pods: bool = False
    with_texts: bool = True
    only: tuple[DocId, ...] = ()


class TermPart(NamedTuple):
    """What one term adds to the score of one document, pod or server, and from which numbers."""

    term: str
    weight: float
    n_occurrences: int
    frequency: float
    n_entities: float


class ScoreRest(NamedTuple):
    """What makes a score besides its terms' weights.

    Of the score of a pod or a server, read that in the place of the document.

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


class LevelScore(NamedTuple):
    """How an entity, such as a pod, stands among those of its level that hold a term of the query.

    Parameters
    ----------
    score
        By the query's model.
    rank, n_ranked
        Its place, from 1, and of how many; of equal scores the name decides.
    length
        Number of tokens in it that the user may read.
    parts, rest
        Of the score.
    """

    score: float
    rank: int
    n_ranked: int
    length: int
    parts: tuple[TermPart, ...]
    rest: ScoreRest


class VectorScore(NamedTuple):
    """What makes a score by word vectors.

    Parameters
    ----------
    parts
        What each word of the query that has a vector adds to the cosine.
    unknown
        Words of the query that have none, and count for nothing.
    cosine, distance
        Of the query's vector and the document's; which one ranks, the model says.
    """

    model: VectorModel
    parts: tuple[VectorPart, ...]
    unknown: tuple[str, ...]
    cosine: float
    distance: float


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
    vector_score: VectorScore | None = None
    pod: LevelScore | None = None


class SubAnswer(NamedTuple):
    """The best documents of one server, best first.

    ``missing_pods`` did not answer in time, are left alone because they did not, refused most of
    what they were asked for, or have documents that are too large for an answer. Each of them holds
    something for the query that this user may read, as the index has it.
    """

    server_id: ServerId
    version: int
    hits: tuple[Hit, ...]
    missing_pods: tuple[PodId, ...] = ()


NodeRequest = SummaryRequest | TableRequest | SubQuery
NodeAnswer = ServerSummary | ServerTable | SubAnswer


class SearchNode(Protocol):
    """One server, as one user reaches it."""

    @property
    def server_id(self) -> ServerId:
        """Name of the server."""

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        """Say what the user may read here of some terms."""

    def answer(self, query: SubQuery) -> SubAnswer:
        """Return the best documents that the user may read here."""

    def table(self, request: TableRequest) -> ServerTable:
        """Return all that the user may know of the server for choosing servers."""
