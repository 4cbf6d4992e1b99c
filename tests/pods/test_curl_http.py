"""What libcurl is told: no redirects, proxies, cookies or other protocols; connections end."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
import weakref
from base64 import urlsafe_b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.deadline import within
from cloister.core.errors import CloisterError, DataError, SettingsError
from cloister.pods import curl_http
from cloister.pods.curl_http import _POOL, MOST_COLD, MOST_IDLE, CurlTransport, _Handle, _Pool
from cloister.pods.dpop import DPoPKey
from cloister.pods.http_transport import sent_address
from cloister.pods.pod_gate import PodAway
from cloister.pods.solid_http import SolidHttp, _Answer, _Chunks, linked
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
    closed = threading.Event()

    def closing(connection: socket.socket, path: str) -> None:
        connection.sendall(HEAD + b"content-length: 5\r\n\r\ncough")
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with hostile_server(closing) as server:
        for n in range(1, 6):
            assert http.send("GET", server.address).content == b"cough"
            assert closed.wait(5)
            closed.clear()
            time.sleep(0.02)
            assert server.n_requests == n


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
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
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
        HEAD + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 400_000 + b"\r\n\r\n",
        b"",
    ],
    ids=lambda body: repr(body[17:40]),
)
def test_what_is_no_http_is_a_failure_and_soon(http: SolidHttp, body: bytes) -> None:
    with hostile_server(lambda connection, path: connection.sendall(body)) as server:
        began = time.monotonic()
        with pytest.raises(PodAway):
            http.send("GET", server.address)
        assert time.monotonic() - began < 2.0
    assert http.gate._failed == 1


@pytest.mark.parametrize(
    "line", ["HTTP/1.2 200 OK", "HTTP/7.1 200 OK", "ICY 200 OK", "HTTP/1.1 42 No", "nonsense", "\n"]
)
def test_an_answer_without_a_status_counts_as_a_failure(http: SolidHttp, line: str) -> None:
    said = line.encode() + b"\r\ncontent-length: 2\r\n\r\nok"
    serving = hostile_server(lambda connection, path: connection.sendall(said))
    with serving as server, pytest.raises(PodAway):
        http.send("GET", server.address)
    assert http.gate._failed == 1


def chunks(*pieces: bytes, extension: bytes = b"") -> bytes:
    told = [b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces]
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"".join(told) + b"0\r\n"


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (chunks(b"cough", b" and\r\n", b"0\r\n\r\n") + b"\r\n", b"cough and\r\n0\r\n\r\n"),
        (chunks(b"cough", extension=b";a=b") + b"\r\n", b"cough"),
        (chunks() + b"\r\n", b""),
        (chunks(b"cough") + b"etag: 2\r\nlink: <b>\r\n\r\n", b"cough"),
        (chunks(b"x" * 900_000) + b"\r\n", b"x" * 900_000),
    ],
    ids=("three", "extension", "none", "trailers", "long"),
)
def test_chunks_are_joined_and_trailers_change_nothing(
    http: SolidHttp, said: bytes, content: bytes
) -> None:
    with hostile_server(lambda connection, path: connection.sendall(said)) as server:
        found = http.send("GET", server.address, max_bytes=1_000_000)
    assert found.content == content
    assert found.headers == {"content-type": "text/plain", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    "start",
    [
        HEAD + b"transfer-encoding: chunked\r\n\r\n1;",
        HEAD + b"transfer-encoding: chunked\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
        HEAD + b"x: ",
        HEAD + b"content-length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 ",
        b"",
    ],
    ids=("extension", "size", "trailer", "header", "length", "status", "nothing"),
)
def test_bytes_beside_the_body_have_a_limit(http: SolidHttp, start: bytes) -> None:
    n_sent = [0]

    def flood(connection: socket.socket, path: str) -> None:
        connection.sendall(start)
        while n_sent[0] < 100_000_000:
            n_sent[0] += connection.send(b"0" * 100_000)

    with hostile_server(flood) as server, pytest.raises(CloisterError):
        http.send("GET", server.address, max_bytes=1000)
    assert n_sent[0] < 20_000_000  # what the system's buffers take


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 9), st.booleans())
def test_chunks_are_joined_however_they_come(pieces: list[bytes], step: int, named: bool) -> None:
    extension = b';a="' + b"b" * 80 + b'"' if named else b""
    said = chunks(*pieces, extension=extension).removeprefix(HEAD) + b"x: y\r\n\r\n"
    body = said.partition(b"\r\n\r\n")[2]
    content = bytearray()
    taking = _Chunks(content)
    for start in range(0, len(body), step):
        taking.take(body[start : start + step])
    assert bytes(content) == b"".join(pieces)


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, chunked"])
def test_coded_answers_are_refused(http: SolidHttp, coding: str) -> None:
    said = HEAD + b"transfer-encoding: %s\r\n\r\n0\r\n\r\n" % coding.encode()
    serving = hostile_server(lambda connection, path: connection.sendall(said))
    with serving as server, pytest.raises(CloisterError):
        http.send("GET", server.address)


@pytest.mark.parametrize("wait_s", [0.02, 0.5])
def test_what_a_server_sends_unasked_is_nobodys_answer(http: SolidHttp, wait_s: float) -> None:
    def poisoning(connection: socket.socket, path: str) -> None:
        connection.sendall(HEAD + b"content-length: 2\r\n\r\nok")
        time.sleep(0.01)
        connection.sendall(HEAD + b"content-length: 6\r\n\r\npoison")
        connection.recv(65536)

    with hostile_server(poisoning) as server:
        for _ in range(3):
            assert http.send("GET", server.address).content == b"ok"
            time.sleep(wait_s)


@pytest.mark.parametrize(
    "address",
    [
        "https://pods%2Eexample/",
        "https://-pods.example/",
        "https://fa\N{LATIN SMALL LETTER SHARP S}.example/",
        "https://pods.example:99999/",
        "https:///a",
        "https://[fe80::1%25eth0]/",
        "https://pods,example/",
        "https://pods example/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://pods.example.1./",
        "https://pods.example/\ud800",
    ],
)
def test_a_host_that_others_may_read_otherwise_is_refused(address: str) -> None:
    with pytest.raises(DataError):
        sent_address(address)


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.1"])
def test_numbers_are_not_looked_up(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    http = SolidHttp(timeout_s=1.0)
    with pytest.raises(PodAway, match="no connection"):
        http.send("GET", f"https://{host}:9/")
    http.close()


def test_a_proof_is_for_the_address_as_it_is_sent() -> None:
    claims = DPoPKey().proof(
        "GET", "https://pods.example/x y/caf\N{LATIN SMALL LETTER E WITH ACUTE}?a#b"
    )
    part = claims.split(".")[1]
    told = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert told["htu"] == "https://pods.example/x%20y/caf%C3%A9"


def test_an_empty_header_is_sent_and_none_is_made_up(http: SolidHttp) -> None:
    with hostile_server(lambda connection, path: connection.sendall(answer(b"ok"))) as server:
        http.send("POST", server.address, headers={"if-match": ""}, content=b"a")
    lines = server.heads[0].lower().split(b"\r\n")
    assert b"if-match:" in lines
    assert b"user-agent: cloister" in lines
    assert not any(line.startswith(b"content-type") for line in lines)


def test_a_handshake_that_hangs_is_cut(http: SolidHttp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"https://localhost:{server.getsockname()[1]}/"
        began = time.monotonic()
        with within(0.3), pytest.raises(PodAway, match="not in time"):
            http.send("GET", address)
        assert time.monotonic() - began < 1.5


def test_a_get_on_a_connection_that_died_is_sent_again_and_a_change_is_not(http: SolidHttp) -> None:
    unanswered: list[bytes] = []

    def dying(connection: socket.socket, path: str) -> None:
        connection.sendall(HEAD + b"content-length: 2\r\n\r\nok")
        unanswered.append(connection.recv(65536)[:3])

    with hostile_server(dying) as server:
        for _ in range(3):
            assert http.send("GET", server.address).content == b"ok"
        assert unanswered == [b"GET", b"GET"]
        assert http.send("PUT", server.address, content=b"a").status == 200
        assert b"PUT" not in unanswered
        assert [head[:3] for head in server.heads].count(b"PUT") == 1


def test_closing_ends_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3))
    http = SolidHttp(timeout_s=30.0)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(http.send, "GET", "https://pods.example/")
        time.sleep(0.1)
        began = time.monotonic()
        http.close()
        with pytest.raises(PodAway):
            asked.result(5)
        assert time.monotonic() - began < 1.0


def test_pods_need_no_httpx() -> None:
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "from cloister.pods.solid_client import SolidClient\n"
        "from cloister.pods.solid_http import SolidResponse\n"
        "answer = SolidResponse(200, {'link': '<a.acl>; rel=\"acl\"'}, b'')\n"
        "print(SolidClient().acl_address('https://pods.example/a', answer))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "https://pods.example/a.acl"


def test_links_are_read_in_linear_time() -> None:
    assert linked("<a.acl>; REL=acl", "acl") == "a.acl"
    assert linked('<a>; rel="type", <b>; rel="x acl y"', "acl") == "b"
    assert linked("", "acl") is None
    assert linked('<a.acl>; title="rel=acl"', "acl") is None
    assert linked('<b>; title="x; rel=acl"; rel="type", <a.acl>; rel=acl', "acl") == "a.acl"
    assert linked("<a.acl>; rel=type; rel=acl", "acl") is None
    for hostile in (
        "<" * 100_000,
        "<a>" + ";" * 100_000,
        "<a>" + " " * 100_000,
        "<a>;rel" + " " * 100_000,
        "<a>" + ';rel="' * 50_000,
        "<a>;" + "a" * 100_000,
    ):
        began = time.process_time()
        assert linked(hostile, "acl") is None
        assert time.process_time() - began < 0.5


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
    address, handler = counting
    before = _n_open()
    clients = [SolidHttp(timeout_s=5.0) for _ in range(5)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: clients[n % 5].send("GET", address), range(60)))
        list(pool.map(lambda n: clients[n % 5].send("PUT", address, content=b"a"), range(60)))
    transports = [client._transport for client in clients]
    warm = [one for one in _POOL._idle if one.owner in transports]
    assert {one.owner for one in warm} == set(transports)
    assert len(_POOL._idle) <= MOST_IDLE
    n_connections = len(handler.connections)
    for one in warm:
        one.idle_since -= 60
    for _ in range(100):  # nobody sends a request: they are cut all the same
        if not any(one.owner for one in warm):
            break
        time.sleep(0.1)
    assert not any(one.owner for one in warm)
    for one in _POOL._idle:
        one.idle_since -= 600
    _POOL.sweep()
    assert not _POOL._idle
    for client in clients:
        assert client.send("GET", address).status == 200
        client.close()
    assert len(handler.connections) == n_connections + len(clients)
    assert not any(one.owner for one in _POOL._idle)
    for one in _POOL._idle:
        one.idle_since -= 600
    _POOL.sweep()
    for _ in range(50):
        if _n_open() <= before:
            break
        time.sleep(0.1)  # the server closes its ends
    assert _n_open() <= before


def _handle_of(transport: CurlTransport) -> _Handle:
    handle = _Handle()
    handle.owner = transport
    return handle


def test_many_requests_to_some_pods_leave_others_their_connections() -> None:
    pool, honest = _Pool(), CurlTransport()
    pool.put(handle := _handle_of(honest))
    for _ in range(6):
        hostile = CurlTransport()
        for _ in range(6):
            pool.put(_handle_of(hostile))
    assert len(pool._idle) == MOST_IDLE
    assert pool.take(honest) is handle


def test_connections_are_swept_although_a_search_takes_them_all_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curl_http, "KEEP_S", 0.2)
    pool, transport = _Pool(), CurlTransport()
    taken = []

    class Closing:
        """A handle of libcurl; while it closes, searches take all that is idle."""

        def close(self) -> None:
            while pool._idle:
                taken.append(pool.take(transport))

    for _ in range(MOST_COLD + 2):
        pool.put(_Handle())
        pool._idle[-1].curl = Closing()
    until = time.monotonic() + 5
    while len(taken) < MOST_COLD and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    pool.put(handle := _handle_of(transport))
    while handle.owner is not None and time.monotonic() < until:
        time.sleep(0.02)
    assert handle.owner is None


def test_closing_needs_no_descriptor() -> None:
    def hang(connection: socket.socket, path: str) -> None:
        connection.recv(1)

    http = SolidHttp(timeout_s=10.0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with hostile_server(hang) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(http.send, "GET", server.address)
        while server.n_requests < 1:
            time.sleep(0.01)
        began = time.monotonic()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
            http.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        with pytest.raises(PodAway):
            asked.result(5)
        assert time.monotonic() - began < 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost, and its key in the same file."""
    file = tmp_path_factory.mktemp("jos\N{LATIN SMALL LETTER E WITH ACUTE}") / "c.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    key = file.with_name("k.pem")
    files = ["-keyout", str(key), "-out", str(file)]
    subprocess.run([*made.split(), *names, *files], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + key.read_bytes())
    return file


