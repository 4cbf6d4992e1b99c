"""Who may call what: a table, and what those see who may not."""

from __future__ import annotations

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from cloister.core.errors import AccessDenied, SettingsError
from cloister.web.admission import allowed
from cloister.web.callers import Caller, Role
from cloister.web.limits import ServiceLimits
from cloister.web.metrics import ServiceMetrics
from cloister.web.service import make_service
from cloister.web.serving import serve
from web.certificates import Certificates, client_with
from web.small_service import serving

REQUESTS = {
    "ask": ("POST", "/v1/ask", {"json": {"text": "hello"}}),
    "thing": ("GET", "/v1/things/x", {}),
    "bytes": (
        "POST",
        "/v1/bytes",
        {"content": b"xyz", "headers": {"content-type": "application/octet-stream"}},
    ),
    "metrics": ("GET", "/metrics", {}),
    "openapi": ("GET", "/openapi.json", {}),
    "health": ("GET", "/health", {}),
    "ready": ("GET", "/ready", {}),
    "nothing": ("GET", "/v1/nothing", {}),
    "other method": ("DELETE", "/v1/ask", {}),
}
OK = 200
TABLE = [  # certificate, token, what, status; metrics are local here
    (None, None, "health", OK),
    (None, None, "ready", OK),
    (None, None, "metrics", OK),
    (None, None, "openapi", 401),
    (None, None, "ask", 401),
    (None, None, "thing", 401),
    (None, None, "nothing", 401),
    (None, None, "other method", 401),
    (None, "unknown", "ask", 401),
    (None, "unknown", "nothing", 401),
    (None, "a token that claims to be a node", "bytes", 401),
    (None, "ann's token", "ask", OK),
    (None, "ann's token", "thing", OK),
    (None, "ann's token", "bytes", 404),
    (None, "ann's token", "nothing", 404),
    (None, "ann's token", "other method", 405),
    (None, "ann's token", "openapi", OK),
    ("node", None, "thing", OK),
    ("node", None, "bytes", OK),
    ("node", None, "ask", 404),
    ("node", "ann's token", "ask", 404),
    ("node", None, "other method", 404),
    ("node", None, "nothing", 404),
    ("operator", None, "ask", 404),
    ("operator", None, "bytes", 404),
    ("other_federation", None, "thing", 401),
    ("other_federation", "ann's token", "ask", 401),
    ("nameless", None, "thing", 401),
    ("nameless", "ann's token", "ask", 401),
    ("nameless", None, "nothing", 401),
]


def answer(
    url: str, certificates: Certificates, holder: str | None, token: str | None, what: str
) -> httpx.Response:
    method, path, content = REQUESTS[what]
    files = getattr(certificates, holder) if holder else None
    with client_with(url, files, certificates.authority.path) as client:
        if token:
            client.headers["authorization"] = f"Bearer {token}"
        return client.request(method, path, **content)


@pytest.mark.parametrize(("holder", "token", "what", "status"), TABLE)
def test_each_caller_gets_what_its_role_gets(
    secure_url: str,
    certificates: Certificates,
    holder: str | None,
    token: str | None,
    what: str,
    status: int,
) -> None:
    got = answer(secure_url, certificates, holder, token, what)
    assert got.status_code == status
    if status != OK:
        assert set(got.json()) == {"error", "remedy"}


def shown(response: httpx.Response) -> tuple[object, ...]:
    """Return all that a client sees except the time and the number of the request."""
    changing = ("date", "x-request-id")
    headers = {name: value for name, value in response.headers.items() if name not in changing}
    return (response.status_code, headers, response.content)


@pytest.mark.parametrize(("holder", "token"), [(None, None), (None, "unknown"), ("nameless", None)])
def test_without_identity_every_path_answers_the_same(
    secure_url: str, certificates: Certificates, holder: str | None, token: str | None
) -> None:
    whats = ("ask", "thing", "bytes", "openapi", "nothing", "other method")
    answers = [answer(secure_url, certificates, holder, token, what) for what in whats]
    assert all(shown(got) == shown(answers[0]) for got in answers)


@pytest.mark.parametrize(
    ("holder", "token", "hidden"),
    [
        ("node", None, ("ask", "other method", "metrics at a distance")),
        ("operator", None, ("ask", "bytes", "other method")),
        (None, "ann's token", ("bytes", "metrics at a distance")),
    ],
)
def test_what_is_for_other_roles_looks_as_if_it_were_not_there(
    secure_url: str,
    certificates: Certificates,
    holder: str | None,
    token: str | None,
    hidden: tuple[str, ...],
) -> None:
    nothing = shown(answer(secure_url, certificates, holder, token, "nothing"))
    for what in hidden:
        if what in REQUESTS:
            assert shown(answer(secure_url, certificates, holder, token, what)) == nothing


