"""A client of Solid servers: WebID, client credentials with DPoP (Solid-OIDC), HTTP.

Each request carries an access token that is bound to this client's key, and a proof of the key
made for that request alone: a token or a proof that is stolen is of no use for another request.
The client's secret is as good as its owner's password for these pods: keep it so.

Without credentials the client is nobody in particular.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Self
from urllib.parse import quote, urljoin

from cloister.core.deadline import time_left
from cloister.core.errors import AccessDenied, DataError, SettingsError, StoreError
from cloister.core.ids import AgentId
from cloister.pods.acl_turtle import MAX_TURTLE_BYTES, parse_turtle
from cloister.pods.document_text import MAX_DOCUMENT_BYTES
from cloister.pods.dpop import DPoPKey
from cloister.pods.http_transport import PodTransport
from cloister.pods.pod_gate import PodAway, PodGate
from cloister.pods.solid_http import (
    REFUSED,
    SolidHttp,
    SolidResponse,
    checked_address,
    linked,
    origin,
    raise_for,
)

__all__ = ["ListingRoom", "SolidClient", "SolidCredentials"]

REFRESH_S: Final = 60.0  # before its end a token is replaced
UNAUTHORIZED: Final = 401
LDP_CONTAINS: Final = "http://www.w3.org/ns/ldp#contains"
TURTLE: Final = "text/turtle"
N_TRIPLES: Final = "application/n-triples"
TIMEOUT_S: Final = 10.0  # for a whole exchange
MAX_TOKEN_BYTES: Final = 100_000  # of what an identity provider says
MAX_LISTING_BYTES: Final = 8_000_000  # of one container, about 20,000 members
_TRIPLE: Final = re.compile(
    r'<([^<>"\s]*)>[ \t]+<([^<>"\s]*)>[ \t]+(?:<([^<>"\s]*)>|"([^"]*)"\S*)[ \t]*\.[ \t]*\r?'
)
_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


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


class ListingRoom:
    """How much of a pod's listings may still be fetched and read. Threads may share it.

    Parameters
    ----------
    n_bytes, n_turtle_bytes
        Of listings together; of those in Turtle, which takes long to read.

    Examples
    --------
    >>> room = ListingRoom(100, 10)
    >>> room.take(60)
    >>> room.n_bytes
    40
    >>> room.take(20, turtle=True)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: the pod's listings are too long; ...
    """

    def __init__(
        self, n_bytes: int = MAX_LISTING_BYTES, n_turtle_bytes: int = MAX_TURTLE_BYTES
    ) -> None:
        self._lock = threading.Lock()
        self.n_bytes, self.n_turtle_bytes = n_bytes, n_turtle_bytes

    def take(self, n_bytes: int, *, turtle: bool = False) -> None:
        """Use some of the room for a listing that was fetched; raise where there is too little."""
        with self._lock:
            self.n_bytes -= n_bytes
            fits = self.n_bytes >= 0 and not (turtle and n_bytes > self.n_turtle_bytes)
            if fits and turtle:
                self.n_turtle_bytes -= n_bytes
        if not fits:
            raise DataError("the pod's listings are too long")


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
        For a whole request, from finding the server's address to the last byte of the answer.
    gate
        Limits requests, and leaves a server alone that misbehaves; one of its own unless given.
    transport
        What carries requests; libcurl unless given.
    """

    def __init__(
        self,
        credentials: SolidCredentials | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        gate: PodGate | None = None,
        transport: PodTransport | None = None,
        http: SolidHttp | None = None,
    ) -> None:
        self._token_endpoint = ""
        if credentials is not None:
            checked_address(credentials.issuer)
            if credentials.token_endpoint:
                self._token_endpoint = checked_address(credentials.token_endpoint)
        self.credentials = credentials
        self._http = http or SolidHttp(timeout_s=timeout_s, gate=gate, transport=transport)
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

    def as_nobody(self) -> SolidClient:
        """Return a client over the same connections that acts for nobody."""
        return SolidClient(http=self._http)

    @property
    def gate(self) -> PodGate:
        """What limits the requests."""
        return self._http.gate

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
        max_bytes: int = MAX_DOCUMENT_BYTES,
    ) -> SolidResponse:
        """Send a request; a token or nonce that has run out is replaced, once.

        Statuses of success, 304 and those ``expected`` are returned. Others are raised: what may
        not be done and what is not there alike as `AccessDenied`, a failed condition as
        `Conflict`, the rest as `StoreError`.
        """
        response = self._authenticated(method, url, content, headers, max_bytes)
        if response.status == UNAUTHORIZED and self.credentials is not None:
            if "dpop-nonce" not in response.headers:  # else the nonce was at fault, and is kept
                self._forget_token()
            response = self._authenticated(method, url, content, headers, max_bytes)
        if response.status not in expected:
            raise_for(response.status, url)
        return response

    def head(self, url: str) -> SolidResponse:
        """Return the headers of a resource."""
        return self.request("HEAD", url)

    def get(
        self,
        url: str,
        *,
        etag: str = "",
        accept: str = "*/*",
        expected: Collection[int] = (),
        max_bytes: int = MAX_DOCUMENT_BYTES,
    ) -> SolidResponse:
        """Return a resource; status 304 and no content where it still has that tag."""
        headers = {"accept": accept} | ({"if-none-match": etag} if etag else {})
        return self.request("GET", url, headers=headers, expected=expected, max_bytes=max_bytes)

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

    def members(self, container: str, room: ListingRoom | None = None) -> dict[str, str]:
        """Return what a container holds (``ldp:contains``).

        Each address comes with a digest of what the listing says of it: its size, and when it
        changed. It is empty where the server says nothing. What a listing names that does not lie
        directly in the container is left out. N-Triples are asked for: they are read line by line,
        in a tenth of the time.

        Parameters
        ----------
        room
            Is used up by listings before they are read.
        """
        room = room or ListingRoom()
        max_bytes = min(MAX_LISTING_BYTES, room.n_bytes)
        if max_bytes <= 0:
            room.take(1)
        try:
            accept = f"{N_TRIPLES}, {TURTLE};q=0.5"
            response = self.get(container, accept=accept, max_bytes=max_bytes)
        except DataError:
            room.take(max_bytes)
            raise
        is_turtle = response.media_type != N_TRIPLES
        room.take(len(response.content), turtle=is_turtle)
        read = _read_turtle if is_turtle else _read_triples
        said = read(response.content, container)
        contained = {value for _, name, value in said if name == LDP_CONTAINS}
        found: dict[str, list[str]] = {
            one: [] for one in sorted(contained) if _is_directly_in(one, container)
        }
        for subject, name, value in sorted(said):
            if subject in found and name != LDP_CONTAINS:
                found[subject].append(f"{name} {value}\n")
        return {one: _digest(lines) for one, lines in found.items()}

    def acl_address(self, url: str, response: SolidResponse | None = None) -> str:
        """Return where a resource's access control list is, by its ``Link`` header.

        Servers may say so of what the client may control and not read, too.
        """
        response = response or self.request("HEAD", url, expected=REFUSED)
        target = linked(response.headers.get("link", ""), "acl")
        if target is None:
            raise_for(response.status, url)
            raise StoreError("the server names no access control list", where=url)
        try:
            address = urljoin(url, target)
        except ValueError:
            raise DataError("the address of the access control list is none", where=url) from None
        if origin(address) != origin(url):
            raise StoreError("the access control list lies on another server", where=url)
        return address

    def _authenticated(
        self,
        method: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        max_bytes: int,
    ) -> SolidResponse:
        sent = dict(headers or {})
        if self.credentials is not None:
            checked_address(url)
            token = self._fresh_token(self.credentials)
            nonce = self._nonces.get(origin(url), "")
            sent["authorization"] = f"DPoP {token}"
            sent["dpop"] = self._key.proof(method, url, token=token, nonce=nonce)
        return self._send(method, url, content=content, headers=sent, max_bytes=max_bytes)

    def _send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        max_bytes: int = MAX_TOKEN_BYTES,
    ) -> SolidResponse:
        response = self._http.send(
            method, url, headers=headers, content=content, max_bytes=max_bytes
        )
        if nonce := response.headers.get("dpop-nonce"):
            self._nonces[origin(url)] = nonce
        return response

    def _fresh_token(self, credentials: SolidCredentials) -> str:
        """Return a token; one thread asks for it, and the others wait within their deadlines."""
        most_s = min(time_left(), 2 * self._http.timeout_s)
        if not self._lock.acquire(timeout=most_s):
            raise PodAway("no token in time", where=origin(credentials.issuer))
        try:
            token = self._token
            if token is None or time.monotonic() >= token.fresh_until:
                token = self._token = self._login(credentials)
            return token.text
        finally:
            self._lock.release()

    def _forget_token(self) -> None:
        self._token = None  # without the lock: another thread may hold it while it waits

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
            "content-type": "application/x-www-form-urlencoded",
        }
        form = b"grant_type=client_credentials&scope=webid"
        return self._send("POST", endpoint, headers=headers, content=form)

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


def _read_triples(content: bytes, where: str) -> set[tuple[str, str, str]]:
    """Read N-Triples; lines that are something else, such as blank nodes, are left out."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("cannot be read as N-Triples", where=where) from None
    found = set()
    for line in text.split("\n"):
        triple = _TRIPLE.fullmatch(line)
        if triple is not None:
            subject, name, address, literal = triple.groups()
            value = literal if address is None else address
            found.add((_unescaped(subject), name, _unescaped(value)))
    return found


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: _character(found[1] or found[2]), text)


def _character(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


def _read_turtle(content: bytes, container: str) -> set[tuple[str, str, str]]:
    return {(one.subject, one.predicate, one.value) for one in parse_turtle(content, container)}


def _digest(lines: Iterable[str]) -> str:
    text = "".join(lines)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() if text else ""


def _is_directly_in(address: str, container: str) -> bool:
    rest = address.removeprefix(container)
    return rest != address and bool(rest) and "/" not in rest.removesuffix("/")


def _seconds(value: object) -> float:
    """Return how long a token lasts; 0 where the provider does not say: it is used once."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**31
    return float(value) if known else 0.0  # type: ignore[arg-type]
