"""A service as a process: memory, logs, signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from web.certificates import Certificates, client_with
from web.raw_http import ANN, all_of, connected, first_answer, status_of

TESTS = Path(__file__).parents[1]
LIMITS = "max_body_bytes=1048576&max_binary_bytes=4194304&requests_a_minute=100000"
GIGABYTE = 1_000_000_000
MEMORY_KIB = 60_000  # that a refusal may take beside a service that has done nothing yet
PRIVATE = ("my-own-words", "secret-document", "ann's token", "eve's token", "clinic-a:ann")


class Process(NamedTuple):
    """A service that runs, and where its logs go."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def peak_kib(self) -> int:
        """Return the most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1])

    def lines(self) -> list[dict[str, object]]:
        """Return its logs; a line that is being written is left out."""
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def lines_after(self, before: int, n_requests: int) -> list[dict[str, object]]:
        """Return the lines since, once there are so many about requests or connections.

        A line is written when its answer has been sent: a moment later than it is read.
        """
        until = time.monotonic() + 5
        while True:
            lines = self.lines()[before:]
            if sum("request_id" in line or "kind" in line for line in lines) >= n_requests:
                return lines
            assert time.monotonic() < until, lines
            time.sleep(0.02)


@contextlib.contextmanager
def process_of(log: Path, *paths: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "web.small_service", LIMITS, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield Process(process, process.stdout.readline().strip(), log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=20)


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Process]:
    log = tmp_path_factory.mktemp("logs") / "service.jsonl"
    with process_of(log, *certificates.server.paths()) as running:
        yield running


@contextlib.contextmanager
def talking(service: Process, certificates: Certificates, holder: str) -> Iterator[socket.socket]:
    parts = urlsplit(service.url)
    context = ssl.create_default_context(cafile=certificates.authority.path)
    files = getattr(certificates, holder, None)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    with (
        socket.create_connection((parts.hostname, parts.port), 20) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as client,
    ):
        yield client


def head(path: bytes, kind: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join(
        [b"POST " + path + b" HTTP/1.1", b"host: x", b"content-type: " + kind, *lines, b"", b""]
    )


def sent_until_cut(client: socket.socket, part: bytes, n_bytes: int) -> int:
    """Send parts until the other side has enough; return how many bytes it took."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < n_bytes:
            client.sendall(part)
            sent += len(part)
    return sent


JSON, OCTETS = b"application/json", b"application/octet-stream"
CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.parametrize(
    ("holder", "path", "kind", "framing"),
    [
        ("ann", b"/v1/ask", JSON, b"content-length: 1000000000"),
        ("ann", b"/v1/ask", JSON, b"transfer-encoding: chunked"),
        ("node", b"/v1/bytes", OCTETS, b"content-length: 1000000000"),
        ("node", b"/v1/bytes", OCTETS, b"transfer-encoding: chunked"),
        ("nobody", b"/v1/bytes", OCTETS, b"content-length: 1000000000"),
        ("nobody", b"/v1/nothing", OCTETS, b"transfer-encoding: chunked"),
    ],
)
def test_a_gigabyte_is_refused_without_being_read(
    service: Process,
    certificates: Certificates,
    holder: str,
    path: bytes,
    kind: bytes,
    framing: bytes,
) -> None:
    before, n_lines = service.peak_kib(), len(service.lines())
    token = [ANN.strip()] if holder == "ann" else []
    part = CHUNK if b"chunked" in framing else b" " * 0x10000
    with talking(service, certificates, holder) as client:
        client.sendall(head(path, kind, framing, *token))
        sent = sent_until_cut(client, part, GIGABYTE)
        answer = b""
        with contextlib.suppress(OSError):
            answer = all_of(client)
    assert sent < 64 << 20
    if answer:  # a reset may come before the answer is read
        assert status_of(answer) == (401 if holder == "nobody" else 413)
    assert service.peak_kib() - before < MEMORY_KIB
    recent = service.lines_after(n_lines, 1)[-1]
    assert recent["status"] == (401 if holder == "nobody" else 413)


def test_a_refusal_of_a_gigabyte_can_be_read_before_it_is_sent(
    service: Process, certificates: Certificates
) -> None:
    with talking(service, certificates, "node") as client:
        lines = (b"content-length: 1000000000", b"expect: 100-continue")
        client.sendall(head(b"/v1/bytes", OCTETS, *lines))
        assert status_of(first_answer(client)) == 413


