"""A pod's server on loopback that does to each request what a test tells it to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Deed = Callable[[socket.socket, str], None]


class HostileServer:
    """Reads a request's first line and gives the connection to a deed; one thread for each."""

    def __init__(self, deed: Deed) -> None:
        self.deed = deed
        self.n_requests = 0
        self.heads: list[bytes] = []
        self.closed_early = threading.Event()  # the other end closed while it was sent something
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://localhost:{self._listener.getsockname()[1]}/"

    def close(self) -> None:
        self._ended = True
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ended:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = connection.recv(65_536)
            if not head:  # the client changed its mind
                return
            self.n_requests += 1
            self.heads.append(head)
            try:
                self.deed(connection, head.split(b" ")[1].decode() if head[:1] != b"\x16" else "")
            except OSError:
                self.closed_early.set()


@contextmanager
def hostile_server(deed: Deed) -> Iterator[HostileServer]:
    server = HostileServer(deed)
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes, kind: str = "text/plain", *headers: str) -> bytes:
    lines = [
        "HTTP/1.1 200 OK",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "connection: close",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def drip(connection: socket.socket, start: bytes, every_s: float = 0.05) -> None:
    """Send a beginning, then a byte now and then, for as long as anybody listens."""
    connection.sendall(start)
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        connection.sendall(b"a")
        time.sleep(every_s)
