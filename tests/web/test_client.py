"""Asking another service: whom, for how long, how much."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    Conflict,
    DataError,
    NotFound,
    SettingsError,
)
from cloister.web.callers import Role, caller_uri
from cloister.web.client import PeerBusy, PeerClient, PeerUnreachable
from cloister.web.tls import TlsFiles
from web.authority import Authority
from web.certificates import Certificates
from web.small_service import FEDERATION, Ask

Talk = Callable[[ssl.SSLSocket], None]


def asking(url: str, files: TlsFiles, **changes: object) -> PeerClient:
    settings: dict[str, object] = {
        "federation": FEDERATION,
        "role": Role.NODE,
        "name": "clinic-a",
        "timeout_s": 10.0,
    }
    return PeerClient(url, files, **{**settings, **changes})  # type: ignore[arg-type]


@pytest.fixture
def node(secure_url: str, certificates: Certificates) -> Iterator[PeerClient]:
    with asking(secure_url, certificates.node) as client:
        yield client


def test_a_node_asks_a_node(node: PeerClient) -> None:
    assert node.get_json("/v1/things/x") == {"version": 1, "caller": "clinic-b", "text": "x"}
    content = bytes(range(256)) * 10_000
    assert node.post_bytes("/v1/bytes", content) == content
    assert node.get_bytes("/v1/much/100000") == bytes(100_000)


def test_threads_share_a_client(node: PeerClient) -> None:
    wrong: list[object] = []

    def ask(number: int) -> None:
        for _ in range(10):
            text = node.get_json(f"/v1/things/{number}")["text"]
            if text != str(number):
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("thing", "kind"),
    [
        ("denied", AccessDenied),
        ("hidden", NotFound),
        ("conflict", Conflict),
        ("budget", BudgetExceeded),
        ("data", DataError),
        ("store", PeerBusy),
        ("bug", PeerUnreachable),
    ],
)
def test_refusals_are_told_as_our_errors(
    node: PeerClient, thing: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        node.get_json(f"/v1/things/{thing}")
    assert type(caught.value) is kind


def test_a_user_route_is_not_there_for_a_node(node: PeerClient) -> None:
    with pytest.raises(NotFound):
        node.post_json("/v1/ask", Ask(text="hello"))


def test_nobody_listens(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with asking(f"https://127.0.0.1:{port}", certificates.node) as client:
        for ask in (client.get_json, lambda path: client.post_json(path, {})):
            with pytest.raises(PeerUnreachable, match="node clinic-a does not answer"):
                ask("/v1/x")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "https://", "https://a@b", "https://a/?x", "https://[::1", "x"]
)
def test_only_https_addresses_are_taken(url: str, certificates: Certificates) -> None:
    with pytest.raises(SettingsError):
        asking(url, certificates.node)


def is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if b"content-length" in line]
    return bool(end) and len(body) >= sum(int(line.split(b":")[1]) for line in lengths)


@contextmanager
def listening(files: TlsFiles, talk: Talk) -> Iterator[tuple[str, list[bytes]]]:
    """Be a TLS server that remembers all that it is sent."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            try:
                accepted, _ = server.accept()
            except TimeoutError:
                continue
            accepted.settimeout(10)
            try:
                with context.wrap_socket(accepted, server_side=True) as client:
                    client.settimeout(10)
                    while chunk := client.recv(65536):
                        heard.append(chunk)
                        if is_whole(b"".join(heard)):
                            talk(client)
                            break
            except OSError:
                pass
            finally:
                accepted.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.getsockname()[1]}", heard
    finally:
        stopping.set()
        thread.join(timeout=20)
        server.close()


