"""Clients that send bytes as no honest program would, and one honest client that is timed."""

from __future__ import annotations

import contextlib
import socket
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from services.attacked_federation import Attacked

ATTACKER, HONEST = "127.0.0.3", "127.0.0.2"  # addresses on this machine
TIMEOUT_S = 20.0


class Role(NamedTuple):
    """How a service is asked by somebody whom it knows."""

    holder: str  # of a certificate; none for a user with a token
    honest: tuple[str, str, object]  # method, path, JSON: real work
    json_path: tuple[str, str]  # that takes JSON
    octets_path: str  # that takes bytes
    octets_holder: str


ROLES = {
    "clinic-a": Role(
        "",
        ("POST", "/v1/search", {"query": "cough"}),
        ("POST", "/v1/search"),
        "/v1/ask",
        "clinic-b",
    ),
    "broker": Role(
        "clinic-b",
        ("POST", "/v1/selection", {"terms": ["cough"]}),
        ("POST", "/v1/selection"),
        "/v1/statistics",
        "clinic-b",
    ),
    "coordinator": Role(
        "operator",
        ("GET", "/v1/status", None),
        ("PUT", "/v1/pause"),
        f"/v1/trials/{'0' * 32}/votes",
        "clinic-b",
    ),
}


def token_line(attacked: Attacked, service: str) -> list[bytes]:
    """Return the header with which a service knows the attacker, where it is no certificate."""
    if ROLES[service].holder:
        return []
    return [b"authorization: Bearer " + attacked.folder.token("clinic-a:party-100").encode()]


@contextlib.contextmanager
def plain(attacked: Attacked, service: str, receive_bytes: int = 0) -> Iterator[socket.socket]:
    """Connect without TLS, as the attacker."""
    parts = urlsplit(attacked.folder.url(service))
    with socket.socket() as client:
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(TIMEOUT_S)
        client.bind((ATTACKER, 0))
        client.connect((parts.hostname, parts.port))
        yield client


@contextlib.contextmanager
def talking(
    attacked: Attacked, service: str, holder: str, receive_bytes: int = 0
) -> Iterator[ssl.SSLSocket]:
    """Connect with TLS, as the attacker."""
    context = attacked.as_holder(holder) if holder else attacked.context()
    host = urlsplit(attacked.folder.url(service)).hostname
    with (
        plain(attacked, service, receive_bytes) as bare,
        context.wrap_socket(bare, server_hostname=host) as client,
    ):
        yield client


def head(method: str, path: str, *lines: bytes, kind: bytes = b"application/json") -> bytes:
    first = f"{method} {path} HTTP/1.1\r\nhost: x\r\n".encode()
    return first + b"\r\n".join([b"content-type: " + kind, *lines, b"", b""])


def answer_of(client: socket.socket) -> bytes:
    """Read until the other side closes, or resets."""
    received = bytearray()
    with contextlib.suppress(OSError):
        while chunk := client.recv(65536):
            received += chunk
    return bytes(received)


def status_of(answer: bytes) -> int:
    """Return the status of an answer; 0 where there is none."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def dripped(client: socket.socket, content: bytes, every_s: float, until: float) -> float:
    """Send byte by byte until the other side cuts or the time is over; return when."""
    client.settimeout(every_s)
    for byte in content:
        if time.monotonic() > until:
            break
        try:
            client.sendall(bytes([byte]))
            if not client.recv(4096):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic()


def peak_bytes(attacked: Attacked, service: str) -> int:
    """Return the most memory that a service ever had."""
    text = Path(f"/proc/{attacked.processes.pid(service)}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


class HonestClient:
    """Asks a service for real work again and again, and takes the time."""

    def __init__(self, attacked: Attacked, service: str) -> None:
        role = ROLES[service]
        context = attacked.as_holder(role.holder) if role.holder else attacked.context()
        token = "" if role.holder else attacked.folder.token("clinic-a:party-100")
        self._ask = role.honest
        self._client = httpx.Client(
            base_url=attacked.folder.url(service),
            transport=httpx.HTTPTransport(verify=context, local_address=HONEST),
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=TIMEOUT_S,
        )
        self.times_s: list[float] = []
        self.refused: list[object] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        method, path, body = self._ask
        self._client.request(method, path, json=body)  # what a first request loads is no attack's

    def __enter__(self) -> HonestClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def slowest_s(self) -> float:
        return max(self.times_s)

    def _run(self) -> None:
        method, path, body = self._ask
        while not self._stop.wait(0.05) or len(self.times_s) + len(self.refused) < 3:
            began = time.monotonic()
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.TransportError as error:
                self.refused.append(error)
                continue
            self.times_s.append(time.monotonic() - began)
            if answer.status_code != 200:
                self.refused.append(answer.status_code)


def in_threads(*works: Callable[[], float]) -> list[float]:
    """Do all at the same time; return what each gave."""
    given: list[float] = []
    threads = [threading.Thread(target=lambda work=work: given.append(work())) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(given) == len(works)
    return given
