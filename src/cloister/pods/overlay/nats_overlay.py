"""The searcher's side of NATS: one request to the chosen nodes, and what comes back in time.

Each node gets its own sealed request; all are sent at once, and answers come to one inbox. A node
that is not connected is known as missing at once, because the broker says that nobody listens.
The broker can drop, delay or forge a refusal, and so make a node missing; it cannot make an answer.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from cloister.core.errors import CloisterError, NotFound, SettingsError
from cloister.core.ids import ServerId
from cloister.pods.overlay.answer_cache import AnswerCache, AnswerKey, CachedAnswer
from cloister.pods.overlay.fan_out import CarriedNode
from cloister.pods.overlay.frames import AskFrame, ReplyFrame, ReplyKind, signed_content
from cloister.pods.overlay.nats_connection import NatsConnection, NatsSettings, node_subject
from cloister.pods.overlay.overlay_node import OverlayNode
from cloister.pods.overlay.parts import REFUSAL, PartsOfOne
from cloister.pods.overlay.proofs import Credential
from cloister.pods.overlay.sealing import SearcherSeal
from cloister.pods.overlay.wire import Question, decode_answer, encode_question
from cloister.privacy.identity import Directory
from cloister.search.node import NodeRequest

if TYPE_CHECKING:
    from nats.aio.msg import Msg

__all__ = ["NatsNode", "NatsOverlay"]

TIMEOUT_S: Final = 5.0
_SPARE_S: Final = 0.5  # what the thread waits longer than the loop
_NO_RESPONDERS: Final = "503"


class _Exchange(NamedTuple):
    """A message that was sent, whose answer is being waited for."""

    parts: PartsOfOne
    done: asyncio.Future[bytes | None]  # None for a refusal, or where nobody listens


class NatsOverlay:
    """Reaches the nodes of a federation for any user; close it, or use it in a ``with``.

    Parameters
    ----------
    settings
        How to reach the broker.
    directory
        The nodes' public keys by server id.
    timeout_s
        How long a single call of a node may take.
    cache
        Answers to be used again where a node says that nothing has changed.
    """

    def __init__(
        self,
        settings: NatsSettings,
        directory: Directory,
        *,
        timeout_s: float = TIMEOUT_S,
        cache: AnswerCache | None = None,
    ) -> None:
        self._federation = settings.federation
        self._directory = directory
        self._timeout_s = timeout_s
        self._cache = cache or AnswerCache()
        self._seal = SearcherSeal(directory)
        self._waiting: dict[str, _Exchange] = {}
        self._connection = NatsConnection(settings, name="cloister-searcher")
        self._inbox = self._connection.client.new_inbox()
        try:
            self._connection.run(self._listen(), settings.connect_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def is_connected(self) -> bool:
        """Whether the broker is reached just now."""
        return self._connection.is_connected

    def nodes(self, credential: Credential) -> list[NatsNode]:
        """Return all nodes of the directory as the holder of a credential reaches them."""
        return [NatsNode(self, credential, ServerId(name)) for name in self._directory]

    def gather(
        self, nodes: Sequence[CarriedNode], request: NodeRequest, timeout_s: float
    ) -> dict[ServerId, Any]:
        """Ask nodes at once; return the answers that came in time."""
        mine = [node for node in nodes if isinstance(node, NatsNode)]
        if len(mine) != len(nodes):
            raise SettingsError("a node of another carrier", where="NatsOverlay")
        if not mine or not self.is_connected:  # what is buffered now would arrive too late
            return {}
        plain = encode_question(Question(request))
        try:
            return self._connection.run(
                self._gathered(mine, request, plain, timeout_s), timeout_s + _SPARE_S
            )
        except TimeoutError:
            return {}

    def ask_one(self, node: NatsNode, request: NodeRequest) -> Any:
        """Ask one node; raise `NotFound` where it gave no answer, for whatever reason."""
        found = self.gather([node], request, self._timeout_s)
        if node.server_id not in found:
            raise NotFound(
                "no answer in time, or not allowed",
                where=node.server_id,
                remedy="ask again, or go on without it",
            )
        return found[node.server_id]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _listen(self) -> None:
        await self._connection.client.subscribe(f"{self._inbox}.*", cb=self._on_message)
        await self._connection.client.flush()

    async def _gathered(
        self, nodes: Sequence[NatsNode], request: NodeRequest, plain: bytes, timeout_s: float
    ) -> dict[ServerId, Any]:
        loop = asyncio.get_running_loop()
        tasks = {
            node.server_id: loop.create_task(self._asked(node, request, plain)) for node in nodes
        }
        done, late = await asyncio.wait(tasks.values(), timeout=timeout_s)
        for task in late:
            task.cancel()
        return {
            name: task.result()
            for name, task in tasks.items()
            if task in done and task.exception() is None and task.result() is not None
        }

    async def _asked(self, node: NatsNode, request: NodeRequest, plain: bytes) -> Any:
        """Return a node's answer, or None; a node that restarted is asked with its new prekey."""
        key = AnswerKey(node.credential.digest, node.server_id, plain)
        for fresh_prekey in (False, True):
            try:
                return await self._asked_once(node, request, key, fresh_prekey=fresh_prekey)
            except _Refused:
                continue
        return None

    async def _asked_once(
        self, node: NatsNode, request: NodeRequest, key: AnswerKey, *, fresh_prekey: bool
    ) -> Any:
        name = node.server_id
        if fresh_prekey or not self._seal.knows(name):
            await self._learn_prekey(name)
        known = self._cache.get(key)
        question = key.request
        if known is not None:
            question = encode_question(Question(request, known.version))
        return_prekey = self._seal.return_prekey()
        proof = node.credential.prove(name, signed_content(return_prekey, question))
        ask = AskFrame(node.credential.token, proof.text, return_prekey, question)
        envelope = await self._exchanged(
            node_subject(self._federation, name, "ask"), self._seal.seal(name, ask.to_bytes())
        )
        reply = ReplyFrame.from_bytes(self._seal.open(name, envelope), proof.nonce)
        if reply.kind is ReplyKind.UNCHANGED:
            return known.answer if known is not None else None
        answer = decode_answer(reply.content, request)
        if answer.server_id != name:
            return None
        self._cache.put(key, CachedAnswer(answer.version, answer, len(reply.content)))
        return answer

    async def _learn_prekey(self, server_id: ServerId) -> None:
        subject = node_subject(self._federation, server_id, "prekey")
        prekey = await self._exchanged(subject, b"")
        self._seal.learn(server_id, prekey)

    async def _exchanged(self, subject: str, message: bytes) -> bytes:
        """Send a message and wait for all parts of what comes back."""
        token = secrets.token_hex(12)
        exchange = _Exchange(PartsOfOne(), asyncio.get_running_loop().create_future())
        self._waiting[token] = exchange
        try:
            await self._connection.client.publish(subject, message, reply=f"{self._inbox}.{token}")
            answer = await exchange.done
        finally:
            del self._waiting[token]
        if answer is None:
            raise _Refused
        return answer

    async def _on_message(self, message: Msg) -> None:
        exchange = self._waiting.get(message.subject.rpartition(".")[2])
        if exchange is None or exchange.done.done():
            return
        headers = message.headers or {}
        if headers.get("Status") == _NO_RESPONDERS:
            exchange.done.set_exception(NotFound("nobody listens", where=message.subject))
            return
        if message.data == REFUSAL:
            exchange.done.set_result(None)
            return
        try:
            whole = exchange.parts.add(message.data)
        except CloisterError as error:
            exchange.done.set_exception(error)
            return
        if whole is not None:
            exchange.done.set_result(whole)


class _Refused(Exception):
    """The node, or the broker in its name, refused."""


class NatsNode(OverlayNode):
    """One node of the federation, as the holder of a credential reaches it."""

    def __init__(self, overlay: NatsOverlay, credential: Credential, server_id: ServerId) -> None:
        super().__init__(overlay, server_id)
        self._overlay = overlay
        self.credential = credential

    def _asked(self, request: NodeRequest) -> Any:
        return self._overlay.ask_one(self, request)
