"""The engine between services: the coordinator calls each node over HTTPS, with mutual TLS."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from cloister.core.closing import Closing
from cloister.core.errors import CloisterError
from cloister.federate.engines.site_call import NO_CALL, SiteCall, SiteId, SiteReply
from cloister.web.client import PeerClient, PeerUnreachable

__all__ = ["ROUND_PATH", "HttpsEngine"]

ROUND_PATH: Final = "/v1/round"
_SPARE_S: Final = 0.5  # what waiting for all takes longer than waiting for one


class HttpsEngine(Closing):
    """Calls nodes by their addresses; close it, or use it in a ``with``. Threads may share it.

    Parameters
    ----------
    nodes
        Clients that check which node answers, by site.
    """

    def __init__(self, nodes: Mapping[SiteId, PeerClient]) -> None:
        self._nodes = dict(sorted(nodes.items()))
        # A second thread says hello to silent sites while a round is under way.
        self._pool = ThreadPoolExecutor(2 * max(1, len(nodes)), thread_name_prefix="https-engine")

    def sites(self) -> tuple[SiteId, ...]:
        """Return all nodes, in order."""
        return tuple(self._nodes)

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call nodes at the same time; one that cannot be reached in time is silent.

        Calls that were not begun by then are not made any more.
        """
        futures = {
            site: self._pool.submit(self._one, self._nodes[site], call, timeout_s)
            for site, call in calls.items()
            if site in self._nodes
        }
        finished, late = wait(futures.values(), timeout_s + _SPARE_S)
        for future in late:
            future.cancel()
        done = {site: future.result() for site, future in futures.items() if future in finished}
        return {site: reply for site, reply in done.items() if reply is not None}

    def _one(self, node: PeerClient, call: SiteCall, timeout_s: float) -> SiteReply | None:
        """Return the reply of a node; a refusal is one, and silence is None."""
        try:
            content = node.post_bytes(ROUND_PATH, call.to_bytes(), timeout_s=timeout_s)
        except PeerUnreachable:
            return None
        except CloisterError as error:
            return SiteReply(NO_CALL, b"", type(error).__name__)
        return SiteReply.received(content)

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for node in self._nodes.values():
            node.close()
