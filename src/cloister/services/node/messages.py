"""What users, operators and other services say to a node, and its answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cloister.web.messages import Message

__all__ = [
    "ClickRequest",
    "KeptOfUser",
    "NodeStatus",
    "Published",
    "SearchAnswer",
    "SearchRequest",
    "SearchResult",
    "Synced",
]


class SearchRequest(Message):
    """A user's query. It is analysed here and written down nowhere."""

    query: str = Field(min_length=1, max_length=1000)
    explain: bool = False


class SearchResult(Message):
    """One line of a result page."""

    rank: int
    doc_id: str
    pod: str
    server: str
    snippet: str
    score: float
    explanation: list[str] = Field(default_factory=list)


class SearchAnswer(Message):
    """A result page.

    ``page_id`` names it for clicks, and is empty where there was nothing to show. Nodes that gave
    no answer in time are named, whether they have anything for the query or not.
    """

    page_id: str
    results: list[SearchResult]
    missing_nodes: list[str]


class ClickRequest(Message):
    """A click on a result, by its rank on the page."""

    rank: Annotated[int, Field(ge=1, le=100)]


class KeptOfUser(Message):
    """How many result pages are kept of a user, or were deleted."""

    n_pages: int


class NodeStatus(Message):
    """How a node stands; numbers of pages are of all users together."""

    name: str
    serving: str
    trial: str
    n_documents: int
    n_pods: int
    n_pages: int
    n_pages_ready: int
    published: str
    last_round: int


class Published(Message):
    """New tables were made and recorded, and are on their way: their SHA-256."""

    digest: str


class Synced(Message):
    """How many documents came, changed or went since the pods were looked at last."""

    n_changed: int
