"""A client of Solid servers: WebID, client credentials with DPoP (Solid-OIDC), HTTP.

Each request carries an access token that is bound to this client's key, and a proof of the key
made for that request alone: a token or a proof that is stolen is of no use for another request.
The client's secret is as good as its owner's password for these pods: keep it so.

Without credentials the client is nobody in particular.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import quote, urljoin

from cloister.core.errors import AccessDenied, SettingsError, StoreError
from cloister.core.ids import AgentId
from cloister.pods.acl_turtle import parse_turtle
from cloister.pods.dpop import DPoPKey
from cloister.pods.solid_http import (
    REFUSED,
    SolidHttp,
    SolidResponse,
    checked_address,
    origin,
    raise_for,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["SolidClient", "SolidCredentials"]

REFRESH_S: Final = 60.0  # before its end a token is replaced
UNAUTHORIZED: Final = 401
LDP_CONTAINS: Final = "http://www.w3.org/ns/ldp#contains"
TURTLE: Final = "text/turtle"


class SolidCredentials(NamedTuple):
    """What a program needs to act for a WebID.

    Parameters
    ----------
    issuer
        Address of the identity provider.
    client_id, client_secret
        As the provider gave them.
    web_id
        Whom they stand for.
    token_endpoint
        Where the provider gives out tokens. Unless given, the provider says it itself, and may name
        an address of its own scheme, host and port only: one that lies elsewhere could be a service
        inside the network of whoever runs this client.
    """

    issuer: str
    client_id: str
    client_secret: str
    web_id: AgentId
    token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"SolidCredentials(issuer={self.issuer!r}, web_id={self.web_id!r})"


class _Token(NamedTuple):
    text: str
    fresh_until: float


class SolidClient:
    """HTTP with a Solid identity. May be used by several threads.

    Parameters
    ----------
    credentials
        Whom to act for; None for nobody.
    timeout_s
        For each step of a request.
    transport
        Of httpx, for tests.
    """

    def __init__(
        self,
        credentials: SolidCredentials | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._token_endpoint = ""
        if credentials is not None:
            checked_address(credentials.issuer)
            if credentials.token_endpoint:
                self._token_endpoint = checked_address(credentials.token_endpoint)
        self.credentials = credentials
        self._http = SolidHttp(timeout_s=timeout_s, transport=transport)
        self._key = DPoPKey()
        self._lock = threading.Lock()
        self._token: _Token | None = None
        self._nonces: dict[str, str] = {}  # by server: what it wants to be told next

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def web_id(self) -> AgentId:
        """Whom the client acts for; empty for nobody."""
        return AgentId("") if self.credentials is None else self.credentials.web_id

    def request(
        self,
        method: str,
        url: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        expected: Collection[int] = (),
    ) -> SolidResponse:
        """Send a request; a token or nonce that has run out is replaced, once.

        Statuses of success, 304 and those ``expected`` are returned. Others are raised: what may
        not be done and what is not there alike as `AccessDenied`, a failed condition as
        `Conflict`, the rest as `StoreError`.
        """
        response = self._authenticated(method, url, content, headers)
        if response.status == UNAUTHORIZED and self.credentials is not None:
            if "dpop-nonce" not in response.headers:  # else the nonce was at fault, and is kept
                self._forget_token()
            response = self._authenticated(method, url, content, headers)
        if response.status not in expected:
            raise_for(response.status, url)
        return response

    def head(self, url: str) -> SolidResponse:
        """Return the headers of a resource."""
        return self.request("HEAD", url)

    def get(self, url: str, *, etag: str = "", accept: str = "*/*") -> SolidResponse:
        """Return a resource; status 304 and no content where it still has that tag."""
        headers = {"accept": accept} | ({"if-none-match": etag} if etag else {})
        return self.request("GET", url, headers=headers)

    def put(
        self, url: str, content: bytes, media_type: str, *, etag: str = "", new: bool = False
    ) -> SolidResponse:
        """Store a resource; on condition that it has that tag, or is not there yet."""
        headers = {"content-type": media_type}
        if etag:
            headers["if-match"] = etag
        if new:
            headers["if-none-match"] = "*"
        return self.request("PUT", url, content=content, headers=headers)

    def delete(self, url: str, *, etag: str = "") -> SolidResponse:
        """Remove a resource; on condition that it has that tag."""
        return self.request("DELETE", url, headers={"if-match": etag} if etag else None)

    def members(self, container: str) -> list[str]:
        """Return the addresses of what a container holds, in order (``ldp:contains``).

        What a listing names that does not lie directly in the container is left out.
        """
        from rdflib import URIRef

        response = self.get(container, accept=TURTLE)
        graph = parse_turtle(response.content, container)
        found = {str(value) for value in graph.objects(None, URIRef(LDP_CONTAINS))}
        return sorted(address for address in found if _is_directly_in(address, container))

    def acl_address(self, url: str, response: SolidResponse | None = None) -> str:
        """Return where a resource's access control list is, by its ``Link`` header.

        Servers may say so of what the client may control and not read, too.
        """
        from httpx import Response

        response = response or self.request("HEAD", url, expected=REFUSED)
        links = Response(200, headers={"link": response.headers.get("link", "")}).links
        if "acl" not in links:
            raise_for(response.status, url)
            raise StoreError("the server names no access control list", where=url)
        address = urljoin(url, links["acl"]["url"])
        if origin(address) != origin(url):
            raise StoreError("the access control list lies on another server", where=url)
        return address

    def _authenticated(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str] | None
    ) -> SolidResponse:
        sent = dict(headers or {})
        if self.credentials is not None:
            checked_address(url)
            token = self._fresh_token(self.credentials)
            nonce = self._nonces.get(origin(url), "")
            sent["authorization"] = f"DPoP {token}"
            sent["dpop"] = self._key.proof(method, url, token=token, nonce=nonce)
        return self._send(method, url, content=content, headers=sent)

    def _send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        data: Mapping[str, str] | None = None,
    ) -> SolidResponse:
        response = self._http.send(method, url, headers=headers, content=content, data=data)
        if nonce := response.headers.get("dpop-nonce"):
            self._nonces[origin(url)] = nonce
        return response

    def _fresh_token(self, credentials: SolidCredentials) -> str:
        with self._lock:
            if self._token is None or time.monotonic() >= self._token.fresh_until:
                self._token = self._login(credentials)
            return self._token.text

    def _forget_token(self) -> None:
        with self._lock:
            self._token = None

    def _login(self, credentials: SolidCredentials) -> _Token:
        """Ask the identity provider for a token."""
        endpoint = self._endpoint(credentials.issuer)
        response = self._ask_for_token(endpoint, credentials)
        if response.status >= 400 and "dpop-nonce" in response.headers:
            response = self._ask_for_token(endpoint, credentials)
        if response.status >= 500:
            raise StoreError("the identity provider failed", where=origin(endpoint))
        fields = response.fields(endpoint)
        kind, token = str(fields.get("token_type", "")), str(fields.get("access_token", ""))
        if response.status >= 400 or kind.lower() != "dpop" or not token:
            raise AccessDenied(
                "the identity provider refused the client's credentials",
                where=origin(endpoint),
                remedy="make new client credentials",
            )
        lasts_s = _seconds(fields.get("expires_in"))
        return _Token(token, time.monotonic() + lasts_s - min(REFRESH_S, lasts_s / 2))

    def _ask_for_token(self, endpoint: str, credentials: SolidCredentials) -> SolidResponse:
        user = quote(credentials.client_id, safe="")
        secret = quote(credentials.client_secret, safe="")
        nonce = self._nonces.get(origin(endpoint), "")
        headers = {
            "authorization": f"Basic {b64encode(f'{user}:{secret}'.encode()).decode()}",
            "dpop": self._key.proof("POST", endpoint, nonce=nonce),
        }
        form = {"grant_type": "client_credentials", "scope": "webid"}
        return self._send("POST", endpoint, headers=headers, data=form)

    def _endpoint(self, issuer: str) -> str:
        if not self._token_endpoint:
            url = issuer.rstrip("/") + "/.well-known/openid-configuration"
            response = self._send("GET", url, headers={})
            raise_for(response.status, url)
            named = checked_address(str(response.fields(url).get("token_endpoint")))
            if origin(named) != origin(issuer):
                raise SettingsError(
                    "the identity provider names another server for its tokens",
                    where=origin(issuer),
                    remedy="if that server is right, add it to the credentials file as "
                    f'"token_endpoint": {json.dumps(named[:200])}',
                )
            self._token_endpoint = named
        return self._token_endpoint


def _is_directly_in(address: str, container: str) -> bool:
    rest = address.removeprefix(container)
    return rest != address and bool(rest) and "/" not in rest.removesuffix("/")


def _seconds(value: object) -> float:
    """Return how long a token lasts; 0 where the provider does not say: it is used once."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**31
    return float(value) if known else 0.0  # type: ignore[arg-type]
