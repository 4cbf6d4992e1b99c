"""A node's way to the broker."""

from __future__ import annotations

from collections.abc import Sequence

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.services.broker.messages import Chosen, SelectionRequest
from cloister.web.client import PeerClient

__all__ = ["BrokerLink"]


class BrokerLink:
    """Publishes tables through the broker, and asks it which nodes are promising.

    Parameters
    ----------
    client
        Checks that it is the broker who answers.
    """

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    def publish(self, content: bytes) -> None:
        """Send the node's tables; the same again change nothing."""
        self._client.post_bytes("/v1/statistics", content)

    def chosen(self, terms: Sequence[str], n_nodes: int) -> list[ServerId]:
        """Return the most promising nodes for a query's terms, best first.

        The broker learns the terms, not who searches.
        """
        wanted = SelectionRequest(terms=list(dict.fromkeys(terms))[:64], n_nodes=n_nodes)
        answer = self._client.post_json("/v1/selection", wanted.model_dump(mode="json"))
        try:
            return [ServerId(one.name) for one in Chosen.model_validate(answer).nodes]
        except ValueError:
            raise DataError("not an answer of a broker", where="selection") from None

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()
