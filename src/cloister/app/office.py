"""What an operator and an officer ask of a federation's services, by connections that are kept."""

from __future__ import annotations

import threading
from typing import Any, Final

from cloister.core.closing import Closing
from cloister.services.federation_folder import FederationFolder
from cloister.web.client import PeerClient

__all__ = ["Office"]

TIMEOUT_S: Final = 60.0
OPERATOR: Final = "operator"
OFFICER: Final = "officer"


class Office(Closing):
    """Asks the services of a federation folder. Threads may share it.

    Parameters
    ----------
    folder
        The federation, with the certificates of both.
    """

    def __init__(self, folder: FederationFolder) -> None:
        self.folder = folder
        self._clients: dict[tuple[str, str], PeerClient] = {}
        self._lock = threading.Lock()

    def get(self, service: str, path: str, *, timeout_s: float = TIMEOUT_S) -> Any:
        """Read something as the officer, who can change nothing."""
        return self._client(service, OFFICER).get_json(path, timeout_s=timeout_s)

    def get_bytes(self, service: str, path: str) -> bytes:
        """Read bytes as the operator."""
        return self._client(service, OPERATOR).get_bytes(path)

    def post(self, service: str, path: str, body: object = None) -> Any:
        """Ask for something to be done, as the operator."""
        return self._client(service, OPERATOR).post_json(path, body)

    def put(self, service: str, path: str, body: object) -> Any:
        """Set something, as the operator."""
        return self._client(service, OPERATOR).put_json(path, body)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _client(self, service: str, holder: str) -> PeerClient:
        with self._lock:
            key = service, holder
            if key not in self._clients:
                self._clients[key] = self.folder.client(service, holder=holder, timeout_s=TIMEOUT_S)
            return self._clients[key]
