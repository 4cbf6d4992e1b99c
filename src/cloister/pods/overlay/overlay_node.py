"""A server that an overlay reaches, as one user: each question goes through one method."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from cloister.core.ids import ServerId
from cloister.pods.overlay.fan_out import Carrier
from cloister.search.node import (
    NodeRequest,
    SearchNode,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)

__all__ = ["OverlayNode"]


class OverlayNode(SearchNode):
    """One server, as one user reaches it through a carrier.

    A question raises `AccessDenied`, with no reason, or `NotFound` where no answer came.
    """

    def __init__(self, carrier: Carrier, server_id: ServerId) -> None:
        self._carrier = carrier
        self._server_id = server_id

    @property
    def server_id(self) -> ServerId:
        """Name of the server."""
        return self._server_id

    @property
    def carrier(self) -> Carrier:
        """The overlay."""
        return self._carrier

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        """Say what the user may read there of some terms."""
        found: ServerSummary = self._asked(request)
        return found

    def answer(self, query: SubQuery) -> SubAnswer:
        """Return the best documents that the user may read there."""
        found: SubAnswer = self._asked(query)
        return found

    def table(self, request: TableRequest) -> ServerTable:
        """Return all that the user may know of the server for choosing servers."""
        found: ServerTable = self._asked(request)
        return found

    @abstractmethod
    def _asked(self, request: NodeRequest) -> Any:
        """Return the answer that belongs to the request."""
