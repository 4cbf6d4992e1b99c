from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    Conflict,
    DataError,
    SettingsError,
    StoreError,
)
from cloister.core.ids import AgentId
from cloister.pods import solid_client
from cloister.pods.document_text import MAX_DOCUMENT_BYTES
from cloister.pods.solid_client import SolidClient, SolidCredentials
from pods.answered import Answered

ISSUER = "https://id.example/"
POD = "https://pods.example/ann/"
WEB_ID = AgentId(POD + "profile/card#me")
CREDENTIALS = SolidCredentials(ISSUER, "the id", "the:secret", WEB_ID)
Handler = Callable[[httpx.Request], httpx.Response]


class Provider:
    """An identity provider and a pod server that check what they get, as RFC 9449 says."""

    def __init__(self, *, lasts_s: float = 600.0, nonce: str = "", pod: Handler | None = None):
        self.lasts_s = lasts_s
        self.nonce = nonce
        self.pod = pod or (lambda _: httpx.Response(200, text="cough"))
        self.n_tokens = 0
        self.valid: set[str] = set()
        self.proofs: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("openid-configuration"):
            return httpx.Response(200, json={"token_endpoint": ISSUER + "token"})
        challenge = self._challenge(request)
        if challenge is not None:
            return challenge
        if str(request.url) == ISSUER + "token":
            return self._token(request)
        if request.headers["authorization"].removeprefix("DPoP ") not in self.valid:
            return httpx.Response(401)
        return self.pod(request)

    def _challenge(self, request: httpx.Request) -> httpx.Response | None:
        proof = request.headers["dpop"]
        header = json.loads(base64.urlsafe_b64decode(proof.split(".")[0] + "=="))
        assert (header["typ"], header["alg"]) == ("dpop+jwt", "ES256")
        assert "d" not in header["jwk"]  # the private part stays at home
        claims = jwt.decode(proof, ECKey.import_key(header["jwk"]), algorithms=["ES256"]).claims
        assert claims["htm"] == request.method
        assert claims["htu"] == str(request.url).partition("?")[0]
        assert abs(claims["iat"] - time.time()) < 60
        assert claims["jti"] not in self.proofs
        self.proofs.add(claims["jti"])
        if self.nonce and claims.get("nonce") != self.nonce:
            return httpx.Response(401, headers={"dpop-nonce": self.nonce})
        return None

    def _token(self, request: httpx.Request) -> httpx.Response:
        basic = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert basic == "the%20id:the%3Asecret"
        assert b"grant_type=client_credentials" in request.content
        self.n_tokens += 1
        token = f"token-{self.n_tokens}"
        self.valid.add(token)
        fields = {"access_token": token, "token_type": "DPoP", "expires_in": self.lasts_s}
        return httpx.Response(200, json=fields)


def client_of(handler: Handler) -> SolidClient:
    return SolidClient(CREDENTIALS, transport=Answered(handler))


def test_one_token_serves_many_requests_each_with_its_own_proof() -> None:
    provider = Provider()
    with client_of(provider) as client:
        for _ in range(3):
            assert client.get(POD + "a.txt").content == b"cough"
    assert provider.n_tokens == 1
    assert len(provider.proofs) == 4


def test_a_token_is_replaced_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(lasts_s=600)
    now = 1000.0
    monkeypatch.setattr(solid_client.time, "monotonic", lambda: now)
    with client_of(provider) as client:
        client.get(POD + "a.txt")
        now += 539
        client.get(POD + "a.txt")
        assert provider.n_tokens == 1
        now += 2
        client.get(POD + "a.txt")
    assert provider.n_tokens == 2


def test_a_token_that_the_server_no_longer_takes_is_replaced_once() -> None:
    provider = Provider()
    with client_of(provider) as client:
        client.get(POD + "a.txt")
        provider.valid.clear()
        assert client.get(POD + "a.txt").content == b"cough"
        assert provider.n_tokens == 2
        provider.pod = lambda _: httpx.Response(401)
        with pytest.raises(AccessDenied):
            client.get(POD + "a.txt")
    assert provider.n_tokens == 3


