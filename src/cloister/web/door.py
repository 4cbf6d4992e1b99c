"""Where connections come in: counted before anything is spent on them, TLS within a time."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from cloister.core.errors import CloisterError
from cloister.web.addresses import client_network
from cloister.web.connections import Connection
from cloister.web.logs import log_event
from cloister.web.rate_limits import TokenBuckets
from cloister.web.tls import LiveTls, ServerTlsFiles
from cloister.web.watched_protocol import Watch, WatchedProtocol

__all__ = ["Door"]

PAUSE_S: Final = 0.2  # where the process has no file left for another connection
SHUTDOWN_S: Final = 2.0  # for the end of TLS
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Door:
    """Accepts connections from a listener.

    It stands where asyncio's own server does, which counts nobody before the handshake.

    Parameters
    ----------
    listener
        A socket that listens and does not block.
    watch
        What all connections share.
    tls
        For new connections; without it they are plain.
    make_protocol
        Makes a connection's protocol.
    """

    def __init__(
        self,
        listener: socket.socket,
        watch: Watch,
        tls: LiveTls[ServerTlsFiles] | None,
        make_protocol: Callable[[Connection], WatchedProtocol],
    ) -> None:
        self._listener, self._watch, self._tls = listener, watch, tls
        self._make_protocol = make_protocol
        self._newcomers = TokenBuckets(watch.limits.connections_a_minute)
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Begin to accept."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more."""
        for task in (self._accepting, *self._handshakes):
            if task is not None:
                task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing is under way."""
        tasks = [task for task in (self._accepting, *self._handshakes) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def refresh_tls(self) -> bool:
        """Read certificates that changed; return whether there are new ones."""
        try:
            renewed = self._tls is not None and self._tls.refresh()
        except CloisterError as error:
            self._watch.refused("certificate_files")
            log_event("certificates_not_read", level=logging.ERROR, kind=type(error).__name__)
            return False
        if renewed:
            log_event("certificates_read")
        return renewed

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with self._listener:
            while True:
                try:
                    accepted, address = await loop.sock_accept(self._listener)
                except OSError as error:
                    await self._pause(error)
                else:
                    self._admit(loop, accepted, client_network(str(address[0])))

    async def _pause(self, error: OSError) -> None:
        """Go on where one client failed; wait where there is no room for any."""
        if error.errno in _NO_ROOM:
            self._watch.refused("no_room")
            await asyncio.sleep(PAUSE_S)

    def _admit(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, host: str) -> None:
        too_often = self._newcomers.take(host) > 0
        connection = None if too_often else self._watch.connections.admit(host)
        if connection is None:
            self._watch.refused("too_many_connections")
            accepted.close()
            return
        task = loop.create_task(self._shake_hands(loop, accepted, connection))
        connection.give_up = lambda: _cancel(task)
        self._handshakes.add(task)
        task.add_done_callback(lambda task: self._shaken(task, accepted, connection))

    async def _shake_hands(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, connection: Connection
    ) -> None:
        context = self._tls.context if self._tls is not None else None
        connection.is_outdated = lambda: self._tls is not None and self._tls.context is not context
        await loop.connect_accepted_socket(
            lambda: self._make_protocol(connection),
            accepted,
            ssl=context,
            ssl_handshake_timeout=self._watch.limits.handshake_s if context else None,
            ssl_shutdown_timeout=SHUTDOWN_S if context else None,
        )

    def _shaken(
        self, task: asyncio.Task[None], accepted: socket.socket, connection: Connection
    ) -> None:
        """Clear away what did not become a connection; a task may end before it began."""
        self._handshakes.discard(task)
        if not task.cancelled() and task.exception() is None:
            return
        if not task.cancelled():
            self._watch.refused("handshake")
        self._watch.connections.remove(connection)
        accepted.close()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
