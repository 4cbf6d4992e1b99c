"""The node's side of NATS: it dials out, listens on its own subjects, and answers sealed.

The node opens no port. What arrives is opened, verified and answered here; nothing that the broker
says about a sender is believed.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from cloister.core.errors import CloisterError
from cloister.pods.overlay.frames import AskFrame
from cloister.pods.overlay.nats_connection import NatsConnection, NatsSettings, node_subject
from cloister.pods.overlay.parts import PART_BYTES, REFUSAL, in_parts
from cloister.pods.overlay.proofs import ProofSettings, ProofVerifier
from cloister.pods.overlay.sealing import NodeSeal
from cloister.pods.overlay.tokens import TokenVerifier
from cloister.pods.overlay.wire import MAX_REQUEST_BYTES
from cloister.pods.search_server import SearchServer
from cloister.privacy.identity import SigningIdentity

if TYPE_CHECKING:
    from nats.aio.msg import Msg

__all__ = ["NatsNodeService"]

MAX_MESSAGE_BYTES: Final = MAX_REQUEST_BYTES + 100_000  # token, proof, padding and the seal
MAX_WAITING: Final = 256  # requests that wait or are answered; more are dropped
N_THREADS: Final = 4
_log: Final = logging.getLogger(__name__)


class NatsNodeService:
    """Serves one `SearchServer` through a broker; close it, or use it in a ``with``.

    Parameters
    ----------
    server
        What is served.
    identity
        The node's long-term key; searchers know its public half by the server's id.
    tokens
        Whom the node believes.
    settings
        How to reach the broker.
    prekey_folder
        See `NodeSeal`.
    """

    def __init__(
        self,
        server: SearchServer,
        identity: SigningIdentity,
        tokens: TokenVerifier,
        settings: NatsSettings,
        *,
        proofs: ProofSettings | None = None,
        prekey_folder: str | Path | None = None,
        n_threads: int = N_THREADS,
    ) -> None:
        self.server = server
        self._seal = NodeSeal(server.server_id, identity, prekey_folder=prekey_folder)
        self._verifier = ProofVerifier(server.server_id, tokens, settings=proofs)
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="node-service")
        self._tasks: set[asyncio.Task[None]] = set()
        self._connection = NatsConnection(settings, name="cloister-node")
        try:
            self._connection.run(self._listen(settings.federation), settings.connect_timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening and close the connection."""
        self._connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def handle(self, message: bytes) -> list[bytes]:
        """Return what is sent back for a message: the parts of an answer, or one refusal."""
        try:
            if len(message) > MAX_MESSAGE_BYTES:
                return [REFUSAL]
            opened = self._seal.open(message)
            ask = AskFrame.from_bytes(opened.content)
            reply = self.server.reply(ask, self._verifier)
            sealed = self._seal.seal(opened, ask.return_prekey, reply.to_bytes())
            return in_parts(sealed, self._part_bytes())
        except CloisterError:
            return [REFUSAL]
        except Exception as error:  # whatever else fails is told to nobody but the log
            _log.warning("%s: failed: %s", self.server.server_id, type(error).__name__)
            return [REFUSAL]

    async def _listen(self, federation: str) -> None:
        name = self.server.server_id
        client = self._connection.client
        await client.subscribe(node_subject(federation, name, "prekey"), cb=self._on_prekey)
        await client.subscribe(node_subject(federation, name, "ask"), cb=self._on_ask)
        await client.flush()

    async def _on_prekey(self, message: Msg) -> None:
        if message.reply:
            for part in in_parts(self._seal.prekey()):
                await message.respond(part)

    async def _on_ask(self, message: Msg) -> None:
        """Answer in the background, so that one slow request does not hold up the next."""
        if not message.reply or len(self._tasks) >= MAX_WAITING:
            return
        task = asyncio.get_running_loop().create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("%s: not sent: %s", self.server.server_id, type(error).__name__)

    async def _answer(self, message: Msg) -> None:
        loop = asyncio.get_running_loop()
        parts: list[Any] = await loop.run_in_executor(self._pool, self.handle, message.data)
        if self._connection.is_connected:  # a late answer is of no use
            for part in parts:
                await message.respond(part)

    def _part_bytes(self) -> int:
        return min(PART_BYTES, self._connection.client.max_payload - 1_024)
