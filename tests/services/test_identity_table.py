"""Who may call what, as a table: every route of the three services for every kind of caller.

A refusal is the same, byte for byte, for what is there and for what is not; it is counted and
logged. What a caller says stands in no log.
"""

from __future__ import annotations

import secrets
import shutil
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from cloister.core.ids import AgentId
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.privacy.certificates.authority import Authority
from cloister.services.user_tokens import node_issuer_name
from services.attacked_federation import SERVICES, Attacked
from services.processes import wait_until

EVERYBODY = frozenset({"user", "node", "broker", "coordinator", "operator", "officer"})
OFFICE = frozenset({"operator", "officer"})
BYTES = {"content-type": "application/octet-stream"}
NO_PAGE, NO_RANKER, NO_TRIAL, NO_ROUNDS = "0" * 32, "0" * 64, "0" * 32, "0"


class Route(NamedTuple):
    """A route, a request to it, who may make it, and what these are told."""

    service: str
    method: str
    path: str
    roles: frozenset[str]
    told: int
    json: Any = None
    content: bytes | None = None


def _roles(*names: str) -> frozenset[str]:
    return frozenset(names)


TABLE = [
    Route("clinic-a", "POST", "/v1/search", _roles("user"), 200, json={"query": "cough"}),
    Route("clinic-a", "POST", f"/v1/pages/{NO_PAGE}/clicks", _roles("user"), 404, json={"rank": 1}),
    Route("clinic-a", "POST", f"/v1/pages/{NO_PAGE}/end", _roles("user"), 404),
    Route("clinic-a", "GET", "/v1/me", _roles("user"), 200),
    Route("clinic-a", "DELETE", "/v1/me", _roles("user"), 200),
    Route("clinic-a", "POST", "/v1/ask", _roles("node"), 400, content=b"no frame"),
    Route("clinic-a", "POST", "/v1/round", _roles("coordinator"), 200, content=b"no call"),
    Route("clinic-a", "GET", "/v1/status", OFFICE, 200),
    Route("clinic-a", "POST", "/v1/publications", _roles("operator"), 200),
    Route("clinic-a", "POST", "/v1/syncs", _roles("operator"), 200),
    Route("clinic-a", "GET", "/v1/ledger", OFFICE, 200),
    Route("broker", "POST", "/v1/statistics", _roles("node"), 400, content=b"no tables"),
    Route("broker", "GET", "/v1/statistics", _roles("node"), 200),
    Route("broker", "POST", "/v1/selection", _roles("node"), 200, json={"terms": ["cough"]}),
    Route("broker", "GET", "/v1/form", _roles("node"), 200),
    Route("broker", "GET", "/v1/status", OFFICE, 200),
    Route("coordinator", "GET", "/v1/serving", _roles("node", "operator"), 200),
    Route("coordinator", "GET", f"/v1/rankers/{NO_RANKER}", _roles("node", "operator"), 404),
    Route(
        "coordinator",
        "POST",
        f"/v1/trials/{NO_TRIAL}/votes",
        _roles("node"),
        400,
        content=b"no votes",
    ),
    Route("coordinator", "GET", "/v1/status", OFFICE, 200),
    Route("coordinator", "GET", "/v1/rounds", OFFICE, 200),
    Route("coordinator", "GET", f"/v1/rounds/{NO_ROUNDS}/ranker", _roles("operator"), 200),
    Route("coordinator", "POST", "/v1/rounds", _roles("operator"), 409),  # no node has new pages
    Route("coordinator", "PUT", "/v1/pause", _roles("operator"), 200, json={"paused": False}),
    Route(
        "coordinator",
        "PUT",
        "/v1/exclusions",
        _roles("operator"),
        404,
        json={"node": "nobody", "excluded": False},
    ),
    Route("coordinator", "POST", "/v1/trials", _roles("operator"), 400, json={"share": 7}),
    Route("coordinator", "POST", "/v1/decisions", _roles("operator"), 409),
    Route("coordinator", "POST", "/v1/rollbacks", _roles("operator"), 409),
    Route("coordinator", "GET", "/v1/ledger", OFFICE, 200),
    *(Route(service, "GET", "/openapi.json", EVERYBODY, 200) for service in SERVICES),
]
OPEN = ("/health", "/ready", "/metrics")  # /metrics to this machine, where all callers are here


