"""A node's way to the broker."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.services.broker.messages import AcceptedForm, Chosen, SelectionRequest
from cloister.web.client import PeerClient, PeerUnreachable

__all__ = ["BrokerLink"]

FORM_S: Final = 5.0  # to say in which form it takes tables
AWAY_S: Final = 5.0  # for which a broker that did not answer is not asked


class BrokerLink:
    """Publishes tables through the broker, and asks it which nodes are promising.

    Parameters
    ----------
    client
        Checks that it is the broker who answers.
    timeout_s
        How long a choice may take: a user waits for it.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        client: PeerClient,
        *,
        timeout_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._clock = clock
        self._away_until = -math.inf

    def form(self) -> str:
        """Return the form in which the broker takes tables."""
        answer = self._client.get_json("/v1/form", timeout_s=FORM_S)
        try:
            return AcceptedForm.model_validate(answer).form
        except ValueError:
            raise DataError("not an answer of a broker", where="form") from None

    def publish(self, content: bytes) -> None:
        """Send the node's tables; the same again change nothing."""
        self._client.post_bytes("/v1/statistics", content)

    def chosen(self, terms: Sequence[str], n_nodes: int) -> list[ServerId]:
        """Return the most promising nodes for a query's terms, best first.

        The broker learns the terms, not who searches. One that did not answer is left alone for
        some seconds: then this raises `PeerUnreachable` at once.
        """
        if self._clock() < self._away_until:
            raise PeerUnreachable("the broker was away a moment ago")
        wanted = SelectionRequest(terms=list(dict.fromkeys(terms))[:64], n_nodes=n_nodes)
        try:
            answer = self._client.post_json("/v1/selection", wanted, timeout_s=self._timeout_s)
        except PeerUnreachable:
            self._away_until = self._clock() + AWAY_S
            raise
        try:
            return [ServerId(one.name) for one in Chosen.model_validate(answer).nodes]
        except ValueError:
            raise DataError("not an answer of a broker", where="selection") from None

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()