def test_a_hidden_thing_looks_as_an_unknown_path(
    secure_url: str, certificates: Certificates
) -> None:
    with client_with(secure_url, certificates.node, certificates.authority.path) as client:
        assert shown(client.get("/v1/things/hidden")) == shown(client.get("/v1/nothing"))


def test_a_wrong_role_learns_nothing_from_bodies_that_cannot_be_read(
    secure_url: str, certificates: Certificates
) -> None:
    with client_with(secure_url, certificates.node, certificates.authority.path) as client:
        nothing = shown(client.post("/v1/nothing"))
        for content in (b"{", b"[" * 1000, b"\xff"):
            headers = {"content-type": "application/json"}
            assert shown(client.post("/v1/ask", content=content, headers=headers)) == nothing
        assert shown(client.get("/v1/ask/")) == nothing  # no redirect to the path without a slash


def test_a_route_that_says_nothing_keeps_the_service_from_starting() -> None:
    router = APIRouter()

    @router.get("/v1/open-by-mistake")
    def mistake() -> str:
        return "secret"

    with pytest.raises(SettingsError, match="open-by-mistake"):
        make_service("x", federation="north", routers=[router])


def test_a_mounted_or_nested_application_is_not_taken() -> None:
    inner, outer = APIRouter(), APIRouter()
    inner.add_api_route("/inner", lambda: 1, dependencies=[allowed(Role.USER)])
    outer.include_router(inner)
    with pytest.raises(SettingsError):
        make_service("x", federation="north", routers=[outer])
    mounting = APIRouter()
    mounting.mount("/mounted", FastAPI())
    with pytest.raises(SettingsError):
        make_service("x", federation="north", routers=[mounting])


def test_a_route_added_later_answers_nobody() -> None:
    def identify(token: str) -> Caller:
        return Caller(Role.USER, "ann")

    service = make_service("x", federation="north", identify=identify)
    service.add_api_route("/v1/late", lambda: "secret")
    transport = httpx.ASGITransport(service)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get("/v1/late", headers={"authorization": "Bearer x"})

    import asyncio

    assert asyncio.run(ask()).status_code == 404


def test_metrics_are_for_operators_elsewhere() -> None:
    def identify(token: str) -> Caller:
        if token not in set(Role):
            raise AccessDenied("unknown")
        return Caller(Role(token), "somebody")

    service = make_service("x", federation="north", identify=identify)
    transport = httpx.ASGITransport(service, client=("10.0.0.1", 1234))

    async def ask(token: str) -> int:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            headers = {"authorization": f"Bearer {token}"}
            return (await client.get("/metrics", headers=headers)).status_code

    import asyncio

    tokens = ("operator", "user", "node", "nobody")
    assert [asyncio.run(ask(token)) for token in tokens] == [200, 404, 401, 401]


def test_beyond_this_machine_tls_is_needed() -> None:
    with pytest.raises(SettingsError, match="TLS"):
        serve(make_service("x", federation="north"), host="0.0.0.0")


def test_a_caller_who_asks_too_often_is_told_when_to_come_again() -> None:
    metrics = ServiceMetrics()
    limits = ServiceLimits(requests_a_minute=3, unidentified_a_minute=4)
    ann, bob = ({"authorization": f"Bearer {name}'s token"} for name in ("ann", "bob"))
    with serving(limits, metrics=metrics) as url, httpx.Client(trust_env=False) as client:
        statuses = [client.get(url + "/v1/things/x", headers=ann) for _ in range(5)]
        assert [got.status_code for got in statuses] == [200, 200, 200, 429, 429]
        assert 1 <= int(statuses[-1].headers["retry-after"]) <= 20
        assert client.get(url + "/v1/things/x", headers=bob).status_code == 200
        strangers = [client.get(url + "/v1/things/x").status_code for _ in range(6)]
        assert strangers == [401, 401, 401, 401, 429, 429]
        assert client.get(url + "/health").status_code == 429
    assert b'cloister_refusals_total{kind="too_many"} 5.0' in metrics.exposition()
    assert b'cloister_refusals_total{kind="not_identified"} 4.0' in metrics.exposition()