class Kind(NamedTuple):
    """A kind of caller: with which role, where, and how others are refused."""

    role: str = ""  # that the services see; none where they see nobody
    at: Sequence[str] = SERVICES  # where that identity holds
    connects: bool = True  # the handshake succeeds


KINDS = {
    "nobody": Kind(),
    "garbage token": Kind(),
    "expired token": Kind(),
    "token of another node's user": Kind(),
    "token signed by another key": Kind(),
    "user token": Kind("user", ["clinic-a"]),
    "operator by token": Kind("operator", ["clinic-a"]),
    "officer by token": Kind("officer", ["clinic-a"]),
    "node certificate": Kind("node"),
    "node certificate and user token": Kind("node"),
    "certificate of a node that is not in the roster": Kind(),
    "certificate of a coordinator that is not in the roster": Kind(),
    "certificate of an operator of another party": Kind(),
    "revoked certificate": Kind(connects=False),
    "expired certificate": Kind(connects=False),
    "certificate of another authority": Kind(connects=False),
    "broker": Kind("broker"),
    "coordinator": Kind("coordinator"),
    "operator": Kind("operator"),
    "officer": Kind("officer"),
}


class Callers:
    """Makes clients of every kind."""

    def __init__(self, attacked: Attacked, folder: Path) -> None:
        self._attacked = attacked
        self._folder = attacked.folder
        own = Authority.open(self._folder.folder / "authority")
        late = folder / "late"
        shutil.copytree(own.folder, late / "authority")
        past = Authority.open(late / "authority", clock=lambda: time.time() - 100 * 86_400)
        other = Authority.create(folder / "other", self._folder.roster.name)
        files = {
            "certificate of a node that is not in the roster": own.issue(
                "node", "clinic-z", folder=folder
            ),
            "certificate of a coordinator that is not in the roster": own.issue(
                "coordinator", "second", folder=folder
            ),
            "certificate of an operator of another party": own.issue(
                "operator", "other-operator", folder=folder
            ),
            "revoked certificate": own.issue("node", "clinic-r", folder=folder),
            "expired certificate": past.issue("node", "clinic-b", folder=late),
            "certificate of another authority": other.issue(
                "node", "clinic-b", folder=folder / "elsewhere"
            ),
        }
        self._files = {kind: (one.certificate, one.key) for kind, one in files.items()}
        self._await_working("revoked certificate")
        own.revoke("node/clinic-r")
        self._await_refused("revoked certificate")

    @contextmanager
    def client(self, service: str, kind: str) -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url=self._folder.url(service),
            verify=self._context(kind),
            headers=self._headers(kind),
            trust_env=False,
            timeout=30.0,
        ) as client:
            yield client

    def _context(self, kind: str) -> ssl.SSLContext:
        if kind in self._files:
            return self._attacked.context(*self._files[kind])
        holder = {
            "node certificate": "clinic-b",
            "node certificate and user token": "clinic-b",
        }.get(kind, kind)
        if holder in ("broker", "coordinator", "operator", "officer", "clinic-b"):
            return self._attacked.as_holder(holder)
        return self._attacked.context()

    def _headers(self, kind: str) -> dict[str, str]:
        tokens = {
            "garbage token": lambda: secrets.token_urlsafe(200),
            "expired token": lambda: self._issued(clock_s=-3_600.0),
            "token of another node's user": lambda: self._folder.token("clinic-b:staff-005"),
            "token signed by another key": self._forged,
            "user token": lambda: self._folder.token("clinic-a:party-100"),
            "node certificate and user token": lambda: self._folder.token("clinic-a:party-100"),
            "operator by token": lambda: self._folder.token("clinic-a:olga"),
            "officer by token": lambda: self._folder.token("clinic-a:otto"),
        }
        if kind not in tokens:
            return {}
        token = tokens[kind]()
        self._attacked.planted.add(token)
        return {"authorization": f"Bearer {token}"}

    def _issued(self, *, clock_s: float) -> str:
        name = node_issuer_name(self._folder.roster.name, "clinic-a")
        key = self._folder.folder / "clinic-a" / "token.key"
        issuer = TokenIssuer.load(key, name, name, clock=lambda: time.time() + clock_s)
        return issuer.issue_unbound(AgentId("clinic-a:party-100"))

    def _forged(self) -> str:
        name = node_issuer_name(self._folder.roster.name, "clinic-a")
        return TokenIssuer(name, name, "clinic-a-1").issue_unbound(AgentId("clinic-a:party-100"))

    def _works(self, kind: str, service: str) -> bool:
        try:
            with self.client(service, kind) as client:
                return client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def _await_working(self, kind: str) -> None:
        assert all(self._works(kind, service) for service in SERVICES)

    def _await_refused(self, kind: str) -> None:
        wait_until(
            lambda: not any(self._works(kind, service) for service in SERVICES),
            15.0,
            what="a revoked certificate still works",
        )


