"""The engine on Flower: calls are messages to SuperNodes, and replies are believed by signature.

Which site a SuperNode is of, Flower does not say: nodes that are new are asked, and sign who they
are. Flower's own waits decide the pace: a SuperNode looks for messages every three seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from cloister.core.errors import CloisterError
from cloister.federate.engines.flower.signed_messages import NodeId, SignedCall, SignedReply
from cloister.federate.engines.flower.site_desk import MESSAGE_TYPE, content_of, with_content
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteReply
from cloister.federate.engines.watching_engine import HELLO
from cloister.privacy.identity import Directory, SigningIdentity

__all__ = ["FlowerEngine"]

POLL_S: Final = 0.1  # on the machine of the SuperLink
_log: Final = logging.getLogger(__name__)


class _Sent(NamedTuple):
    """A message on its way: to which node, and what it asked."""

    node: NodeId
    call: SignedCall


class FlowerEngine:
    """Carries calls over a Grid. Threads may share it.

    Parameters
    ----------
    grid
        Flower's, of the run under way.
    identity
        The coordinator's signing key.
    known
        The public keys of all sites: whoever is not in here is no site.
    """

    def __init__(self, grid: Grid, identity: SigningIdentity, known: Directory) -> None:
        self._grid = grid
        self._identity = identity
        self._known = known
        self._lock = threading.RLock()
        self._nodes: dict[SiteId, NodeId] = {}
        self._asked_s: dict[NodeId, float] = {}  # when nodes were asked who they are
        self._asking: dict[str, _Sent] = {}

    def sites(self) -> tuple[SiteId, ...]:
        """Return all sites, in order, whether their SuperNodes are there or not."""
        return tuple(SiteId(name) for name in self._known)

    def meet(self, n_sites: int, timeout_s: float) -> tuple[SiteId, ...]:
        """Wait until so many sites have said who they are; return those who have."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._ask_who(timeout_s)
            self._hear_who()
            if len(self._nodes) >= n_sites or time.monotonic() > deadline:
                return tuple(sorted(self._nodes))
            time.sleep(POLL_S)

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        """Call sites; one whose SuperNode is not there, fails or is late is silent."""
        deadline = time.monotonic() + timeout_s
        waiting, sent = dict(calls), dict[str, _Sent]()
        replies: dict[SiteId, SiteReply] = {}
        new = self._ask_who(timeout_s) if waiting.keys() - self._nodes.keys() else set()
        while True:
            ready = {
                site: waiting.pop(site)
                for site in calls
                if site in waiting.keys() & self._nodes.keys()
            }
            sent |= self._send(ready, timeout_s)
            for site, _, content in self._take(sent):
                replies[site] = SiteReply.received(content)
            self._hear_who()
            on_its_way = sent or (waiting and any(one in self._asking for one in new))
            met = waiting.keys() & self._nodes.keys()
            if not (on_its_way or met) or time.monotonic() > deadline:
                return replies
            time.sleep(POLL_S)

    def _send(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[str, _Sent]:
        """Send calls to sites whose nodes are known."""
        return self._push(
            [(self._nodes[site], site, call.to_bytes()) for site, call in calls.items()], timeout_s
        )

    def _ask_who(self, timeout_s: float) -> set[str]:
        """Ask nodes of nobody who they are; return the questions to nodes never asked before."""
        now = time.monotonic()
        with self._lock:
            there = set(self._grid.get_node_ids()) - set(self._nodes.values())
            new = there - self._asked_s.keys()
            again = {node for node in there - new if now - self._asked_s[node] > timeout_s}
            asked = self._push([(node, "", HELLO.to_bytes()) for node in new | again], timeout_s)
            self._asking |= asked
            self._asked_s |= dict.fromkeys(new | again, now)
        return {number for number, sent in asked.items() if sent.node in new}

    def _hear_who(self) -> None:
        """Take the answers of nodes that were asked who they are."""
        with self._lock:
            for site, node, _ in self._take(self._asking):
                _log.info("site %s is at SuperNode %d", site, node)
                self._nodes[site] = node

    def _push(
        self, contents: Iterable[tuple[NodeId, str, bytes]], timeout_s: float
    ) -> dict[str, _Sent]:
        """Sign and send; return what is on its way, by Flower's number of the message."""
        sent = [
            _Sent(node, SignedCall.made(self._identity, node, site, content))
            for node, site, content in contents
        ]
        messages = [
            Message(with_content(one.call.to_bytes()), one.node, MESSAGE_TYPE, ttl=timeout_s)
            for one in sent
        ]
        with self._lock:
            numbers = list(self._grid.push_messages(messages)) if messages else []
        return {number: one for number, one in zip(numbers, sent, strict=True) if number}

    def _take(self, sent: dict[str, _Sent]) -> list[tuple[SiteId, NodeId, bytes]]:
        """Return what was answered and signed; answered messages are on their way no longer."""
        if not sent:
            return []
        with self._lock:
            messages = list(self._grid.pull_messages(list(sent)))
        heard = []
        for message in messages:
            asked = sent.pop(message.metadata.reply_to_message_id, None)
            if asked is None:
                continue
            if message.has_error():
                _log.warning("SuperNode %d: %s", asked.node, message.error.reason)
                continue
            try:
                reply = SignedReply.from_bytes(content_of(message))
                site = reply.check(self._known, asked.node, asked.call)
            except CloisterError as error:
                _log.warning("SuperNode %d: no answer of a site: %s", asked.node, error)
                continue
            heard.append((site, asked.node, reply.content))
        return heard
