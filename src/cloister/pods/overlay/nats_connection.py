"""A connection to a NATS broker: TLS, an nkey, and an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic import Field, field_validator

from cloister.core.errors import CloisterError, MissingDependency, SettingsError
from cloister.core.ids import ServerId, checked_id
from cloister.core.settings import Settings
from cloister.privacy.private_file import read_private_file

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["BrokerUnreachable", "NatsConnection", "NatsSettings", "inbox_of", "node_subject"]

T = TypeVar("T")
MAX_PENDING_BYTES: Final = 2**24  # what waits to be sent
_SUBJECT_WORD: Final = r"^[A-Za-z0-9_-]{1,64}$"
_log: Final = logging.getLogger(__name__)


class BrokerUnreachable(CloisterError):
    """No broker could be reached, or it refused the nkey."""

    usual_remedy = "see that the broker runs, and that its certificate and your nkey are right"


class NatsSettings(Settings):
    """How to reach the broker.

    Parameters
    ----------
    servers
        Addresses, as ``tls://host:port``; no others than TLS are known.
    federation
        Name of the federation; part of every subject.
    ca_file
        Certificates, in PEM, that the broker's certificate must go back to.
    nkey_seed_file
        The user's nkey seed, in a file that nobody else may read.
    connect_timeout_s
        How long the first connection may take, and each attempt later on, in whole seconds.
    reconnect_wait_s
        How long to wait between two attempts.
    """

    servers: tuple[str, ...] = Field(min_length=1)
    federation: str = Field(pattern=_SUBJECT_WORD)
    ca_file: Path
    nkey_seed_file: Path
    connect_timeout_s: int = Field(default=5, ge=1)
    reconnect_wait_s: float = Field(default=1.0, gt=0)

    @field_validator("servers")
    @classmethod
    def _tls_only(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        if not all(server.startswith("tls://") for server in servers):
            raise ValueError("an address begins with tls://")
        return servers


def node_subject(federation: str, server_id: ServerId, what: str) -> str:
    """Return the subject on which a node listens; the broker sees a hash of the server's name.

    The hash keeps any name within what NATS allows. It hides nothing: who knows the name can
    compute it.

    Examples
    --------
    >>> node_subject("clinics", ServerId("https://a.example/"), "ask")
    'cloister.clinics.befde498a45b6c82084a07709548fe6f.ask'
    """
    digest = hashlib.sha256(checked_id(server_id).encode()).hexdigest()[:32]
    return f"cloister.{federation}.{digest}.{what}"


def inbox_of(public_nkey: str) -> str:
    """Return the prefix of the subjects on which a user's answers arrive."""
    return f"_INBOX_{public_nkey}"


class NatsConnection:
    """A connection that comes back by itself; close it, or use it in a ``with``.

    Its event loop runs in a thread of its own; `run` brings coroutines to it.
    """

    def __init__(self, settings: NatsSettings, *, name: str) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        try:
            self.client: Client = self.run(self._connected(name), settings.connect_timeout_s + 5)
        except BaseException:
            self._stop()
            raise

    @property
    def is_connected(self) -> bool:
        """Whether the broker is reached just now."""
        return self.client.is_connected

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the connection's loop and wait for its result."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            work.close()
            raise SettingsError("the connection is closed, or calls itself", where="NATS")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def close(self) -> None:
        """Close the connection and end its thread; a second call does nothing."""
        if not self._thread.is_alive():
            return
        try:
            self.run(self.client.close(), 5)
        except (TimeoutError, OSError):
            _log.debug("the connection did not close in time")
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _connected(self, name: str) -> Client:
        try:
            import nkeys
            from nats.errors import Error

            from cloister.pods.overlay.tls_only_client import TlsOnlyClient
        except ImportError:
            raise MissingDependency(
                "NATS needs nats-py and nkeys", remedy="pip install 'cloister[solid]'"
            ) from None
        seed = read_private_file(self.settings.nkey_seed_file).strip()
        client = TlsOnlyClient()
        causes = ["TimeoutError"]

        async def note(error: Exception) -> None:
            causes.append(type(error).__name__)
            _log.debug("NATS: %s", causes[-1])
            del causes[:-1]

        try:
            public = nkeys.from_seed(bytearray(seed)).public_key.decode()
            first = client.connect(
                list(self.settings.servers),
                name=name,
                tls=ssl.create_default_context(cafile=str(self.settings.ca_file)),
                nkeys_seed_str=seed.decode(),
                inbox_prefix=inbox_of(public),
                connect_timeout=self.settings.connect_timeout_s,
                reconnect_time_wait=self.settings.reconnect_wait_s,  # type: ignore[arg-type]
                max_reconnect_attempts=-1,  # the client would try the first time for ever too
                pending_size=MAX_PENDING_BYTES,
                error_cb=note,
            )
            await asyncio.wait_for(first, self.settings.connect_timeout_s)
        except (OSError, Error, TimeoutError, ValueError) as error:
            cause = causes[-1] if isinstance(error, TimeoutError) else type(error).__name__
            raise BrokerUnreachable(
                f"cannot connect ({cause})", where=", ".join(self.settings.servers)
            ) from None
        return client

    def _stop(self) -> None:
        """End the loop; what still runs on it is cancelled first."""

        async def cancel_all() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel_all(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()