@pytest.fixture(scope="module")
def callers(attacked: Attacked, tmp_path_factory: pytest.TempPathFactory) -> Callers:
    return Callers(attacked, tmp_path_factory.mktemp("callers"))


def _sent(client: httpx.Client, route: Route) -> httpx.Response:
    headers = BYTES if route.content is not None else {}
    return client.request(
        route.method, route.path, json=route.json, content=route.content, headers=headers
    )


def _seen(answer: httpx.Response) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
    """Return all that a caller sees of an answer, without what differs in any two of them."""
    changing = ("date", "x-request-id")
    kept = [(name, value) for name, value in answer.headers.items() if name not in changing]
    return answer.status_code, answer.content, tuple(kept)


def _refused_with(kind: Kind, route: Route) -> int | None:
    """Return the table's word: None where the caller may, else the status of the refusal."""
    if not kind.role or route.service not in kind.at:
        return 401
    if kind.role not in route.roles:
        return 404
    return None


def _logged_refusals(attacked: Attacked, service: str) -> Counter[str]:
    lines = attacked.log_lines(service)
    return Counter(line["kind"] for line in lines if line["event"] == "refused")


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.connects])
def test_each_caller_gets_what_the_table_says_and_refusals_are_alike(
    attacked: Attacked, callers: Callers, service: str, name: str
) -> None:
    counted, logged = attacked.refusals(service), _logged_refusals(attacked, service)
    refused: Counter[str] = Counter()
    with callers.client(service, name) as client:
        nothing = _seen(client.get("/v1/there-is-no-such-thing"))
        refused[{401: "not_identified", 404: "nothing_here"}[nothing[0]]] += 1
        for route in (route for route in TABLE if route.service == service):
            wanted = _refused_with(KINDS[name], route)
            answer = _sent(client, route)
            if wanted is not None:
                assert answer.status_code == wanted, (name, route)
                assert _seen(answer) == nothing, (name, route)
            else:
                assert answer.status_code == route.told, (name, route, answer.text)
            if "x-refusal" in answer.headers:
                refused[answer.headers["x-refusal"]] += 1
        for path in OPEN:
            assert client.get(path).status_code == 200
    after = attacked.refusals(service)
    grown = {kind: after[kind] - counted.get(kind, 0.0) for kind in refused}
    assert grown == dict(refused)
    wait_until(lambda: _logged_refusals(attacked, service) - logged == refused, 5.0)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.connects])
def test_a_certificate_that_does_not_hold_ends_the_handshake(
    attacked: Attacked, callers: Callers, service: str, name: str
) -> None:
    counted = attacked.refusals(service).get("handshake", 0.0)
    for path in ("/v1/status", "/health"):
        with callers.client(service, name) as client, pytest.raises(httpx.TransportError):
            client.get(path)
    assert attacked.refusals(service)["handshake"] == counted + 2
    lines = attacked.log_lines(service)
    assert [1 for line in lines if line["event"] == "connection_refused"]


def test_the_table_has_every_route(attacked: Attacked, callers: Callers) -> None:
    for service in SERVICES:
        with callers.client(service, "operator") as client:
            document = client.get("/openapi.json").json()
        written = {
            (method.upper(), path)
            for path, operations in document["paths"].items()
            for method in operations
            if path not in OPEN
        }
        tried = {(route.method, route.path) for route in TABLE if route.service == service}
        assert tried - {("GET", "/openapi.json")} == {
            (method, _filled(path)) for method, path in written
        }


def _filled(path: str) -> str:
    named = {
        "page_id": NO_PAGE,
        "digest": NO_RANKER,
        "trial_id": NO_TRIAL,
        "n_rounds": NO_ROUNDS,
    }
    return path.format(**named)


