"""The searcher's side of HTTPS: a node asks other nodes on behalf of one of its users.

Requests travel inside mutual TLS, so nothing is sealed. As through NATS, each carries a token about
the user and a proof for this node and this question (`tokens`, `proofs`), and is answered once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from cloister.core.closing import Closing
from cloister.core.errors import CloisterError, NotFound, SettingsError
from cloister.core.ids import ServerId
from cloister.pods.overlay.fan_out import CarriedNode
from cloister.pods.overlay.frames import AskFrame, ReplyFrame, ReplyKind, signed_content
from cloister.pods.overlay.overlay_node import OverlayNode
from cloister.pods.overlay.proofs import Credential
from cloister.pods.overlay.wire import Question, decode_answer, encode_question
from cloister.search.node import NodeRequest
from cloister.web.client import PeerClient, PeerUnreachable

__all__ = ["ASK_PATH", "HttpsNode", "HttpsOverlay"]

ASK_PATH: Final = "/v1/ask"
TIMEOUT_S: Final = 5.0
N_THREADS: Final = 8  # for each node
AWAY_S: Final = 5.0  # for which a node that was silent is not asked


class _Way:
    """The way to one node: threads of its own, so that a slow node holds up nobody else's."""

    def __init__(self, client: PeerClient, n_threads: int) -> None:
        self.client = client
        self.pool = ThreadPoolExecutor(n_threads, thread_name_prefix="https-overlay")
        self.away_until = -math.inf

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.client.close()


class HttpsOverlay(Closing):
    """Reaches nodes by their addresses, for any user; close it, or use it in a ``with``.

    A node that did not answer in time is left alone for some seconds, and missing meanwhile.

    Parameters
    ----------
    nodes
        Clients that check which node answers, by server.
    timeout_s
        How long a single call of a node may take.
    n_threads
        Calls of one node at a time; others wait, and may be too late.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        nodes: Mapping[ServerId, PeerClient],
        *,
        timeout_s: float = TIMEOUT_S,
        n_threads: int = N_THREADS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ways = {name: _Way(client, n_threads) for name, client in sorted(nodes.items())}
        self._timeout_s = timeout_s
        self._clock = clock

    def nodes(self, credential: Credential) -> list[HttpsNode]:
        """Return all nodes as the holder of a credential reaches them."""
        return [HttpsNode(self, credential, name) for name in self._ways]

    def gather(
        self, nodes: Sequence[CarriedNode], request: NodeRequest, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Ask nodes at once; return the answers that came in time."""
        mine = [node for node in nodes if isinstance(node, HttpsNode)]
        if len(mine) != len(nodes):
            raise SettingsError("a node of another carrier", where="HttpsOverlay")
        question, now = encode_question(Question(request)), self._clock()
        futures: dict[ServerId, Future[Any]] = {
            node.server_id: self._ways[node.server_id].pool.submit(
                self._asked, node, request, question, timeout_s
            )
            for node in mine
            if self._ways[node.server_id].away_until <= now
        }
        done, late = wait(futures.values(), timeout_s)
        for name, future in futures.items():
            if future in late and not future.cancel():  # it was asked, and is silent
                self._leave_alone(name)
        return {
            name: future.result()
            for name, future in futures.items()
            if future in done and future.exception() is None
        }

    def ask_one(self, node: HttpsNode, request: NodeRequest) -> Any:
        """Ask one node; raise `NotFound` where it gave no answer, for whatever reason."""
        try:
            return self._asked(node, request, encode_question(Question(request)), self._timeout_s)
        except CloisterError:
            raise NotFound(
                "no answer in time, or not allowed",
                where=node.server_id,
                remedy="ask again, or go on without it",
            ) from None

    def close(self) -> None:
        """Let go of all connections."""
        for way in self._ways.values():
            way.close()

    def _leave_alone(self, name: ServerId) -> None:
        self._ways[name].away_until = self._clock() + AWAY_S

    def _asked(
        self, node: HttpsNode, request: NodeRequest, question: bytes, timeout_s: float
    ) -> Any:
        credential, client = node.credential, self._ways[node.server_id].client
        proof = credential.prove(node.server_id, signed_content(b"", question))
        ask = AskFrame(credential.token, proof.text, b"", question)
        began = time.monotonic()
        try:
            content = client.post_bytes(ASK_PATH, ask.to_bytes(), timeout_s=timeout_s)
        except PeerUnreachable:
            if time.monotonic() - began >= timeout_s / 2:  # silent, and not gone
                self._leave_alone(node.server_id)
            raise
        reply = ReplyFrame.from_bytes(content, proof.nonce)
        if reply.kind is not ReplyKind.ANSWER:
            raise NotFound("no answer", where=node.server_id)
        return decode_answer(reply.content, request)


class HttpsNode(OverlayNode):
    """One node of the federation, as the holder of a credential reaches it."""

    def __init__(self, overlay: HttpsOverlay, credential: Credential, server_id: ServerId) -> None:
        super().__init__(overlay, server_id)
        self._overlay = overlay
        self.credential = credential

    def _asked(self, request: NodeRequest) -> Any:
        return self._overlay.ask_one(self, request)