def test_deep_json_is_refused_in_a_short_time(service: Process, certificates: Certificates) -> None:
    with client_with(service.url, None, certificates.authority.path) as client:
        client.headers["authorization"] = "Bearer ann's token"
        for body in (b"[" * 100_000, b'{"text":' * 100_000, b"[" * 500_000 + b"]" * 500_000):
            started = time.monotonic()
            answer = client.post(
                "/v1/ask", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 400
            assert time.monotonic() - started < 2


def test_logs_are_json_lines_without_anything_that_a_caller_wrote(
    service: Process, certificates: Certificates
) -> None:
    before = len(service.lines())
    with client_with(service.url, None, certificates.authority.path) as client:
        client.headers["authorization"] = "Bearer ann's token"
        client.get("/v1/things/secret-document?q=my-own-words")
        client.get("/v1/my-own-words", headers={"x-words": "my-own-words"})
        client.get("/v1/things/bug?q=my-own-words", headers={"user-agent": "my-own-words"})
        client.get("/v1/things/hidden?q=my-own-words")
        client.get("/v1/things/store?q=my-own-words")
        client.post("/v1/ask", json={"text": "my-own-words", "my-own-words": 1})
        client.post("/v1/ask", content=b"my-own-words", headers={"content-type": "my-own-words"})
        client.request("MY", "/v1/my-own-words")
        client.get("/v1/things/x", headers={"authorization": "Bearer eve's token"})
    with client_with(service.url, certificates.node, certificates.authority.path) as client:
        client.get("/v1/things/secret-document")
    with client_with(service.url, certificates.operator, certificates.authority.path) as client:
        client.get("/metrics?q=my-own-words")
    lines = service.lines_after(before, 11)
    text = json.dumps(lines)
    for private in (*PRIVATE, "olga", "inside", "127.0.0.1"):
        assert private not in text
    assert {"time", "level", "service", "event"} <= set.intersection(*map(set, lines))
    about = [line for line in lines if "request_id" in line]
    assert len(about) == 11
    fields = {"request_id", "method", "route", "status", "ms", "role", "n_bytes"}
    assert all(fields <= set(line) for line in about)
    assert about[0]["route"] == "/v1/things/{thing}"
    assert about[0]["role"] == "user"
    assert about[2]["exception"] == "ValueError"
    assert str(about[2]["at"]).startswith("small_service.py:")
    assert [line["name"] for line in about if "name" in line] == ["clinic-b"]
    assert [line["kind"] for line in about if line["event"] == "refused"] == [
        "nothing_here",
        "failed",
        "nothing_here",
        "not_now",
        "invalid",
        "wrong_content",
        "nothing_here",
        "not_identified",
    ]


def test_what_is_not_http_is_refused_logged_and_not_quoted(tmp_path: Path) -> None:
    with process_of(tmp_path / "plain.jsonl") as running:
        with connected(running.url) as client:
            client.sendall(b"my-own-words\r\n\r\n")
            assert status_of(all_of(client)) == 400
        assert running.lines_after(0, 1)[-1]["kind"] == "unreadable"
        assert "my-own-words" not in running.log.read_text()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_after_the_requests_that_it_works_on(
    tmp_path: Path, ending: signal.Signals
) -> None:
    with process_of(tmp_path / "ended.jsonl") as running:
        body = b'{"text": "hello"}'
        begun = head(b"/v1/ask", JSON, b"content-length: %d" % len(body), ANN.strip())
        with connected(running.url) as client, connected(running.url) as idle:
            client.sendall(begun)
            idle.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert status_of(first_answer(idle)) == 200
            running.process.send_signal(ending)
            assert all_of(idle) == b""
            with pytest.raises(httpx.ConnectError):
                httpx.get(running.url + "/health", trust_env=False)
            client.sendall(body)
            assert status_of(first_answer(client)) == 200
        assert running.process.wait(timeout=10) == 0


def test_a_service_that_cannot_have_its_port_says_so(tmp_path: Path) -> None:
    from cloister.core.errors import SettingsError
    from cloister.web.service import make_service
    from cloister.web.serving import serve

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SettingsError, match="cannot listen"),
    ):
        serve(make_service("x", federation="north"), port=taken.getsockname()[1])