def fine(client: ssl.SSLSocket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")


@pytest.mark.parametrize(
    ("uris", "reached"),
    [
        ((caller_uri(FEDERATION, Role.NODE, "clinic-a"),), True),
        ((caller_uri(FEDERATION, Role.NODE, "clinic-c"),), False),
        ((caller_uri(FEDERATION, Role.BROKER, "clinic-a"),), False),
        ((caller_uri("south", Role.NODE, "clinic-a"),), False),
        ((), False),
        (
            (
                caller_uri(FEDERATION, Role.NODE, "clinic-a"),
                caller_uri(FEDERATION, Role.NODE, "clinic-c"),
            ),
            False,
        ),
    ],
)
def test_a_server_that_is_not_the_one_meant_gets_no_byte_of_a_request(
    certificates: Certificates, uris: tuple[str, ...], reached: bool
) -> None:
    files = certificates.authority.issue("impostor", *uris)
    with (
        listening(files, fine) as (url, heard),
        asking(url, certificates.node) as client,
    ):
        if reached:
            assert client.post_json("/v1/x", {"text": "for clinic-a only"}) == {}
            assert b"for clinic-a only" in b"".join(heard)
        else:
            with pytest.raises(PeerUnreachable, match="certificate"):
                client.post_bytes("/v1/x", b"for clinic-a only")
            with pytest.raises(PeerUnreachable, match="certificate"):
                client.put_json("/v1/x", {"text": "for clinic-a only"})
            assert heard == []


def test_a_server_of_another_host_or_authority_or_revoked_gets_nothing(
    certificates: Certificates, tmp_path: Path
) -> None:
    authority, uri = Authority(tmp_path), caller_uri(FEDERATION, Role.NODE, "clinic-a")
    node = authority.issue("node", caller_uri(FEDERATION, Role.NODE, "clinic-b"))
    bad = authority.issue("bad", uri)
    authority.revoke(bad)
    elsewhere = authority.issue("elsewhere", uri, dns="elsewhere.example")
    cases = [(bad, "127.0.0.1"), (elsewhere, "localhost"), (certificates.stranger, "127.0.0.1")]
    for files, host in cases:
        with listening(files, fine) as (url, heard):
            with (
                asking(url.replace("127.0.0.1", host), node) as client,
                pytest.raises(PeerUnreachable),
            ):
                client.post_bytes("/v1/x", b"secret")
            assert heard == []


def drip(client: ssl.SSLSocket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(100):
        client.sendall(b"x")
        time.sleep(0.05)


def drip_head(client: ssl.SSLSocket) -> None:
    for _ in range(100):
        client.sendall(b"HTTP/1.1 200 OK\r\n"[:1])
        time.sleep(0.05)


def say_nothing(client: ssl.SSLSocket) -> None:
    time.sleep(1.2)


@pytest.mark.parametrize("talk", [drip, drip_head, say_nothing])
def test_an_exchange_is_over_in_time_however_the_server_drips(
    certificates: Certificates, talk: Talk
) -> None:
    with (
        listening(certificates.server, talk) as (url, _),
        asking(url, certificates.node, timeout_s=0.6) as client,
    ):
        started = time.monotonic()
        with pytest.raises(PeerUnreachable):
            client.get_bytes("/v1/x")
        assert time.monotonic() - started < 1.6


def test_a_server_that_does_not_shake_hands_is_given_up_in_time(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with asking(url, certificates.node, timeout_s=0.4) as client:
            started = time.monotonic()
            with pytest.raises(PeerUnreachable):
                client.post_bytes("/v1/x", b"x", timeout_s=0.3)
            assert time.monotonic() - started < 1.5


def endless(client: ssl.SSLSocket) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(1000):
        client.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")


def redirect(client: ssl.SSLSocket) -> None:
    client.sendall(
        b"HTTP/1.1 307 Elsewhere\r\nlocation: https://elsewhere.example/\r\n"
        b"content-length: 0\r\nconnection: close\r\n\r\n"
    )


def deep(client: ssl.SSLSocket) -> None:
    body = b"[" * 100_000
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


def refuse_deeply(client: ssl.SSLSocket) -> None:
    body = b"[" * 100_000
    client.sendall(b"HTTP/1.1 403 No\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


def come_later(client: ssl.SSLSocket) -> None:
    client.sendall(
        b"HTTP/1.1 429 Later\r\nretry-after: 7\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )


def garbage(client: ssl.SSLSocket) -> None:
    client.sendall(b"\x00\x01\x02 not http \r\n\r\n")


@pytest.mark.parametrize(
    ("talk", "kind"),
    [
        (endless, DataError),
        (redirect, PeerUnreachable),
        (deep, DataError),
        (refuse_deeply, AccessDenied),
        (come_later, PeerBusy),
        (garbage, PeerUnreachable),
    ],
)
def test_strange_answers_are_errors_of_ours(
    certificates: Certificates, talk: Talk, kind: type[Exception]
) -> None:
    with (
        listening(certificates.server, talk) as (url, _),
        asking(url, certificates.node, max_answer_bytes=1 << 20) as client,
    ):
        with pytest.raises(kind) as caught:
            client.get_json("/v1/x")
        if isinstance(caught.value, PeerBusy):
            assert caught.value.wait_s == 7.0


def test_no_proxy_of_the_environment_is_asked(
    secure_url: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with asking(secure_url, certificates.node) as client:
        assert client.get_json("/health") == {"status": "ok"}


def test_a_closed_client_says_so(secure_url: str, certificates: Certificates) -> None:
    client = asking(secure_url, certificates.node)
    client.close()
    with pytest.raises(SettingsError, match="closed"):
        client.get_json("/health")
