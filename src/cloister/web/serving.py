"""Serving a service until the process is told to end.

Beyond this machine TLS 1.3 is required. Services, operators and officers come with certificates of
the federation's authority; users come without. A certificate of another authority, one that is
revoked or has expired, fails the handshake. When the files change, new connections see the new
ones, old connections end after the request that they are in, and handshakes that began before come
to nothing: so renewal and revocation need no restart, and hold from about a second after the files
were written.

A certificate or a list that ends soon is said in the figures and daily in the log; when it is over,
the service is not ready (`cloister.web.tls_ends`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from cloister.core.errors import SettingsError
from cloister.web.addresses import is_loopback
from cloister.web.connections import Connection, OpenConnections
from cloister.web.door import Door
from cloister.web.limits import ServiceLimits
from cloister.web.listening import listening_socket
from cloister.web.logs import SeldomLog, failure, log_event
from cloister.web.metrics import ServiceMetrics
from cloister.web.tls import LiveTls, ServerTlsFiles
from cloister.web.tls_ends import EndWatch
from cloister.web.watched_protocol import HEAD_BYTES, Watch, WatchedProtocol

__all__ = ["serve"]

SHUTDOWN_S = 5  # for requests that are worked on when the process is told to end
_LOOKS_EVERY = 2  # ticks of uvicorn's, 0.1 s each
_REFRESHES_EVERY = 10


def serve(
    service: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ServerTlsFiles | None = None,
    behind_proxy: bool = False,
    limits: ServiceLimits | None = None,
    listening: Callable[[str], None] | None = None,
    stopping: threading.Event | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until an event is set; then return.

    Parameters
    ----------
    service
        Made by `cloister.web.service.make_service`, or with its own ``state.metrics``.
    host, port
        Where to listen; port 0 takes a free one.
    tls
        Our certificate and, in a federation, its authority; needed beyond this machine.
    behind_proxy
        A proxy on the way does TLS: listen beyond this machine without a certificate.
    limits
        On connections and slow clients.
    listening
        Told the address as soon as connections are taken.
    stopping
        Ends the serving when it is set: for a service in a thread, which signals do not reach.
    """
    if tls is None and not (behind_proxy or is_loopback(host)):
        raise SettingsError(
            "beyond this machine TLS is needed", where=host, remedy="give certificates"
        )
    live = LiveTls(tls) if tls is not None else None
    with listening_socket(host, port) as listener:
        server = _Server(service, listener, live, limits or ServiceLimits(), stopping)
        server.told = (listening, _address(host, listener, encrypted=tls is not None))
        server.run()


class _Server(uvicorn.Server):
    """uvicorn's server with our door."""

    told: tuple[Callable[[str], None] | None, str] = (None, "")

    def __init__(
        self,
        service: FastAPI,
        listener: socket.socket,
        tls: LiveTls[ServerTlsFiles] | None,
        limits: ServiceLimits,
        stopping: threading.Event | None,
    ) -> None:
        super().__init__(_config(service))
        self._metrics: ServiceMetrics = service.state.metrics
        self._seldom = SeldomLog()
        connections = OpenConnections(limits, self._metrics.open_connections.set)
        self._watch = Watch(limits, connections, self._refused)
        self._door = Door(listener, self._watch, tls, self._protocol)
        self._stopping = stopping
        self._ends: EndWatch | None = None
        if tls is not None:
            self._ends = EndWatch(lambda: tls.ends, self._metrics)
            service.state.tls_holds = self._ends.holds

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and return when told to end instead of dying of the signal."""
        with self.capture_signals():
            await self._serve(sockets)
            self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the service, then take connections, then tell the address."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            raise SettingsError("the service did not start", where=self.told[1])
        self.servers = [self._door]  # type: ignore[list-item]
        self._door.open()
        self.started = True
        log_event("started")
        if self.told[0] is not None:
            self.told[0](self.told[1])

    async def on_tick(self, counter: int) -> bool:
        """Look after connections and certificates, ten times a second at most."""
        if counter % _LOOKS_EVERY == 0:
            now = time.monotonic()
            for protocol in list(self.server_state.connections):
                _look(protocol, now)
        if counter % _REFRESHES_EVERY == 0:
            self._look_at_files()
        stopped = self._stopping is not None and self._stopping.is_set()
        return await super().on_tick(counter) or stopped

    def _look_at_files(self) -> None:
        if self._door.refresh_tls():
            for protocol in list(self.server_state.connections):
                protocol.shutdown()
        if self._ends is not None:
            self._ends.look()

    def _protocol(self, connection: Connection) -> WatchedProtocol:
        return WatchedProtocol(
            self._watch,
            connection,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=asyncio.get_running_loop(),
        )

    def _refused(self, kind: str) -> None:
        self._metrics.refused(kind)
        self._seldom.event("connection_refused", kind)


def _look(protocol: Any, now: float) -> None:
    """Look after one connection; whatever is wrong with it must not end the others."""
    try:
        protocol.look(now)
    except Exception as error:
        log_event("look_failed", level=logging.ERROR, **failure(type(error), error.__traceback__))
        protocol.transport.abort()


def _config(service: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        service,
        http=WatchedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )


def _address(host: str, listener: socket.socket, *, encrypted: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if encrypted else 'http'}://{shown}:{listener.getsockname()[1]}"
