"""The searcher's side of HTTPS: a node asks other nodes on behalf of one of its users.

Requests travel inside mutual TLS, so nothing is sealed. As through NATS, each carries a token about
the user and a proof for this node and this question (`tokens`, `proofs`), and is answered once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Final, Self

from cloister.core.errors import CloisterError, NotFound, SettingsError
from cloister.core.ids import ServerId
from cloister.pods.overlay.fan_out import CarriedNode
from cloister.pods.overlay.frames import AskFrame, ReplyFrame, ReplyKind, signed_content
from cloister.pods.overlay.overlay_node import OverlayNode
from cloister.pods.overlay.proofs import Credential
from cloister.pods.overlay.wire import Question, decode_answer, encode_question
from cloister.search.node import NodeRequest
from cloister.web.client import PeerClient

__all__ = ["ASK_PATH", "HttpsNode", "HttpsOverlay"]

ASK_PATH: Final = "/v1/ask"
TIMEOUT_S: Final = 5.0
N_THREADS: Final = 16


class HttpsOverlay:
    """Reaches nodes by their addresses, for any user; close it, or use it in a ``with``.

    Parameters
    ----------
    nodes
        Clients that check which node answers, by server.
    timeout_s
        How long a single call of a node may take.
    """

    def __init__(
        self,
        nodes: Mapping[ServerId, PeerClient],
        *,
        timeout_s: float = TIMEOUT_S,
        n_threads: int = N_THREADS,
    ) -> None:
        self._nodes = dict(nodes)
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="https-overlay")

    def nodes(self, credential: Credential) -> list[HttpsNode]:
        """Return all nodes as the holder of a credential reaches them."""
        return [HttpsNode(self, credential, name) for name in sorted(self._nodes)]

    def gather(
        self, nodes: Sequence[CarriedNode], request: NodeRequest, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Ask nodes at once; return the answers that came in time."""
        mine = [node for node in nodes if isinstance(node, HttpsNode)]
        if len(mine) != len(nodes):
            raise SettingsError("a node of another carrier", where="HttpsOverlay")
        question = encode_question(Question(request))
        futures = {
            node.server_id: self._pool.submit(self._asked, node, request, question, timeout_s)
            for node in mine
        }
        done, late = wait(futures.values(), timeout_s)
        for future in late:
            future.cancel()
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
        self._pool.shutdown(wait=False, cancel_futures=True)
        for node in self._nodes.values():
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _asked(
        self, node: HttpsNode, request: NodeRequest, question: bytes, timeout_s: float
    ) -> Any:
        credential = node.credential
        proof = credential.prove(node.server_id, signed_content(b"", question))
        ask = AskFrame(credential.token, proof.text, b"", question)
        content = self._nodes[node.server_id].post_bytes(
            ASK_PATH, ask.to_bytes(), timeout_s=timeout_s
        )
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
