"""Slow clients, silent clients, clients that do not read, and many of them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from cloister.web.limits import ServiceLimits
from cloister.web.metrics import ServiceMetrics
from web.certificates import Certificates, client_with
from web.raw_http import ANN, all_of, connected, first_answer, status_of
from web.small_service import serving

LIMITS = ServiceLimits(
    handshake_s=0.5,
    head_s=0.6,
    idle_s=0.6,
    body_s=1.5,
    max_connections=100,
    max_connections_of_address=20,
)
IN_TIME_S = 3.0  # for a look of the server, the linger of a close, and a busy machine
POST = (
    b"POST /v1/ask HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    + ANN
    + b"content-length: 1000\r\n\r\n"
)
GET = b"GET /v1/things/x HTTP/1.1\r\nhost: x\r\n" + ANN + b"\r\n"


@pytest.fixture(scope="module")
def metrics() -> ServiceMetrics:
    return ServiceMetrics()


@pytest.fixture(scope="module")
def url(metrics: ServiceMetrics) -> Iterator[str]:
    with serving(LIMITS, metrics=metrics) as address:
        yield address


@pytest.fixture(scope="module")
def tls_url(certificates: Certificates) -> Iterator[str]:
    with serving(LIMITS, certificates.server) as address:
        yield address


def test_a_head_that_does_not_end_is_cut(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n")
        assert status_of(all_of(client)) == 408
    assert 0.5 < time.monotonic() - started < 0.6 + IN_TIME_S


def test_a_head_that_comes_byte_by_byte_is_cut(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        client.settimeout(0.05)
        received = b""
        for byte in b"GET /health HTTP/1.1\r\nx-" + b"a" * 1000:
            try:
                client.sendall(bytes([byte]))
                received += client.recv(1000)
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
            if time.monotonic() - started > 6:
                break
    assert status_of(received) == 408
    assert time.monotonic() - started < 0.6 + IN_TIME_S


def test_a_silent_connection_is_closed(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        assert all_of(client) == b""
    assert time.monotonic() - started < 0.6 + IN_TIME_S


def test_a_connection_that_waits_for_its_next_request_is_closed(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        client.sendall(GET)
        assert status_of(first_answer(client)) == 200
        assert all_of(client) == b""
    assert 0.5 < time.monotonic() - started < 0.6 + IN_TIME_S


def test_a_body_that_stops_is_cut(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        client.sendall(POST + b'{"text": "')
        assert status_of(all_of(client)) == 408
    assert 0.5 < time.monotonic() - started < 0.6 + IN_TIME_S


def test_a_body_that_drips_is_cut_though_it_never_stops(url: str) -> None:
    started = time.monotonic()
    with connected(url) as client:
        client.sendall(POST)
        client.settimeout(0.2)
        received = b""
        while not received and time.monotonic() - started < 8:
            try:
                client.sendall(b" ")
                received = client.recv(1000)
            except TimeoutError:
                continue
    assert status_of(received) == 408
    assert 1.4 < time.monotonic() - started < 1.5 + IN_TIME_S


def test_a_slow_stranger_is_told_without_waiting_for_the_body(url: str) -> None:
    with connected(url) as client:
        client.sendall(POST.replace(b"ann", b"eve"))
        assert status_of(first_answer(client)) == 401


def test_what_follows_a_refusal_is_thrown_away_for_a_while_only(url: str) -> None:
    started, n_bytes = time.monotonic(), 0
    with connected(url) as client:
        client.sendall(POST.replace(b"ann", b"eve").replace(b"1000", b"1000000000"))
        assert status_of(first_answer(client)) == 401
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 10:
                n_bytes += client.send(bytes(1 << 16))
    assert time.monotonic() - started < 5
    assert n_bytes < 32 << 20  # with what the buffers of both sides take


def unread(client: socket.socket, url: str, path: bytes) -> None:
    client.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n" + ANN + b"\r\n")


@pytest.mark.parametrize("encrypted", [False, True])
def test_an_answer_that_is_not_read_is_given_up(
    url: str, tls_url: str, certificates: Certificates, encrypted: bool
) -> None:
    address = tls_url if encrypted else url
    with ExitStack() as stack:
        client = stack.enter_context(connected(address))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if encrypted:
            context = ssl.create_default_context(cafile=certificates.authority.path)
            client = stack.enter_context(
                context.wrap_socket(client, server_hostname=urlsplit(address).hostname)
            )
        unread(client, address, b"/v1/much/60000000")
        time.sleep(0.6 + 1.6)
        n_bytes = 0
        with contextlib.suppress(OSError):  # reset in the middle, or closed
            while chunk := client.recv(1 << 16):
                n_bytes += len(chunk)
    assert n_bytes < 60_000_000


def test_an_answer_that_is_read_slowly_but_steadily_comes_whole(url: str) -> None:
    with connected(url) as client:
        unread(client, url, b"/v1/much/3000000")
        n_bytes, started = 0, time.monotonic()
        while n_bytes < 3_000_000 and (chunk := client.recv(300_000)):
            n_bytes += len(chunk)
            time.sleep(0.05)
        assert n_bytes > 3_000_000
        assert time.monotonic() - started > 0.4


def test_idle_connections_do_not_lock_out_the_next_client(url: str) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(url)) for _ in range(64)]
        for client in idle[::2]:
            client.sendall(b"GET / HTTP/1.1\r\n")
        started = time.monotonic()
        assert httpx.get(url + "/health", trust_env=False).status_code == 200
        assert time.monotonic() - started < 0.5


def test_connections_that_work_are_kept_and_too_many_are_refused(
    url: str, metrics: ServiceMetrics
) -> None:
    with ExitStack() as stack:
        working = [stack.enter_context(connected(url)) for _ in range(20)]
        for client in working:
            client.sendall(POST)
        time.sleep(0.3)
        more = stack.enter_context(connected(url))
        assert all_of(more) == b""
        for client in working:
            client.sendall(b'{"text": "' + b"a" * 988 + b'"}')
        assert {status_of(first_answer(client)) for client in working} == {200}
    assert b'kind="too_many_connections"' in metrics.exposition()


def test_one_caller_does_not_take_all_the_room_and_large_bodies_are_counted(
    certificates: Certificates,
) -> None:
    limits = ServiceLimits(max_requests_at_once=2, max_binary_at_once=1)
    with serving(limits, certificates.server) as address, ExitStack() as stack:
        context = ssl.create_default_context(cafile=certificates.authority.path)
        parts = urlsplit(address)
        for _ in range(2):
            plain = stack.enter_context(connected(address))
            client = context.wrap_socket(plain, server_hostname=parts.hostname)
            stack.enter_context(client).sendall(POST)
        node = stack.enter_context(
            client_with(address, certificates.node, certificates.authority.path)
        )
        ann = stack.enter_context(client_with(address, None, certificates.authority.path))
        time.sleep(0.2)
        bob = {"authorization": "Bearer bob's token"}
        assert ann.get("/v1/things/x", headers=bob).status_code == 200
        again = ann.get("/v1/things/x", headers={"authorization": "Bearer ann's token"})
        assert (again.status_code, again.headers["x-refusal"]) == (429, "too_many")

        def slowly() -> Iterator[bytes]:
            yield b"begun"
            other = stack.enter_context(
                client_with(address, certificates.node, certificates.authority.path)
            )
            octets = {"content-type": "application/octet-stream"}
            answers.append(other.post("/v1/bytes", content=b"x", headers=octets))
            yield b" and ended"

        answers: list[httpx.Response] = []
        octets = {"content-type": "application/octet-stream"}
        first = node.post("/v1/bytes", content=slowly(), headers=octets)
        assert first.content == b"begun and ended"
        assert (answers[0].status_code, answers[0].headers["x-refusal"]) == (503, "busy")


def test_a_flood_of_connections_leaves_nothing_open(url: str, metrics: ServiceMetrics) -> None:
    for _ in range(10):
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connected(url))
    assert httpx.get(url + "/health", trust_env=False).status_code == 200
    deadline = time.monotonic() + 8
    while b"cloister_open_connections 0.0" not in metrics.exposition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_address_that_connects_too_often_is_refused_before_any_handshake() -> None:
    metrics = ServiceMetrics()
    limits = ServiceLimits(connections_a_minute=5)
    with serving(limits, metrics=metrics) as address:
        for _ in range(5):
            assert httpx.get(address + "/health", trust_env=False).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(address + "/health", trust_env=False)
    assert b'{kind="too_many_connections"} 1.0' in metrics.exposition()


def test_a_handshake_that_does_not_go_on_is_cut(tls_url: str) -> None:
    started = time.monotonic()
    with connected(tls_url) as client:
        client.sendall(b"\x16\x03\x01")
        assert all_of(client) == b""
    assert 0.4 < time.monotonic() - started < 0.5 + IN_TIME_S


def test_slow_clients_are_counted(url: str, metrics: ServiceMetrics) -> None:
    with connected(url) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        all_of(client)
    assert b'cloister_refusals_total{kind="slow"}' in metrics.exposition()
