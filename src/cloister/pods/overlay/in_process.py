"""Nodes in the searcher's own process: the embedded default.

There is no broker, and so no proof for each request: the token is verified when nodes are opened,
and its time again for each request. Code in the same process could read the indexes without any
token; the process is the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final

from cloister.core.deadline import time_left, within
from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import ServerId
from cloister.core.own_thread import in_own_thread
from cloister.core.rights import Reader
from cloister.pods.overlay.fan_out import CarriedNode
from cloister.pods.overlay.overlay_node import OverlayNode
from cloister.pods.overlay.tokens import TokenVerifier, refused
from cloister.pods.search_server import SearchServer
from cloister.search.node import NodeRequest

__all__ = ["InProcessNode", "InProcessOverlay"]

TIMEOUT_S: Final = 10.0

Identify = Callable[[], Reader]


class InProcessOverlay:
    """Servers in this process, each asked in a thread of its own; use it in a ``with``.

    Parameters
    ----------
    servers
        The servers.
    tokens
        Verifies who asks.
    timeout_s
        How long a single call of a node may take. Python cannot end a thread: a node that is too
        slow is given up and works on in the background, in a thread that nobody else needs.
    """

    def __init__(
        self,
        servers: Iterable[SearchServer],
        tokens: TokenVerifier | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        listed = list(servers)
        self._servers = {server.server_id: server for server in listed}
        if len(self._servers) != len(listed):
            raise SettingsError("two servers have one name", where="InProcessOverlay")
        self._tokens = tokens
        self._timeout_s = timeout_s

    def nodes(self, token: str) -> list[InProcessNode]:
        """Return all servers as the holder of a token reaches them."""
        tokens = self._tokens
        if tokens is None:
            raise refused()
        tokens.verify(token)
        return self._bound(lambda: tokens.verify(token).reader)

    def nodes_for_trusted(self, reader: Reader) -> list[InProcessNode]:
        """Return all servers as a reader reaches them, for whom the caller vouches."""
        return self._bound(lambda: reader)

    def __enter__(self) -> InProcessOverlay:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is kept open."""

    def gather(
        self, nodes: Sequence[CarriedNode], request: NodeRequest, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Ask each node in a thread of its own; leave out those that fail or take too long."""
        futures: dict[ServerId, Future[Any]] = {
            node.server_id: in_own_thread(
                partial(_ask_directly, node, request, time_left()), "search-node"
            )
            for node in nodes
        }
        done, _ = wait(futures.values(), timeout_s)
        return {
            name: future.result()
            for name, future in futures.items()
            if future in done and future.exception() is None
        }

    def ask_one(self, identify: Identify, server_id: ServerId, request: NodeRequest) -> Any:
        """Ask one server and wait for it."""
        reader = identify()
        future = in_own_thread(lambda: self._servers[server_id].ask(reader, request), "search-node")
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            raise NotFound(
                "no answer in time", where=server_id, remedy="ask again, or go on without it"
            ) from None

    def ask_here(self, identify: Identify, server_id: ServerId, request: NodeRequest) -> Any:
        """Ask one server in the calling thread."""
        return self._servers[server_id].ask(identify(), request)

    def _bound(self, identify: Identify) -> list[InProcessNode]:
        return [InProcessNode(self, identify, name) for name in sorted(self._servers)]


class InProcessNode(OverlayNode):
    """One server of this process, as one reader reaches it."""

    def __init__(self, overlay: InProcessOverlay, identify: Identify, server_id: ServerId) -> None:
        super().__init__(overlay, server_id)
        self._overlay = overlay
        self._identify = identify

    def ask_directly(self, request: NodeRequest) -> Any:
        """Ask in the calling thread, within its deadline."""
        return self._overlay.ask_here(self._identify, self.server_id, request)

    def _asked(self, request: NodeRequest) -> Any:
        return self._overlay.ask_one(self._identify, self.server_id, request)


def _ask_directly(node: CarriedNode, request: NodeRequest, left_s: float) -> Any:
    if not isinstance(node, InProcessNode):
        raise SettingsError("a node of another carrier", where=node.server_id)
    with within(left_s):
        return node.ask_directly(request)
