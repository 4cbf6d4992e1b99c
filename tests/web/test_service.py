"""What a service says: errors, bodies, headers, its description, its figures."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator

import httpx
import pytest

from web.raw_http import ANN, connected, first_answer, status_of, told


@pytest.fixture
def ann(plain_url: str) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer ann's token"}
    with httpx.Client(base_url=plain_url, headers=headers, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("thing", "status", "kind"),
    [
        ("denied", 403, "denied"),
        ("hidden", 404, "nothing_here"),
        ("conflict", 409, "conflict"),
        ("budget", 409, "budget"),
        ("data", 400, "invalid"),
        ("store", 503, "not_now"),
        ("bug", 500, "failed"),
    ],
)
def test_errors_are_told_by_kind_and_without_what_is_inside(
    ann: httpx.Client, thing: str, status: int, kind: str
) -> None:
    answer = ann.get(f"/v1/things/{thing}")
    assert (answer.status_code, answer.headers["x-refusal"]) == (status, kind)
    assert set(answer.json()) == {"error", "remedy"}
    assert "inside" not in answer.text
    assert "my-secret-document" not in answer.text


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        (b'{"text": "hello"}', "application/json", 200),
        (b'{"version": 1, "text": "hello", "n": 2}', "application/json; charset=utf-8", 200),
        (b'{"text": "hello", "version": 2}', "application/json", 400),
        (b'{"text": "hello", "more": 1}', "application/json", 400),
        (b'{"text": 3}', "application/json", 400),
        (b'{"text": "a", "n": ' + b"9" * 10_000 + b"}", "application/json", 400),
        (b'{"text": "a", "n": 1e999}', "application/json", 400),
        (b'{"text": "\\ud800"}', "application/json", 400),
        (b'{"text": "\\u0000"}', "application/json", 400),
        (b"[]", "application/json", 400),
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[" * 30_000, "application/json", 400),
        (b"[" * 30_000 + b"]" * 30_000, "application/json", 400),
        (b'{"text": "' + b"a" * 70_000 + b'"}', "application/json", 413),
        (b'{"text": "hello"}', "text/plain", 415),
        (b'{"text": "hello"}', "", 415),
        (b'{"text": "hello"}', "application/octet-stream", 415),
        (b'{"text": "hello"}', "application/json, text/plain", 415),
        (b"text=hello", "application/x-www-form-urlencoded", 415),
    ],
)
def test_bodies_are_taken_or_refused(
    ann: httpx.Client, content: bytes, media_type: str, status: int
) -> None:
    headers = {"content-type": media_type} if media_type else {}
    assert ann.post("/v1/ask", content=content, headers=headers).status_code == status


def test_json_of_a_hundred_thousand_levels_is_refused(ann: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    answer = ann.post("/v1/ask", content=b"[" * 100_000, headers=headers)
    assert answer.status_code == 413  # this service takes 64 KiB; levels within them are above


def test_random_bytes_are_refused_and_the_service_lives_on(ann: httpx.Client) -> None:
    for _ in range(30):
        headers = {"content-type": "application/json"}
        answer = ann.post("/v1/ask", content=os.urandom(300), headers=headers)
        assert answer.status_code == 400
    assert ann.post("/v1/ask", json={"text": "still here"}).status_code == 200


def test_a_packed_body_is_not_unpacked(ann: httpx.Client) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    packed = gzip.compress(b'{"text": "' + b"a" * 1_000_000 + b'"}')
    assert ann.post("/v1/ask", content=packed, headers=headers).status_code == 415


def test_a_body_where_none_belongs_is_refused(ann: httpx.Client) -> None:
    assert ann.request("GET", "/v1/things/x", content=b"abc").status_code == 400


def test_nul_in_an_address_is_refused(ann: httpx.Client) -> None:
    assert ann.get("/v1/things/a%00b").status_code == 400
    assert ann.get("/v1/things/a?q=%00").status_code == 400


def head(*lines: bytes) -> bytes:
    return b"POST /v1/ask HTTP/1.1\r\nhost: x\r\n" + ANN + b"\r\n".join(lines) + b"\r\n\r\n"


JSON = b"content-type: application/json"
BODY = b'{"text": "hello"}'
CHUNKED = b"11\r\n" + BODY + b"\r\n0\r\n\r\n"
SMUGGLED = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        head(JSON, b"content-length: 17", b"transfer-encoding: chunked") + CHUNKED,
        head(JSON, b"transfer-encoding: chunked", b"content-length: 5") + CHUNKED,
        head(JSON, b"content-length: 17", b"content-length: 5") + BODY,
        head(JSON, b"content-length: 17, 5") + BODY,
        head(JSON, b"content-length: +17") + BODY,
        head(JSON, b"content-length: 0x11") + BODY,
        head(JSON, b"content-length: -1") + BODY,
        head(JSON, b"transfer-encoding: gzip, chunked") + CHUNKED,
        head(JSON, b"transfer-encoding: xchunked") + CHUNKED,
        head(JSON, b"transfer-encoding: chunked", b"transfer-encoding: identity") + CHUNKED,
        head(JSON, b"transfer-encoding : chunked") + CHUNKED,
        head(JSON, b"transfer-encoding: chunked") + b"zz\r\n" + BODY,
        head(JSON, b"transfer-encoding: chunked") + b"-1\r\n" + BODY,
        head(JSON, b"bad header name: x") + BODY,
        b"POST /v1/ask HTTP/1.1\r\n" + ANN + b"\r\n",
        b"POST  /v1/ask HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/ask HTTP/9.9\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    ],
)
def test_shapes_that_two_programs_read_differently_are_refused_and_end_the_connection(
    plain_url: str, request_bytes: bytes
) -> None:
    answer = told(plain_url, request_bytes + SMUGGLED)
    assert 400 <= status_of(answer) < 600
    assert status_of(answer) != 401
    assert answer.count(b"HTTP/1.1 ") == 1  # what came behind is not read as a request
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    "lines",
    [
        [b"x-%d: y" % number for number in range(70)],
        [b"x: " + b"y" * 40_000],
        [b"x-%d: %s" % (number, b"y" * 1000) for number in range(60)],
        [b"a: b"] * 60_000,
    ],
)
def test_header_bombs_are_refused(plain_url: str, lines: list[bytes]) -> None:
    assert status_of(told(plain_url, head(JSON, *lines))) == 400


def test_a_long_address_is_refused(plain_url: str) -> None:
    request = b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"
    assert status_of(told(plain_url, request)) == 400


def test_pipelined_requests_are_answered_in_order(plain_url: str) -> None:
    two = b"".join(
        b"GET /v1/things/%s HTTP/1.1\r\nhost: x\r\n%s%s\r\n" % (name, ANN, more)
        for name, more in ((b"one", b""), (b"two", b"connection: close\r\n"))
    )
    answer = told(plain_url, two)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.index(b'"one"') < answer.index(b'"two"')


def test_a_body_in_chunks_is_cut_at_the_limit(plain_url: str) -> None:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with connected(plain_url) as client:
        client.sendall(head(JSON, b"transfer-encoding: chunked") + chunk * 4)
        assert status_of(first_answer(client)) == 413


def test_an_upgrade_is_not_taken(plain_url: str) -> None:
    lines = (b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-version: 13")
    with connected(plain_url) as client:
        client.sendall(head(JSON, *lines))
        assert status_of(first_answer(client)) == 400


def test_the_description_names_bytes_refusals_roles_and_no_other_host(ann: httpx.Client) -> None:
    document = ann.get("/openapi.json").json()
    assert set(document["paths"]) >= {"/v1/ask", "/v1/bytes", "/health", "/ready"}
    octets = document["paths"]["/v1/bytes"]["post"]
    for place in (octets["requestBody"], octets["responses"]["200"]):
        schema = place["content"]["application/octet-stream"]["schema"]
        assert schema == {"type": "string", "format": "binary"}
    assert octets["x-roles"] == ["node"]
    asked = document["paths"]["/v1/ask"]["post"]
    assert "422" not in asked["responses"]
    assert set(asked["responses"]) == {"200", "4XX", "5XX"}
    assert "HTTPValidationError" not in json.dumps(document)
    assert document["components"]["schemas"]["Ask"]["additionalProperties"] is False
    assert ann.get("/docs").status_code == ann.get("/redoc").status_code == 404


def test_answers_are_not_kept_and_have_a_number(ann: httpx.Client) -> None:
    first, second = ann.get("/v1/things/x"), ann.get("/v1/things/x")
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert "server" not in first.headers


def test_figures_have_templates_and_no_paths(ann: httpx.Client, plain_url: str) -> None:
    ann.get("/v1/things/my-own-words?q=others")
    ann.get("/v1/what-nobody-has")
    ann.request("BREW", "/v1/ask")
    figures = ann.get("/metrics").text
    assert 'route="/v1/things/{thing}",status="200"' in figures
    assert 'route="unknown"' in figures
    assert 'method="other"' in figures
    for private in ("my-own-words", "others", "what-nobody-has", "BREW", "ann"):
        assert private not in figures
