"""Asking several servers the same thing; those that fail are named, and nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from cloister.core.ids import ServerId
from cloister.search.node import SearchNode, ServerSummary, SubAnswer, SubQuery, SummaryRequest

__all__ = ["Ask", "NodeAnswers", "ask_in_turn"]


class NodeAnswers(NamedTuple):
    """What came back: summaries or answers by server, and who did not answer in time or failed."""

    answers: Mapping[ServerId, ServerSummary | SubAnswer]
    missing: tuple[ServerId, ...]


class Ask(Protocol):
    """Sends one request to some nodes. How long it waits is its own matter."""

    def __call__(
        self, nodes: Sequence[SearchNode], request: SummaryRequest | SubQuery
    ) -> tuple[Mapping[ServerId, ServerSummary | SubAnswer], tuple[ServerId, ...]]:
        """Return what arrived and who is missing, as `NodeAnswers`; never raise for a node."""


def ask_in_turn(nodes: Sequence[SearchNode], request: SummaryRequest | SubQuery) -> NodeAnswers:
    """Ask one node after the other, in this thread; a node that raises is missing.

    The cause is not kept: its text could say more than the user may know.
    """
    answers: dict[ServerId, ServerSummary | SubAnswer] = {}
    missing = []
    for node in nodes:
        try:
            if isinstance(request, SummaryRequest):
                answers[node.server_id] = node.summarise(request)
            else:
                answers[node.server_id] = node.answer(request)
        except Exception:  # whatever a server does wrong costs its share of the answer only
            missing.append(node.server_id)
    return NodeAnswers(answers, tuple(missing))
