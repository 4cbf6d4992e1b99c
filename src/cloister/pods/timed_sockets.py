"""Connections that keep to one deadline from the first look-up of a name to the last byte.

httpx limits each step of an exchange. A server that sends a byte before each step's limit is never
cut off. Here every wait, of whatever kind, gets what is left of the time for the whole exchange
(`cloister.core.deadline`): finding the address, connecting, the TLS handshake, headers, body.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

import httpcore
import httpx

from cloister.core.deadline import time_left
from cloister.core.own_thread import in_own_thread

__all__ = ["FAILURES", "TimedTransport"]

T = TypeVar("T")
KEEP_S: Final = 5.0  # for which a connection waits for the next request
WRITE_BYTES: Final = 65_536
LONGEST_WAIT_S: Final = 3600.0
FAILURES: Final = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


class TimedTransport(httpx.BaseTransport):
    """HTTP/1.1 for httpx, with one deadline for each exchange. Threads may share it.

    Parameters
    ----------
    n_connections
        At most, at a time.
    """

    def __init__(self, n_connections: int) -> None:
        self._sockets = _OpenSockets()
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=n_connections,
            max_keepalive_connections=n_connections,
            keepalive_expiry=KEEP_S,
            network_backend=_Backend(self._sockets),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the time left is that of `cloister.core.deadline.within`."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        waits = {"pool": min(time_left(), LONGEST_WAIT_S)}
        answer = self._pool.handle_request(
            httpcore.Request(
                request.method,
                url,
                headers=request.headers.raw,
                content=request.stream,
                extensions={"timeout": waits},
            )
        )
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), request=request
        )

    def close(self) -> None:
        """Close all connections; exchanges that are under way fail at once."""
        self._sockets.shut()
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Any:
        return self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _OpenSockets:
    """The sockets that are in use, so that whoever waits at one can be woken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_shut = False

    def add(self, opened: socket.socket) -> None:
        with self._lock:
            self._open.add(opened)
            shut = self._is_shut
        if shut:
            _shut(opened)

    def remove(self, closed: socket.socket) -> None:
        with self._lock:
            self._open.discard(closed)

    def shut(self) -> None:
        with self._lock:
            self._is_shut = True
            listed = list(self._open)
        for opened in listed:
            _shut(opened)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, sockets: _OpenSockets) -> None:
        self._sockets = sockets

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = _addresses(host, port)
        refused: Exception = httpcore.ConnectError("no address")
        for number, (family, kind, protocol, _, address) in enumerate(found):
            opened = socket.socket(family, kind, protocol)
            self._sockets.add(opened)
            try:
                # What hangs at one address must leave time for the next.
                opened.settimeout(_left(httpcore.ConnectTimeout) / (len(found) - number))
                opened.connect(address)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                late = isinstance(error, TimeoutError)
                refused = (httpcore.ConnectTimeout if late else httpcore.ConnectError)(str(error))
                self._sockets.remove(opened)
                opened.close()
                continue
            except BaseException:
                self._sockets.remove(opened)
                opened.close()
                raise
            return _Stream(opened, self._sockets)
        raise refused


class _Stream(httpcore.NetworkStream):
    def __init__(self, opened: socket.socket, sockets: _OpenSockets) -> None:
        self._socket = opened
        self._sockets = sockets

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        def receive() -> bytes:
            self._socket.settimeout(_left(httpcore.ReadTimeout))
            return self._socket.recv(max_bytes)

        return _mapped(receive, httpcore.ReadTimeout, httpcore.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        def send() -> None:
            rest = memoryview(buffer)
            while rest:
                self._socket.settimeout(_left(httpcore.WriteTimeout))
                rest = rest[self._socket.send(rest[:WRITE_BYTES]) :]

        _mapped(send, httpcore.WriteTimeout, httpcore.WriteError)

    def close(self) -> None:
        self._sockets.remove(self._socket)
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        plain = self._socket

        def wrap() -> ssl.SSLSocket:
            plain.settimeout(_left(httpcore.ConnectTimeout))  # holds for the whole handshake
            return ssl_context.wrap_socket(plain, server_hostname=server_hostname)

        try:
            wrapped = _mapped(wrap, httpcore.ConnectTimeout, httpcore.ConnectError)
        except BaseException:
            self.close()
            raise
        self._sockets.remove(plain)
        self._sockets.add(wrapped)
        return _Stream(wrapped, self._sockets)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return _is_readable(self._socket)
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        return None


def _addresses(host: str, port: int) -> list[Any]:
    """Look a name up; the system's resolver knows no deadline, so it gets its own thread."""
    looked_up = in_own_thread(
        lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "look-up"
    )
    try:
        return looked_up.result(min(time_left(), LONGEST_WAIT_S))
    except TimeoutError:
        raise httpcore.ConnectTimeout("the name was not found in time") from None
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from None


def _left(late: Callable[[str], Exception]) -> float:
    left_s = time_left()
    if left_s <= 0:
        raise late("the exchange took too long")
    return min(left_s, LONGEST_WAIT_S)


def _mapped(work: Callable[[], T], late: type[Exception], failed: type[Exception]) -> T:
    try:
        return work()
    except TimeoutError:
        raise late("the exchange took too long") from None
    except OSError as error:  # of TLS too
        raise failed(str(error)) from None


def _is_readable(opened: socket.socket) -> bool:
    """Say whether a connection that waits has something to read: then the other end closed it."""
    with suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        return bool(poll.poll(0))
    return True


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
