"""What libcurl is told: no redirects, proxies, cookies or other protocols; connections end."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cloister.core.deadline import within
from cloister.core.errors import CloisterError, DataError, SettingsError
from cloister.pods.curl_http import CurlTransport
from cloister.pods.pod_gate import PodAway
from cloister.pods.solid_http import SolidHttp, _Answer
from pods.hostile_server import answer, hostile_server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@pytest.fixture
def http() -> Any:
    made = SolidHttp(timeout_s=5.0)
    yield made
    made.close()


class _Counting(BaseHTTPRequestHandler):
    """Says what it was asked for; counts connections."""

    protocol_version = "HTTP/1.1"
    connections: set[Any]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.connections.add(self.client_address)
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        told = f"{self.command} {self.path} {len(body)}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)


@pytest.fixture
def counting() -> Any:
    handler = type("Handler", (_Counting,), {"connections": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/", handler
    server.shutdown()
    server.server_close()


def _n_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("method", "content", "told"),
    [
        ("GET", None, b"GET /a 0"),
        ("HEAD", None, b""),
        ("PUT", b"", b"PUT /a 0"),
        ("PUT", b"x\0" * 2_000_000, b"PUT /a 4000000"),
        ("POST", None, b"POST /a 0"),
        ("DELETE", None, b"DELETE /a 0"),
        ("PATCH", b"abc", b"PATCH /a 3"),
    ],
)
def test_every_method_sends_what_it_has(
    http: SolidHttp, counting: Any, method: str, content: bytes | None, told: bytes
) -> None:
    for _ in range(2):
        found = http.send(method, counting[0] + "a", content=content)
        assert (found.status, found.content) == (200, told)


def test_connections_are_used_again_for_reading_but_not_for_changes(
    http: SolidHttp, counting: Any
) -> None:
    address, handler = counting
    for _ in range(20):
        http.send("GET", address)
        http.send("HEAD", address)
    assert len(handler.connections) == 1
    http.send("PUT", address, content=b"a")
    http.send("PUT", address, content=b"b")
    assert len(handler.connections) == 3


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(http: SolidHttp) -> None:
    with hostile_server(lambda connection, path: connection.sendall(answer(b"cough"))) as server:
        for _ in range(5):  # it closes after each answer
            assert http.send("GET", server.address).content == b"cough"


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("a/../b%20c", b"/a/../b%20c"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", b"/caf%C3%A9"),
        ("a#part", b"/a"),
        ("a{b}|c?d=e f", b"/a{b}|c?d=e%20f"),
    ],
)
def test_an_address_is_sent_as_it_is_or_quoted(
    http: SolidHttp, counting: Any, path: str, sent: bytes
) -> None:
    assert http.send("GET", counting[0] + path).content == b"GET " + sent + b" 0"


@pytest.mark.parametrize("header", ["a\r\nx: b", "a\nb", "a\0b", "\N{SNOWMAN}"])
def test_a_header_that_would_be_two_is_not_sent(
    http: SolidHttp, counting: Any, header: str
) -> None:
    with pytest.raises(DataError):
        http.send("GET", counting[0], headers={"if-match": header})
    assert not counting[1].connections


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://localhost/a", "http://pods/"])
def test_other_protocols_and_plain_http_elsewhere_are_refused(
    http: SolidHttp, address: str
) -> None:
    with pytest.raises(SettingsError):
        http.send("GET", address)
    for refused in ("file://localhost/etc/passwd", "ftp://localhost/a"):  # by libcurl, too
        with pytest.raises(DataError):
            http._transport.exchange("GET", refused, {}, None, _Answer(refused, None))


def test_redirects_and_proxies_are_not_followed(
    http: SolidHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://localhost:9/\r\ncontent-length: 0\r\n\r\n"
    with hostile_server(lambda connection, path: connection.sendall(moved)) as server:
        found = http.send("GET", server.address)
    assert (found.status, found.headers["location"]) == (302, "http://localhost:9/")


def test_interim_answers_are_passed_over_and_trailers_are_no_second_head(http: SolidHttp) -> None:
    body = (
        b"HTTP/1.1 103 Early Hints\r\nlink: </early>\r\ncontent-length: 999999999\r\n\r\n"
        + HEAD
        + b"transfer-encoding: chunked\r\n\r\n5\r\ncough\r\n0\r\ncontent-encoding: gzip\r\n\r\n"
    )
    with hostile_server(lambda connection, path: connection.sendall(body)) as server:
        found = http.send("GET", server.address)
    assert found.content == b"cough"
    assert "link" not in found.headers


@pytest.mark.parametrize(
    "body",
    [
        b"cough, and no head at all",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: b\r\n",
        HEAD + b"content-length: -5\r\n\r\n",
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        HEAD + b"content-length: 100\r\n\r\nhello",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 400_000 + b"\r\n\r\n",
        b"",
    ],
    ids=lambda body: repr(body[17:40]),
)
def test_what_is_no_http_is_a_failure_of_ours_and_soon(http: SolidHttp, body: bytes) -> None:
    with hostile_server(lambda connection, path: connection.sendall(body)) as server:
        began = time.monotonic()
        with pytest.raises(CloisterError):
            http.send("GET", server.address)
        assert time.monotonic() - began < 2.0


def test_closing_ends_what_is_under_way(counting: Any) -> None:
    def hang(connection: socket.socket, path: str) -> None:
        connection.sendall(HEAD)
        connection.recv(1)

    before = _n_open()
    http = SolidHttp(timeout_s=30.0)
    with hostile_server(hang) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(http.send, "GET", server.address) for _ in range(4)]
        while server.n_requests < 4:
            time.sleep(0.01)
        began = time.monotonic()
        http.close()
        for one in asked:
            with pytest.raises(PodAway):
                one.result(5)
        assert time.monotonic() - began < 0.5
    with pytest.raises(PodAway):
        http.send("GET", counting[0])
    time.sleep(0.1)
    assert _n_open() <= before + 2  # the listeners' own


def test_no_socket_is_left_open(counting: Any) -> None:
    address, _ = counting
    before = _n_open()
    clients = [SolidHttp(timeout_s=5.0) for _ in range(5)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: clients[n % 5].send("GET", address), range(60)))
        list(pool.map(lambda n: clients[n % 5].send("PUT", address, content=b"a"), range(60)))
    for client in clients:
        transport = client._transport
        assert isinstance(transport, CurlTransport)
        transport._idle = [one._replace(since=one.since - 60) for one in transport._idle]
        client.send("GET", address)  # the others are closed: nobody used them for a while
        assert len(transport._idle) == 1
        assert len(transport._sockets) <= 2
        client.close()
        assert not transport._sockets
    for _ in range(50):
        if _n_open() <= before:
            break
        time.sleep(0.1)  # the server closes its ends
    assert _n_open() <= before


def test_a_server_whose_certificate_does_not_hold_is_not_spoken_to(
    tmp_path: Path, http: SolidHttp
) -> None:
    key, certificate = tmp_path / "k.pem", tmp_path / "c.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made.split(), *names, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = type("Handler", (_Counting,), {"connections": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"https://localhost:{server.server_address[1]}/"
    try:
        with pytest.raises(PodAway, match="certificate"):
            http.send("GET", address)
        assert not handler.connections
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(certificate))  # as its operator trusts it
            assert http.send("GET", address).status == 200
    finally:
        server.shutdown()
        server.server_close()


def test_the_time_left_of_a_search_holds(http: SolidHttp) -> None:
    with hostile_server(lambda connection, path: time.sleep(3)) as server:
        began = time.monotonic()
        with within(0.2), pytest.raises(PodAway, match="not in time"):
            http.send("GET", server.address)
        assert 0.15 < time.monotonic() - began < 1.0
        with within(0.0), pytest.raises(PodAway):
            http.send("GET", server.address)