def test_a_nonce_is_given_back_and_a_used_one_is_replaced() -> None:
    provider = Provider(nonce="one")
    with client_of(provider) as client:
        assert client.get(POD + "a.txt").content == b"cough"
        n_proofs = len(provider.proofs)
        client.get(POD + "a.txt")
        assert len(provider.proofs) == n_proofs + 1  # known by now
        provider.nonce = "two"
        assert client.get(POD + "a.txt").content == b"cough"
    assert provider.n_tokens == 1


def test_refused_credentials_are_told_and_their_secret_is_not() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("openid-configuration"):
            return httpx.Response(200, json={"token_endpoint": ISSUER + "token"})
        return httpx.Response(401, json={"error": "invalid_client"})

    with client_of(refuse) as client, pytest.raises(AccessDenied) as error:
        client.get(POD + "a.txt")
    assert "secret" not in str(error.value)
    assert "secret" not in repr(CREDENTIALS)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, AccessDenied),
        (404, AccessDenied),
        (410, AccessDenied),
        (412, Conflict),
        (500, StoreError),
        (302, StoreError),
        (429, StoreError),
    ],
)
def test_statuses_become_errors(status: int, kind: type[CloisterError]) -> None:
    moved = {"location": "https://evil.example/"}
    provider = Provider(pod=lambda _: httpx.Response(status, headers=moved))
    with client_of(provider) as client, pytest.raises(kind):
        client.get(POD + "a.txt")


def test_what_is_refused_and_what_is_absent_look_alike() -> None:
    texts = set()
    for status in (401, 403, 404):
        provider = Provider(pod=lambda _, status=status: httpx.Response(status))  # type: ignore[misc]
        with client_of(provider) as client, pytest.raises(AccessDenied) as error:
            client.get(POD + "a.txt")
        texts.add(str(error.value))
    assert len(texts) == 1


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:3000/",
        "http://pods.example/",
        "http://localhost.evil.example/",
        "http://localhost@evil.example/",
        "https://user:pw@pods.example/",
        "ftp://pods.example/",
        "pods.example",
        "",
    ],
)
def test_a_token_is_sent_over_tls_or_to_this_machine_alone(address: str) -> None:
    with pytest.raises(SettingsError):
        SolidClient(CREDENTIALS._replace(issuer=address))
    provider = Provider()
    with client_of(provider) as client, pytest.raises(SettingsError):
        client.get(address)
    assert provider.proofs == set()


def test_a_dead_server_is_an_error_of_ours() -> None:
    def dead(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with client_of(dead) as client, pytest.raises(StoreError):
        client.get(POD + "a.txt")


def test_an_endless_answer_is_cut() -> None:
    provider = Provider(pod=lambda _: httpx.Response(200, content=b"x" * (MAX_DOCUMENT_BYTES + 1)))
    with client_of(provider) as client, pytest.raises(DataError):
        client.get(POD + "a.txt")


def test_conditions_are_sent() -> None:
    seen = []

    def pod(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers.get("if-match"), request.headers.get("if-none-match")))
        return httpx.Response(304 if request.method == "GET" else 201)

    with client_of(Provider(pod=pod)) as client:
        assert client.get(POD + "a.txt", etag='"1"').status == 304
        client.put(POD + "a.txt", b"", "text/plain", etag='"1"')
        client.put(POD + "a.txt", b"", "text/plain", new=True)
        client.delete(POD + "a.txt")
    assert seen == [(None, '"1"'), ('"1"', None), (None, "*"), (None, None)]


