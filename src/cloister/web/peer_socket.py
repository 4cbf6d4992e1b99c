"""Connections to other services that know whom they talk to before they send anything.

The check of the host's name says that the server has a certificate for that name. Within a
federation that is not enough: a node must not stand in for another. `PeerSocket` also compares the
role and name in the server's certificate, at the end of the handshake, before a byte of a request
is sent; and it keeps all its waiting within one deadline for the whole exchange.
"""

from __future__ import annotations

import ssl
import threading
import time
from typing import Any

from cloister.core.errors import AccessDenied
from cloister.web.callers import Caller, caller_of_certificate
from cloister.web.tls import TlsFiles, client_context

__all__ = ["Deadline", "peer_context", "peer_socket"]


class Deadline(threading.local):
    """When the exchange of the current thread must be over."""

    ends: float | None = None

    def begin(self, timeout_s: float) -> None:
        """Begin an exchange that may take so long in all."""
        self.ends = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the time left; a little where there is none, since 0 would not wait at all."""
        return 3600.0 if self.ends is None else max(0.001, self.ends - time.monotonic())

    def is_over(self) -> bool:
        """Tell whether there is no time left."""
        return self.ends is not None and time.monotonic() >= self.ends


def peer_context(
    files: TlsFiles, expected: Caller, federation: str, deadline: Deadline
) -> ssl.SSLContext:
    """Return a context whose sockets connect to one service of the federation only."""
    context = client_context(files)
    context.sslsocket_class = peer_socket(expected, federation, deadline)
    return context


def peer_socket(expected: Caller, federation: str, deadline: Deadline) -> type[ssl.SSLSocket]:
    """Return a kind of socket that connects to one service of the federation only."""

    class PeerSocket(ssl.SSLSocket):
        """A socket to one service."""

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            found = _named(self.getpeercert() or {}, federation)
            if found is None or found[:2] != expected[:2]:
                raise ssl.SSLCertVerificationError("the certificate names another service")

        def settimeout(self, value: float | None) -> None:
            left_s = deadline.left_s()
            super().settimeout(left_s if value is None else min(value, left_s))

    return PeerSocket


def _named(certificate: Any, federation: str) -> Caller | None:
    try:
        return caller_of_certificate(certificate, federation)
    except AccessDenied:
        return None