def _over_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_server_whose_certificate_does_not_hold_is_not_spoken_to(
    certificate: Path, http: SolidHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = type("Handler", (_Counting,), {"connections": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = _over_tls(certificate).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"https://localhost:{server.server_address[1]}/"
    try:
        with pytest.raises(PodAway, match="certificate"):
            http.send("GET", address)
        assert not handler.connections
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # as its operator trusts it
        for _ in range(10):
            assert http.send("GET", address).status == 200
        assert len(handler.connections) == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("none.pem")))
        http.close()
        other = SolidHttp(timeout_s=5.0)
        with pytest.raises(SettingsError, match="authorities"):
            other.send("GET", address)
        assert other.gate._failed == 0
        other.close()
    finally:
        server.shutdown()
        server.server_close()


def test_an_answer_that_comes_before_its_question_is_none_over_tls(
    certificate: Path, http: SolidHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS is read ahead: nothing shows at the socket."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    def poisoning(connection: socket.socket, path: str) -> None:
        said = [HEAD + b"content-length: %d\r\n\r\n" % len(one) + one for one in (b"ok", b"poison")]
        for one in said:
            tls.write(one)
        connection.sendall(outgoing.read())  # two records in one segment
        time.sleep(1.0)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"https://localhost:{listener.getsockname()[1]}/"

        def serve() -> None:
            nonlocal tls
            with listener.accept()[0] as connection:
                tls = _over_tls(certificate).wrap_bio(incoming, outgoing, server_side=True)
                is_asked = False
                while not is_asked:
                    incoming.write(connection.recv(65536))
                    with suppress(ssl.SSLWantReadError):
                        is_asked = bool(tls.read(65536))
                    if not is_asked and (told := outgoing.read()):
                        connection.sendall(told)
                poisoning(connection, "/")

        tls: Any = None
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        assert http.send("GET", address).content == b"ok"
        with pytest.raises(PodAway, match="before it was asked"):
            http.send("GET", address)
        serving.join()


def test_an_answer_that_was_refused_is_not_kept_in_memory(http: SolidHttp) -> None:
    long = HEAD + b"\r\n" + b"x" * 2_000_000
    freed: list[Any] = []

    class Noted(_Answer):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            freed.append(weakref.ref(self))

    gc.collect()
    gc.disable()
    try:
        with (
            hostile_server(lambda connection, path: connection.sendall(long)) as server,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr("cloister.pods.solid_http._Answer", Noted)
            for _ in range(3):
                try:
                    http.send("GET", server.address, max_bytes=1_000_000)
                except DataError:
                    continue
                pytest.fail("the answer is too long")
        assert len(freed) == 3
        assert not any(one() for one in freed)
    finally:
        gc.enable()


def test_ctrl_c_ends_an_exchange_at_once() -> None:
    program = (
        "import sys, time\n"
        "from cloister.pods.solid_http import SolidHttp\n"
        "print('asks', flush=True)\n"
        "SolidHttp(timeout_s=30.0).send('GET', sys.argv[1])\n"
    )
    with hostile_server(lambda connection, path: time.sleep(20)) as server:
        command = [sys.executable, "-c", program, server.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"asks\n"
            while not server.n_requests:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, told = process.communicate(timeout=10)
        assert time.monotonic() - began < 5.0
    assert b"KeyboardInterrupt" in told


def test_an_address_where_nobody_answers_is_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    http = SolidHttp(timeout_s=1.0)
    for _ in range(2):
        with pytest.raises(PodAway, match="no connection"):
            http.send("GET", "https://pods.example/")
    http.close()
    assert looked_up == ["pods.example"] * 2


def test_a_look_up_that_fails_in_time_does_not_wait_for_more_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TimeoutError("no name server answered")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    http = SolidHttp(timeout_s=5.0)
    began = time.monotonic()
    with pytest.raises(PodAway, match="no name server"):
        http.send("GET", "https://pods.example/")
    assert time.monotonic() - began < 1.0
    http.close()


def test_a_child_does_not_use_its_parents_connections(http: SolidHttp, counting: Any) -> None:
    address, handler = counting
    assert http.send("GET", address).status == 200
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if not child:
        found = b"failed"
        try:
            found = http.send("GET", address).content
        finally:
            os.write(writing, found)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"GET / 0"
    assert len(handler.connections) == 2
    assert http.send("GET", address).status == 200
    assert len(handler.connections) == 2
    os.close(reading)
    os.close(writing)


def test_the_time_left_of_a_search_holds(http: SolidHttp) -> None:
    with hostile_server(lambda connection, path: time.sleep(3)) as server:
        began = time.monotonic()
        with within(0.2), pytest.raises(PodAway, match="not in time"):
            http.send("GET", server.address)
        assert 0.15 < time.monotonic() - began < 1.0
        with within(0.0), pytest.raises(PodAway):
            http.send("GET", server.address)
