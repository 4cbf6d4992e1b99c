"""A real TLS handshake between two certificates, over a pair of sockets on this machine."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path
from typing import NamedTuple

from cloister.privacy.certificates.authority import Authority, CertificateFiles

TIMEOUT_S = 20.0


class Handshake(NamedTuple):
    """What each side saw: the other's URI, or the error."""

    client: str
    server: str

    @property
    def accepted(self) -> bool:
        return self.client.startswith("cloister:") and self.server.startswith("cloister:")


def context(
    authority: Authority, files: CertificateFiles | None, *, server: bool
) -> ssl.SSLContext:
    """Trust one authority and its list of revoked certificates, and nobody else."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    made.load_verify_locations(authority.certificate_path)
    made.load_verify_locations(authority.list_path)
    if files is not None:
        made.load_cert_chain(files.certificate, files.key)
    return made


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, *, host: str = "localhost"
) -> Handshake:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(_serve(listener, server)))
        thread.start()
        client_saw = _ask(listener.getsockname()[1], client, host)
        thread.join(TIMEOUT_S)
    return Handshake(client_saw, seen[0])


def _serve(listener: socket.socket, context: ssl.SSLContext) -> str:
    listener.settimeout(TIMEOUT_S)
    connection, _ = listener.accept()
    connection.settimeout(TIMEOUT_S)
    try:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.sendall(b"welcome")  # with TLS 1.3 a client hears of a refusal only here
            return _uri(secure)
    except (ssl.SSLError, OSError) as error:
        return str(error)
    finally:
        connection.close()


def _ask(port: int, context: ssl.SSLContext, host: str) -> str:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        try:
            with context.wrap_socket(connection, server_hostname=host) as secure:
                return _uri(secure) if secure.recv(16) == b"welcome" else "closed"
        except (ssl.SSLError, OSError) as error:
            return str(error)


def _uri(secure: ssl.SSLSocket) -> str:
    names = (secure.getpeercert() or {}).get("subjectAltName", ())
    return next(str(value) for kind, value in names if kind == "URI")  # type: ignore[misc]


def server_files(authority: Authority, folder: Path, name: str = "server") -> CertificateFiles:
    return authority.issue("node", name, folder=folder, hosts=["localhost", "127.0.0.1"])
