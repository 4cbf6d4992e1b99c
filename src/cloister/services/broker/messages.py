"""What nodes and operators say to a broker, and its answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cloister.web.messages import Message

__all__ = ["AcceptedForm", "BrokerStatus", "Chosen", "ChosenNode", "HeldTable", "SelectionRequest"]

Term = Annotated[str, Field(min_length=1, max_length=256)]


class SelectionRequest(Message):
    """Asks which nodes are promising for a query's terms; nothing says who searches."""

    terms: list[Term] = Field(min_length=1, max_length=64)
    n_nodes: int = Field(default=10, ge=1, le=1000)


class ChosenNode(Message):
    """One node and how promising it is; scores compare within one answer only."""

    name: str
    score: float


class Chosen(Message):
    """The most promising nodes, best first."""

    nodes: list[ChosenNode]


class AcceptedForm(Message):
    """In which form all nodes of the federation publish; other tables are refused."""

    form: str


class HeldTable(Message):
    """The last tables of a node: their SHA-256, and when they came."""

    node: str
    digest: str
    received_at: str


class BrokerStatus(Message):
    """What a broker holds."""

    form: str
    tables: list[HeldTable]
