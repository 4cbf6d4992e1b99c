"""Big, deep, random, slow and idle: what node, broker and coordinator do with hostile clients.

Over real TLS, each against a service as it runs in a federation, while an honest client asks for
real work from another address. Figures are shown by ``pytest -rP``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from contextlib import ExitStack
from functools import partial

import pytest

from services.attacked_federation import BODY_S, HEAD_S, IDLE_S, SERVICES, Attacked, tell
from services.hostile_clients import (
    ROLES,
    HonestClient,
    answer_of,
    dripped,
    head,
    in_threads,
    peak_bytes,
    plain,
    status_of,
    talking,
    token_line,
)
from services.processes import wait_until
from web.raw_http import first_answer

GIGABYTE = 1_000_000_000
PART = 1 << 16
CHUNK = b"%x\r\n" % PART + b" " * PART + b"\r\n"
OCTETS = b"application/octet-stream"
MAX_JSON, MAX_BINARY = 128 << 10, 64 << 20  # the services' own limits
N_SLOW, N_UNREAD = 8, 3
SPARE_S = 6.0  # for looks of the server, lingering closes, and a busy machine
PROMPT_S = 5.0  # for an honest answer on a busy machine


def _times(honest: HonestClient) -> str:
    return (
        f"honest median {honest.median_s * 1e3:.0f} ms, slowest {honest.slowest_s * 1e3:.0f} ms"
        f" of {len(honest.times_s)}"
    )


@pytest.mark.parametrize("service", SERVICES)
def test_random_bytes_are_refused_everywhere(attacked: Attacked, service: str) -> None:
    role = ROLES[service]
    token = token_line(attacked, service)
    with talking(attacked, service, role.holder) as client:
        for n_bytes in (1, 100, 10_000, MAX_JSON):
            length = b"content-length: %d" % n_bytes
            client.sendall(head(*role.json_path, length, *token) + os.urandom(n_bytes))
            assert status_of(first_answer(client)) == 400
    with talking(attacked, service, role.octets_holder) as client:
        for n_bytes in (1, 10_000, 1_000_000):
            length = b"content-length: %d" % n_bytes
            client.sendall(
                head("POST", role.octets_path, length, kind=OCTETS) + os.urandom(n_bytes)
            )
            assert status_of(first_answer(client)) == 400
    with talking(attacked, service, role.octets_holder) as client:
        with contextlib.suppress(OSError):  # it may be cut off before all is sent
            client.sendall(os.urandom(100_000))
        assert status_of(answer_of(client)) in (0, 400)
    with plain(attacked, service) as client, contextlib.suppress(OSError):
        client.sendall(os.urandom(100_000))  # in the place of TLS
        assert b"HTTP" not in answer_of(client)
    with talking(attacked, service, role.octets_holder) as client:
        client.sendall(head("POST", role.octets_path, b"content-length: 0", kind=OCTETS))
        assert status_of(first_answer(client)) == 400


@pytest.mark.parametrize("framing", [b"content-length: 1000000000", b"transfer-encoding: chunked"])
@pytest.mark.parametrize("octets", [False, True])
@pytest.mark.parametrize("service", SERVICES)
def test_a_gigabyte_is_refused_early(
    attacked: Attacked, service: str, octets: bool, framing: bytes
) -> None:
    role = ROLES[service]
    if octets:
        first = head("POST", role.octets_path, framing, kind=OCTETS)
    else:
        first = head(*role.json_path, framing, *token_line(attacked, service))
    part = CHUNK if b"chunked" in framing else b" " * PART
    asking = HonestClient(attacked, service)
    before, began, sent, answer = peak_bytes(attacked, service), time.monotonic(), 0, b""
    with (
        asking as honest,
        talking(attacked, service, role.octets_holder if octets else role.holder) as client,
    ):
        client.sendall(first)
        with contextlib.suppress(OSError):
            while sent < GIGABYTE:
                client.sendall(part)
                sent += PART
        answer = answer_of(client)
        took_s = time.monotonic() - began
    grown = peak_bytes(attacked, service) - before
    tell(
        f"{service}: cut after {sent / 1e6:.1f} MB and {took_s:.2f} s, memory +{grown / 1e6:.1f}"
        f" MB, {_times(honest)}"
    )
    read = MAX_BINARY if octets and b"chunked" in framing else 0
    assert sent < read + (40 << 20)  # what buffers on the way take
    assert status_of(answer) in (0, 413)  # a reset may come before the answer is read
    assert grown < 2 * read + (60 << 20)
    assert honest.refused == []
    assert honest.slowest_s < PROMPT_S
    lines = [line for line in attacked.log_lines(service) if line.get("status") == 413]
    assert lines[-1]["kind"] == "too_long"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=["open arrays", "arrays", "objects", "many objects"],
)
@pytest.mark.parametrize("service", SERVICES)
def test_a_hundred_thousand_levels_of_json_are_refused_at_once(
    attacked: Attacked, service: str, body: bytes
) -> None:
    role = ROLES[service]
    length = b"content-length: %d" % len(body)
    with talking(attacked, service, role.holder) as client:
        began = time.monotonic()
        client.sendall(head(*role.json_path, length, *token_line(attacked, service)) + body)
        answer = first_answer(client)
        took_s = time.monotonic() - began
    tell(f"{service}: {len(body)} bytes of brackets refused in {took_s * 1e3:.0f} ms")
    if len(body) > MAX_JSON:
        assert status_of(answer) == 413
    else:
        assert status_of(answer) == 400
        assert b"levels" in answer
    assert took_s < PROMPT_S


COSTLY = [
    b'"' + b"\\u0041" * 21_000 + b'"',
    b"[" + b'"",' * 42_000 + b'""]',
    (b"[" * 20 + b"]" * 20) * 3_200,
]


def _flood(attacked: Attacked, service: str, body: bytes) -> float:
    """Send one body again and again for two seconds; return how many were refused in a second."""
    role, n_refused, began = ROLES[service], 0, time.monotonic()
    length = b"content-length: %d" % len(body)
    content = head(*role.json_path, length, *token_line(attacked, service)) + body
    with talking(attacked, service, role.holder) as client:
        while time.monotonic() - began < 2.0:
            client.sendall(content)
            assert status_of(first_answer(client)) == 400
            n_refused += 1
    return n_refused / (time.monotonic() - began)


@pytest.mark.parametrize("service", SERVICES)
def test_bodies_that_are_costly_to_check_do_not_stop_the_others(
    attacked: Attacked, service: str
) -> None:
    """The limit on requests a minute is lifted here: one caller floods from six connections."""
    with HonestClient(attacked, service) as honest:
        rates = in_threads(*(partial(_flood, attacked, service, body) for body in COSTLY * 2))
    tell(f"{service}: {sum(rates):.0f} costly bodies refused in a second, {_times(honest)}")
    assert honest.refused == []
    assert honest.slowest_s < PROMPT_S


def _slow_head(attacked: Attacked, service: str) -> float:
    with talking(attacked, service, "") as client:
        began = time.monotonic()
        content = b"GET /health HTTP/1.1\r\nx-a: " + b"a" * 10_000
        return dripped(client, content, 0.25, began + 30.0) - began


def _slow_body(attacked: Attacked, service: str) -> float:
    role = ROLES[service]
    with talking(attacked, service, role.holder) as client:
        began = time.monotonic()
        client.sendall(
            head(*role.json_path, b"content-length: 10000", *token_line(attacked, service))
        )
        return dripped(client, b" " * 10_000, 0.25, began + 30.0) - began


def _stopped_body(attacked: Attacked, service: str) -> float:
    role = ROLES[service]
    with talking(attacked, service, role.octets_holder) as client:
        began = time.monotonic()
        client.sendall(
            head("POST", role.octets_path, b"content-length: 10000", kind=OCTETS) + b"abc"
        )
        answer_of(client)
        return time.monotonic() - began


def _never_reads(attacked: Attacked, service: str) -> float:
    """Ask for much, read nothing, and go on sending until cut."""
    with talking(attacked, service, "operator", receive_bytes=4096) as client:
        began = time.monotonic()
        asked = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 400
        client.settimeout(30.0)
        with contextlib.suppress(OSError):
            client.sendall(asked)
            while time.monotonic() - began < 30.0:
                time.sleep(0.2)
                client.sendall(asked)
        return time.monotonic() - began


@pytest.mark.parametrize("service", SERVICES)
def test_slow_clients_are_cut_while_others_are_served(attacked: Attacked, service: str) -> None:
    before = attacked.refusals(service)
    kinds = [*(_slow_head, _slow_body, _stopped_body) * N_SLOW, *(_never_reads,) * N_UNREAD]
    with HonestClient(attacked, service) as honest:
        lasted = in_threads(*(partial(kind, attacked, service) for kind in kinds))
    tell(
        f"{service}: {len(lasted)} slow clients cut after {min(lasted):.1f} to {max(lasted):.1f} s,"
        f" {_times(honest)}"
    )
    assert max(lasted) < max(HEAD_S, IDLE_S, BODY_S) + SPARE_S
    assert honest.refused == []
    assert honest.slowest_s < PROMPT_S
    after = attacked.refusals(service)
    assert after["slow"] - before.get("slow", 0) >= 3 * N_SLOW
    assert after["unread"] - before.get("unread", 0) >= N_UNREAD
    assert [1 for line in attacked.log_lines(service) if line.get("kind") == "slow"]


@pytest.mark.parametrize("service", SERVICES)
def test_a_node_that_holds_many_bodies_back_leaves_room_for_other_nodes(
    attacked: Attacked, service: str
) -> None:
    path = ROLES[service].octets_path
    held = head("POST", path, b"content-length: 10000", kind=OCTETS) + b"abc"
    with ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(talking(attacked, service, "clinic-b"))
            client.sendall(held)
        time.sleep(0.3)
        other = stack.enter_context(attacked.caller(service, "clinic-c"))
        answer = other.post(path, content=b"x", headers={"content-type": OCTETS.decode()})
        refused = attacked.refusals(service)
    assert answer.status_code == 400  # read and looked at, not turned away
    assert refused["too_many"] >= 40 - 16


@pytest.mark.parametrize("service", SERVICES)
def test_many_idle_connections_lock_nobody_out(attacked: Attacked, service: str) -> None:
    asking = HonestClient(attacked, service)
    before = peak_bytes(attacked, service)
    with ExitStack() as stack, asking as honest:
        began = time.monotonic()
        idle: list[socket.socket] = []
        for number in range(400):
            try:
                if number % 4:
                    idle.append(stack.enter_context(plain(attacked, service)))
                else:
                    idle.append(stack.enter_context(talking(attacked, service, "")))
            except OSError:  # pushed out by the next one, in the middle of its handshake
                continue
        opened_s = time.monotonic() - began
        time.sleep(1.0)
    grown = peak_bytes(attacked, service) - before
    tell(
        f"{service}: {len(idle)} idle connections of one address in {opened_s:.1f} s, memory"
        f" +{grown / 1e6:.1f} MB, {_times(honest)}"
    )
    assert len(idle) > 200
    assert honest.refused == []
    assert honest.slowest_s < PROMPT_S
    assert grown < 100 << 20

    def few() -> bool:
        with attacked.caller(service) as client:
            figures = client.get("/metrics").text
        line = next(x for x in figures.splitlines() if x.startswith("cloister_open_connections"))
        return float(line.split()[1]) < 20

    wait_until(few, 15.0, what="connections stay open")
