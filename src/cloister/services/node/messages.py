"""What users, operators and other services say to a node, and its answers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from cloister.core.errors import SettingsError
from cloister.web.messages import Message

__all__ = [
    "ClickRequest",
    "FeatureWhy",
    "KeptOfUser",
    "LevelWhy",
    "NodeStatus",
    "Published",
    "RankerWhy",
    "ResultWhy",
    "SearchAnswer",
    "SearchRequest",
    "SearchResult",
    "Synced",
    "TermWhy",
    "require_query",
]

LONGEST_QUERY: Final = 1000  # characters


def require_query(query: str) -> None:
    """Raise where a query says nothing, or is too long."""
    if not query.strip() or len(query) > LONGEST_QUERY:
        raise SettingsError(
            f"a query has 1 to {LONGEST_QUERY:,} characters (given: {len(query):,})",
            where="query",
            remedy="shorten it" if query.strip() else "say what to search for",
        )


class SearchRequest(Message):
    """A user's query. It is analysed here and written down nowhere."""

    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    explain: bool = False


class TermWhy(Message):
    """What a term of the query adds to a score: it is in ``frequency`` of ``n_entities``."""

    term: str
    weight: float
    n_occurrences: int
    frequency: float
    n_entities: float


class LevelWhy(Message):
    """The score of a server, a pod or a document, its place among others, and its parts.

    Servers and documents are weighed with the user's statistics over all nodes that answered, pods
    with those on their own node. The weights of ``parts`` add up to the score, together with
    ``constant``; for the models of vectors, ``query_norm`` and ``entity_norm`` finish it as
    `cloister.search.explanation.added_up` does. ``rank`` is of ``n_ranked``: of all servers, or of
    the server's pods, that hold something readable for the query; of the documents that were ranked
    for the page.
    """

    model: str
    score: float
    rank: int
    n_ranked: int
    length: int  # tokens that the user may read
    parts: list[TermWhy]
    constant: float = 0.0
    query_norm: float = 0.0
    entity_norm: float = 0.0
    mean_length: float = 0.0
    length_factor: float = 1.0


class FeatureWhy(Message):
    """A feature of a document, from 0 to 1 among the candidates; it adds value times weight."""

    feature: str
    value: float
    weight: float


class RankerWhy(Message):
    """What the serving ranker makes of a document.

    The features of a linear ranker add up to the score, to the precision of single numbers; there
    are none for another. ``place_by_score`` is where the document would stand if pages were sorted
    by this score, and not ``drawn`` from it, or ``interleaved`` with a ranker that is on trial.
    """

    score: float
    features: list[FeatureWhy]
    place_by_score: int
    how: Literal["drawn", "interleaved"]


class ResultWhy(Message):
    """Why this server, this pod, this document, this place.

    A level is None where its node did not say it, or said at first that it has nothing.
    """

    server: LevelWhy | None
    pod: LevelWhy | None
    document: LevelWhy | None
    ranker: RankerWhy


class SearchResult(Message):
    """One line of a result page; ``explanation`` and ``why`` where they were asked for.

    ``title`` is the first line of the document's text; its name in its pod where that has none.
    """

    rank: int
    title: str
    doc_id: str
    pod: str
    server: str
    snippet: str
    score: float
    explanation: list[str] = Field(default_factory=list)
    why: ResultWhy | None = None


class SearchAnswer(Message):
    """A result page.

    ``page_id`` names it for clicks, and is empty where there was nothing to show. Nodes that gave
    no answer in time are named, whether they have anything for the query or not. Pods are named
    that did not answer in time and hold something for the query that the user may read.

    ``n_found`` documents that this user may read, as of the last sync, were ranked; the page shows
    some of them. Where ``may_be_more``, others that the user may read may match, too: as many were
    found as a page is drawn from, or a node was not asked or did not answer. ``missing_pods`` hold
    something for the query, but did not answer in time, are left alone, refused most of what they
    were asked for, or have documents that are too large for an answer.
    """

    page_id: str
    n_found: int
    may_be_more: bool
    results: list[SearchResult]
    missing_nodes: list[str]
    missing_pods: list[str] = Field(default_factory=list)


class ClickRequest(Message):
    """A click on a result, by its rank on the page."""

    rank: Annotated[int, Field(ge=1, le=100)]


class KeptOfUser(Message):
    """How many result pages are kept of a user, or were deleted."""

    n_pages: int


class NodeStatus(Message):
    """How a node stands; numbers of pages are of all users together.

    ``published`` is the SHA-256 of the last tables that were made, empty if none were;
    ``publication`` says what became of them, as `Published` does.
    """

    name: str
    serving: str
    trial: str
    n_documents: int
    n_pods: int
    n_pages: int
    n_pages_ready: int
    n_pages_locked: int  # in a masked input whose round is not known to have counted
    published: str
    publication: Literal["", "arrived", "waiting", "failed"]
    publication_reason: str
    last_round: int
    pods_away: list[str] = Field(
        default_factory=list
    )  # their servers misbehave; they are not asked
    pods_hidden: list[str] = Field(default_factory=list)  # not synced for too long


class Published(Message):
    """New tables were made and recorded: their SHA-256, and what became of them.

    ``waiting``: the broker did not answer, and the node sends them again; ``failed``: they will
    never arrive, for the ``reason``, and stay charged.
    """

    digest: str
    state: Literal["arrived", "waiting", "failed"]
    reason: str = ""


class Synced(Message):
    """How many documents came, changed or went since the pods were looked at last."""

    n_changed: int