def test_the_table_agrees_with_what_the_descriptions_say_of_roles(
    attacked: Attacked, callers: Callers
) -> None:
    for service in SERVICES:
        with callers.client(service, "operator") as client:
            document = client.get("/openapi.json").json()
        said = {
            (method.upper(), _filled(path)): frozenset(operation["x-roles"])
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if path not in OPEN
        }
        for route in TABLE:
            if route.service == service and route.path != "/openapi.json":
                assert said[route.method, route.path] == route.roles


def _search(attacked: Attacked, agent: str, query: str) -> tuple[str, dict[str, Any]]:
    token = attacked.folder.token(agent)
    with attacked.caller("clinic-a", token=token) as client:
        answer = client.post("/v1/search", json={"query": query}).json()
    attacked.planted.update({token, query, answer["page_id"]} - {""})
    return token, answer


def test_anothers_page_is_as_absent_as_one_that_never_was(attacked: Attacked) -> None:
    query = attacked.clinics.world.queries[0].text
    own, page = _search(attacked, "clinic-a:party-100", query)
    assert page["results"]
    path = f"/v1/pages/{page['page_id']}/clicks"
    absent = "/v1/pages/" + "f" * len(page["page_id"]) + "/clicks"
    with attacked.caller("clinic-a", token=attacked.folder.token("clinic-a:staff-001")) as other:
        answers = [_seen(other.post(where, json={"rank": 1})) for where in (path, absent)]
        beyond = [_seen(other.post(where, json={"rank": 99})) for where in (path, absent)]
    assert answers[0] == answers[1] == beyond[0] == beyond[1]
    assert answers[0][0] == 404
    with attacked.caller("clinic-a", token=own) as client:
        assert client.post(path, json={"rank": 1}).status_code == 204
        assert client.get("/v1/me").json()["n_pages"] >= 1
    with attacked.caller("clinic-a", token=attacked.folder.token("clinic-a:staff-001")) as other:
        assert other.get("/v1/me").json()["n_pages"] == 0


def test_a_ranker_that_was_never_made_is_as_absent_as_a_path(
    attacked: Attacked, callers: Callers
) -> None:
    with callers.client("coordinator", "node certificate") as client:
        serving = client.get("/v1/serving").json()["serving"]
        assert client.get(f"/v1/rankers/{serving}").status_code == 200
        answers = [client.get(path) for path in (f"/v1/rankers/{NO_RANKER}", "/v1/nothing")]
    assert _seen(answers[0]) == _seen(answers[1])


MARKER = "zqxjmarker"


def test_what_callers_say_stands_in_no_log_and_in_no_figure(
    attacked: Attacked, callers: Callers
) -> None:
    _search(attacked, "clinic-a:zqxjmarker-ann", f"{MARKER}-query cough")
    attacked.planted.update({MARKER, "ZQXJM"})
    headers = {f"x-{MARKER}": MARKER, "cookie": MARKER, "user-agent": MARKER}
    for service in SERVICES:
        for name in ("nobody", "user token", "node certificate", "operator"):
            with callers.client(service, name) as client:
                for method in ("GET", "POST", "DELETE", "ZQXJM"):
                    client.request(method, f"/v1/{MARKER}?q={MARKER}", headers=headers)
                client.post("/v1/search", json={MARKER: MARKER})
                client.post("/v1/search", content=MARKER.encode())
                client.post(f"/v1/pages/{MARKER}/clicks", json={"rank": 1})
                client.get(f"/v1/rankers/{MARKER}")
                client.post("/v1/selection", json={"terms": [MARKER], "n_nodes": MARKER})
                client.post("/v1/selection", json={"terms": [MARKER]})
                client.post("/v1/ask", content=MARKER.encode(), headers=BYTES)
                client.put("/v1/pause", json={"paused": MARKER})
        with attacked.caller(service, token=f"{MARKER}.{MARKER}.{MARKER}") as client:
            client.get("/v1/me")
    _, world_page = _search(attacked, "clinic-a:party-100", attacked.clinics.world.queries[1].text)
    attacked.planted.update(one["doc_id"] for one in world_page["results"])
    assert world_page["results"]
    for service in SERVICES:
        with attacked.caller(service) as client:
            figures = client.get("/metrics").text
        assert not [text for text in attacked.planted if text in figures]
    assert attacked.logged() == {}
