"""Connections that outlive the certificate that they were made with, until nobody uses them."""

from __future__ import annotations

import threading

import httpx

__all__ = ["ClientSession"]


class ClientSession:
    """Connections of a client that were made with one certificate.

    Parameters
    ----------
    http
        Closed when the session is retired and nobody uses it any more.
    """

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self._lock = threading.Lock()
        self._n_users, self._retired = 0, False

    def enter(self) -> None:
        """Begin to use it."""
        with self._lock:
            self._n_users += 1

    def leave(self) -> None:
        """End using it."""
        with self._lock:
            self._n_users -= 1
            self._close_if_done()

    def retire(self) -> None:
        """Let nobody use it any more."""
        with self._lock:
            self._retired = True
            self._close_if_done()

    def _close_if_done(self) -> None:
        if self._retired and self._n_users == 0:
            self.http.close()
