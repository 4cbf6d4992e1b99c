"""A client that stops in the middle of its handshake until it asks something."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from cloister.web.tls import TlsFiles, client_context


class SlowHandshake:
    """A handshake of which the server has done its part, and the client not yet."""

    def __init__(self, plain: socket.socket, host: str, files: TlsFiles) -> None:
        self._plain = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_context(files).wrap_bio(self._in, self._out, server_hostname=host)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._plain.sendall(self._out.read())
        self._in.write(self._plain.recv(65_536))

    def get(self, path: bytes) -> bytes:
        """Finish the handshake and ask; return the answer's first bytes, none where cut off."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._in.write(self._plain.recv(65_536))
        self._tls.write(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        try:
            self._plain.sendall(self._out.read())
            return self._read()
        except (ConnectionError, ssl.SSLEOFError):
            return b""

    def _read(self) -> bytes:
        while True:
            try:
                return self._tls.read(60)
            except ssl.SSLWantReadError:
                content = self._plain.recv(65_536)
                if not content:
                    return b""
                self._in.write(content)


@contextlib.contextmanager
def begun_handshake(url: str, files: TlsFiles) -> Iterator[SlowHandshake]:
    """Begin a handshake with a service."""
    parts = urlsplit(url)
    host = str(parts.hostname)
    with socket.create_connection((host, parts.port), 15) as plain:
        yield SlowHandshake(plain, host, files)