def test_a_container_lists_only_what_lies_in_it() -> None:
    listing = """@prefix ldp: <http://www.w3.org/ns/ldp#>.
    <> ldp:contains <b.txt>, <a.txt>, <x/>, <x/deep.txt>, <https://evil.example/a.txt>,
        <../bob/>, <>.
    """
    turtle = {"content-type": "text/turtle"}
    pod = Provider(pod=lambda _: httpx.Response(200, text=listing, headers=turtle))
    with client_of(pod) as client:
        assert list(client.members(POD)) == [POD + "a.txt", POD + "b.txt", POD + "x/"]


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ('<a.txt.acl>; rel="acl"', POD + "a.txt.acl"),
        (f'<{POD}acl/1>; rel="acl", <x>; rel="type"', POD + "acl/1"),
        ('<https://evil.example/a.acl>; rel="acl"', None),
        ('<x>; rel="type"', None),
        ("", None),
    ],
)
def test_the_list_is_found_by_the_link_header(link: str, address: str | None) -> None:
    provider = Provider(pod=lambda _: httpx.Response(200, headers={"link": link}))
    with client_of(provider) as client:
        if address is None:
            with pytest.raises(StoreError):
                client.acl_address(POD + "a.txt")
        else:
            assert client.acl_address(POD + "a.txt") == address


def test_nobody_sends_no_token() -> None:
    def pod(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        assert "dpop" not in request.headers
        return httpx.Response(200, text="leaflet")

    with SolidClient(transport=Answered(pod)) as nobody:
        assert nobody.get(POD + "a.txt").content == b"leaflet"
        assert nobody.web_id == ""


@contextmanager
def listening(answer: Callable[[str], tuple[int, dict[str, str], bytes]]) -> Iterator[list[str]]:
    """A real server on this machine; gives its address, and then all that it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, headers, content = answer(self.path)
            self.send_response(status)
            for name, value in (headers | {"content-length": str(len(content))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        asked = [f"http://localhost:{server.server_address[1]}"]
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("how", ["names another port", "redirects discovery", "redirects login"])
def test_a_hostile_issuer_reaches_no_other_service(how: str) -> None:
    with listening(lambda _: (200, {}, b"{}")) as inside:

        def hostile(path: str) -> tuple[int, dict[str, str], bytes]:
            if how == "redirects discovery" or (how == "redirects login" and path == "/token"):
                return 307, {"location": f"{inside[0]}/secret"}, b""
            own = f"{outside[0]}/token"
            named = f"{inside[0]}/admin" if how == "names another port" else own
            return 200, {}, json.dumps({"token_endpoint": named}).encode()

        with listening(hostile) as outside:
            credentials = SolidCredentials(outside[0] + "/", "id", "secret", WEB_ID)
            with SolidClient(credentials) as client, pytest.raises(CloisterError) as caught:
                client.get(f"{outside[0]}/ann/a.txt")
            assert len(outside) > 1
        assert inside[1:] == []
    if how == "names another port":
        assert "names another server for its tokens" in str(caught.value)
        assert f'"token_endpoint": "{inside[0]}/admin"' in caught.value.remedy


def test_an_endpoint_elsewhere_is_used_where_the_credentials_name_it() -> None:
    provider = Provider()
    named = SolidCredentials(
        "https://login.example/", "the id", "the:secret", WEB_ID, ISSUER + "token"
    )
    with SolidClient(named, transport=Answered(provider)) as client:
        assert client.get(POD + "a.txt").content == b"cough"
    with pytest.raises(SettingsError):
        SolidClient(named._replace(token_endpoint="http://10.0.0.1/token"))


def test_a_listing_that_says_very_much_of_one_document_takes_linear_time() -> None:
    lines = [f"<{POD}> <http://www.w3.org/ns/ldp#contains> <{POD}a.txt> ."]
    lines += [f'<{POD}a.txt> <urn:{number}> "{"x" * 20}" .' for number in range(60_000)]

    def answer(_: httpx.Request) -> httpx.Response:
        headers = {"content-type": "application/n-triples"}
        return httpx.Response(200, headers=headers, content="\n".join(lines).encode())

    with SolidClient(transport=Answered(answer)) as client:
        members = client.members(POD)
    assert list(members) == [POD + "a.txt"]
    assert len(members[POD + "a.txt"]) == 32  # a digest is remembered, not 3 MB
