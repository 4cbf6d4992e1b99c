"""To whom a user's token is sent: the home node of the federation, and nobody else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloister.core.errors import NotFound, SettingsError
from cloister.privacy.certificates.authority import Authority, CertificateFiles
from cloister.services.user_client import UserClient
from cloister.web.refusals import PeerUnreachable

TOKEN = "only-for-clinic-a"
HOSTS = ("127.0.0.1",)
ANSWER = b'{"n_pages": 3}'


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", "clinics")


@contextmanager
def listening(files: CertificateFiles) -> Iterator[tuple[str, list[bytes]]]:
    """Be a server that answers once, and remembers all that it is sent."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    def run() -> None:
        try:
            accepted, _ = server.accept()
            accepted.settimeout(10)
            with accepted, context.wrap_socket(accepted, server_side=True) as client:
                heard.append(client.recv(65_536))
                head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: "
                client.sendall(head + str(len(ANSWER)).encode() + b"\r\n\r\n" + ANSWER)
        except OSError:
            pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        thread = threading.Thread(target=run)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}", heard
        thread.join(timeout=20)


def asking(url: str, authority: Authority) -> UserClient:
    return UserClient(
        url,
        TOKEN,
        authority.certificate_path,
        revoked=authority.list_path,
        federation="clinics",
        node="clinic-a",
    )


def test_the_home_node_gets_the_token(authority: Authority, tmp_path: Path) -> None:
    files = authority.issue("node", "clinic-a", folder=tmp_path, hosts=HOSTS)
    with listening(files) as (url, heard), asking(url, authority) as client:
        assert client.kept() == 3
    assert TOKEN.encode() in heard[0]


@pytest.mark.parametrize("who", ["node/clinic-b", "broker/clinic-a", "coordinator/main"])
def test_another_service_of_the_federation_gets_no_byte(
    who: str, authority: Authority, tmp_path: Path
) -> None:
    role, _, name = who.partition("/")
    files = authority.issue(role, name, folder=tmp_path, hosts=HOSTS)
    with (
        listening(files) as (url, heard),
        asking(url, authority) as client,
        pytest.raises(PeerUnreachable),
    ):
        client.kept()
    assert b"".join(heard) == b""


def test_a_revoked_node_gets_no_byte(authority: Authority, tmp_path: Path) -> None:
    files = authority.issue("node", "clinic-a", folder=tmp_path, hosts=HOSTS)
    authority.revoke("node/clinic-a")
    with (
        listening(files) as (url, heard),
        asking(url, authority) as client,
        pytest.raises(PeerUnreachable),
    ):
        client.kept()
    assert b"".join(heard) == b""


def test_half_a_name_and_missing_files_are_refused(authority: Authority, tmp_path: Path) -> None:
    trusted = authority.certificate_path
    with pytest.raises(SettingsError, match="federation and node"):
        UserClient("https://127.0.0.1:1", TOKEN, trusted, node="clinic-a")
    with pytest.raises(NotFound, match=r"none\.pem"):
        UserClient("https://127.0.0.1:1", TOKEN, trusted, revoked=tmp_path / "none.pem")
