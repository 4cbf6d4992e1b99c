"""Asking several servers the same thing; those that fail are named, and nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from cloister.core.ids import ServerId
from cloister.search.node import (
    NodeAnswer,
    NodeRequest,
    SearchNode,
    SubQuery,
    SummaryRequest,
)

__all__ = ["Ask", "NodeAnswers", "ask_in_turn", "ask_node"]

AnswerT = TypeVar("AnswerT")


class NodeAnswers(NamedTuple, Generic[AnswerT]):
    """What came back, by server, and who did not answer in time or failed; why is not told."""

    answers: Mapping[ServerId, AnswerT]
    missing: tuple[ServerId, ...]


class Ask(Protocol):
    """Sends one request to some nodes. How long it waits is its own matter."""

    def __call__(
        self, nodes: Sequence[SearchNode], request: NodeRequest
    ) -> tuple[Mapping[ServerId, NodeAnswer], tuple[ServerId, ...]]:
        """Return what arrived and who is missing, as `NodeAnswers`; never raise for a node."""


def ask_node(node: SearchNode, request: NodeRequest) -> NodeAnswer:
    """Ask a node the question that a request is."""
    if isinstance(request, SummaryRequest):
        return node.summarise(request)
    if isinstance(request, SubQuery):
        return node.answer(request)
    return node.table(request)


def ask_in_turn(nodes: Sequence[SearchNode], request: NodeRequest) -> NodeAnswers[NodeAnswer]:
    """Ask one node after the other, in this thread; a node that raises is missing.

    The cause is not kept: its text could say more than the user may know.
    """
    answers: dict[ServerId, NodeAnswer] = {}
    missing = []
    for node in nodes:
        try:
            answers[node.server_id] = ask_node(node, request)
        except Exception:  # whatever a server does wrong costs its share of the answer only
            missing.append(node.server_id)
    return NodeAnswers(answers, tuple(missing))
