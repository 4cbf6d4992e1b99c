"""The way to another service of the federation: mutual TLS, one deadline, typed errors."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Self
from urllib.parse import urlsplit

import httpx

from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    CloisterError,
    Conflict,
    DataError,
    NotFound,
    SettingsError,
    kind_in_words,
)
from cloister.web.callers import Caller, Role
from cloister.web.client_session import ClientSession
from cloister.web.json_shape import check_json_shape
from cloister.web.logs import log_event
from cloister.web.messages import BINARY
from cloister.web.peer_socket import Deadline, peer_context
from cloister.web.refusals import REFUSAL_HEADER, PeerBusy, PeerUnreachable
from cloister.web.tls import LiveTls, TlsFiles

__all__ = ["PeerBusy", "PeerClient", "PeerUnreachable"]

MAX_ANSWER_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 20
MAX_CONNECTIONS: Final = 16
KEEP_S: Final = 5.0  # less than services keep a connection that waits
MOST_WAIT_S: Final = 600.0  # that a peer can ask us to wait
_JSON: Final = "application/json"
_KINDS: Final[dict[int, type[CloisterError]]] = {
    400: DataError,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    405: DataError,
    409: Conflict,
    413: DataError,
    415: DataError,
}
_REPEATABLE: Final = frozenset({"GET", "PUT"})  # may be sent again where the connection was gone


class PeerClient:
    """Asks one service. Threads may share it.

    The server must have a certificate of the federation's own authority, for the host's name, that
    names the expected role and name and is not revoked; this is checked before anything is sent.
    Redirects are not followed, no proxy is asked, answers are cut at a size. The certificate files
    are read again when they change. The time for finding a host's address is not limited.

    Parameters
    ----------
    url
        ``https://`` and a host.
    tls
        Our certificate and the authority.
    federation, role, name
        What the server's certificate must say.
    timeout_s
        For a whole exchange, from connecting to the last byte.
    max_answer_bytes
        Of an answer.
    headers
        Sent with every request.
    """

    def __init__(
        self,
        url: str,
        tls: TlsFiles,
        *,
        federation: str,
        role: Role,
        name: str,
        timeout_s: float = 30.0,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = _checked(url)
        self.peer = Caller(role, name)
        self._timeout_s, self._max_answer_bytes = timeout_s, max_answer_bytes
        self._headers = dict(headers or {})
        self._deadline = Deadline()
        self._live = LiveTls(
            tls, lambda files: peer_context(files, self.peer, federation, self._deadline)
        )
        self._lock = threading.Lock()
        self._session = ClientSession(self._http())
        self._closed = False

    def get_json(self, path: str, *, timeout_s: float | None = None) -> Any:
        """Fetch something."""
        return self._json(self._ask("GET", path, None, _JSON, timeout_s))

    def post_json(self, path: str, body: object = None, *, timeout_s: float | None = None) -> Any:
        """Send something: a pydantic model, what `json.dumps` takes, or nothing for None."""
        content = None if body is None else _text(body)
        return self._json(self._ask("POST", path, content, _JSON, timeout_s))

    def put_json(self, path: str, body: object, *, timeout_s: float | None = None) -> Any:
        """Put something in its place; sent a second time where the connection was lost."""
        return self._json(self._ask("PUT", path, _text(body), _JSON, timeout_s))

    def post_bytes(self, path: str, content: bytes, timeout_s: float | None = None) -> bytes:
        """Send bytes and return bytes."""
        return self._ask("POST", path, content, BINARY, timeout_s)

    def get_bytes(self, path: str, *, timeout_s: float | None = None) -> bytes:
        """Fetch bytes."""
        return self._ask("GET", path, None, BINARY, timeout_s)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            self._session.retire()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _http(self) -> httpx.Client:
        kept = httpx.Limits(
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_S,
        )
        return httpx.Client(verify=self._live.context, trust_env=False, limits=kept)

    def _current(self) -> ClientSession:
        """Return the session for an exchange; a new one where certificates changed."""
        with self._lock:
            if self._closed:
                raise SettingsError("the client is closed", where=self.url)
            if self._renewed():
                self._session.retire()
                self._session = ClientSession(self._http())
            self._session.enter()
            return self._session

    def _renewed(self) -> bool:
        """Read certificates that changed; where they cannot be used, the old ones stay."""
        try:
            return self._live.refresh()
        except CloisterError as error:
            log_event("certificates_not_read", level=logging.ERROR, kind=type(error).__name__)
            return False

    def _ask(
        self, method: str, path: str, content: bytes | None, kind: str, timeout_s: float | None
    ) -> bytes:
        self._deadline.begin(timeout_s or self._timeout_s)
        session = self._current()
        try:
            return self._answer(session.http, method, path, content, kind)
        except httpx.TransportError as error:
            if method not in _REPEATABLE or isinstance(error, _FINAL) or self._deadline.is_over():
                self._unreachable(error)
            try:
                return self._answer(session.http, method, path, content, kind)
            except httpx.TransportError as again:
                self._unreachable(again)
        finally:
            session.leave()

    def _answer(
        self, http: httpx.Client, method: str, path: str, content: bytes | None, kind: str
    ) -> bytes:
        headers = {"accept": kind, "accept-encoding": "identity", **self._headers}
        if content is not None:
            headers["content-type"] = kind
        timeout = httpx.Timeout(self._deadline.left_s())
        with http.stream(
            method, self._address(path), content=content, headers=headers, timeout=timeout
        ) as answer:
            received = self._received(answer)
        if not 200 <= answer.status_code < 300:
            self._refused(answer, received)
        return received

    def _address(self, path: str) -> str:
        if not path.startswith("/"):
            raise SettingsError("a path begins with a slash", where=path[:80])
        return self.url + path

    def _received(self, answer: httpx.Response) -> bytes:
        received = bytearray()
        for chunk in answer.iter_raw():
            received += chunk
            if len(received) > self._max_answer_bytes:
                raise DataError("the answer is too long", where=self.url)
            if self._deadline.is_over():
                raise httpx.ReadTimeout("the answer took too long")
        return bytes(received)

    def _json(self, content: bytes) -> Any:
        try:
            check_json_shape(content, max_depth=MAX_DEPTH)
            return json.loads(content) if content else None
        except (ValueError, DataError):
            raise DataError("the answer cannot be read", where=self.url) from None

    def _refused(self, answer: httpx.Response, content: bytes) -> NoReturn:
        status = answer.status_code
        try:
            check_json_shape(content, max_depth=MAX_DEPTH)
            told = json.loads(content)
            what, remedy = str(told["error"])[:500], str(told["remedy"])[:500]
        except (ValueError, TypeError, KeyError, DataError):
            what, remedy = f"the service answered with status {status}", ""
        if answer.headers.get(REFUSAL_HEADER) == "budget":
            raise BudgetExceeded(what, where=self.url, remedy=remedy)
        if status in _KINDS:
            raise _KINDS[status](what, where=self.url, remedy=remedy)
        if status in (429, 503):
            wait_s = _seconds(answer.headers.get("retry-after", ""))
            raise PeerBusy(what, where=self.url, remedy=remedy, wait_s=wait_s)
        raise PeerUnreachable(what, where=self.url, remedy=remedy)

    def _unreachable(self, error: httpx.TransportError) -> NoReturn:
        raise PeerUnreachable(
            f"{self.peer.role} {self.peer.name} does not answer ({_reason(error)})",
            where=self.url,
            remedy="see that it runs there, under that name, and that certificates are valid",
        ) from None


_FINAL: Final = (
    httpx.TimeoutException,
    httpx.ConnectError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.username is not None or parts.query or parts.fragment:
        raise SettingsError("not an https address", where=url[:80], remedy="use https://")
    return url.rstrip("/")


def _text(body: object) -> bytes:
    dump: Callable[[], str] | None = getattr(body, "model_dump_json", None)
    return (dump() if dump is not None else json.dumps(body)).encode()


def _seconds(text: str) -> float:
    try:
        wait_s = float(text)
    except ValueError:
        return 1.0
    return min(max(wait_s, 0.0), MOST_WAIT_S) if math.isfinite(wait_s) else 1.0


def _reason(error: httpx.TransportError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if "CERTIFICATE" in str(cause).upper():
            return "its certificate or ours is refused"
        cause = cause.__cause__ or cause.__context__
    return kind_in_words(error)
