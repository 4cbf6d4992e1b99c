"""Bytes as a hostile client sends them."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

ANN = b"authorization: Bearer ann's token\r\n"
BOB = b"authorization: Bearer bob's token\r\n"


def connected(url: str, timeout_s: float = 15.0) -> socket.socket:
    """Connect to a service without TLS."""
    parts = urlsplit(url)
    assert parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), timeout_s)


def all_of(client: socket.socket) -> bytes:
    """Read until the server closes."""
    received = bytearray()
    try:
        while chunk := client.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return bytes(received)


def told(url: str, content: bytes) -> bytes:
    """Send some bytes on a new connection, and return all that comes until it is closed."""
    with connected(url) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(content)
        return all_of(client)


def first_answer(client: socket.socket) -> bytes:
    """Read one answer that says its length."""
    received = bytearray()
    while b"\r\n\r\n" not in received:
        chunk = client.recv(65536)
        assert chunk, bytes(received)
        received += chunk
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    while len(body) < int(length.split(b":")[1]):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    """Return the status of the first answer."""
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer[9:12])
