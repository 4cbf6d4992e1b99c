"""The way to a server of private indexes over HTTP; httpx comes with the extra ``cloud``.

Requests carry keys and the token: they go over TLS, or to this machine itself.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self
from urllib.parse import urlsplit

from cloister.cloud.rank_request import RankAnswer, RankRequest
from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    DataError,
    MissingDependency,
    NotFound,
    SettingsError,
    StoreError,
    kind_in_words,
)
from cloister.core.file_errors import explained
from cloister.web.addresses import is_loopback

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpTransport"]

MAX_ANSWER_BYTES: Final = 256 << 20
_CHUNK_BYTES: Final = 1 << 20
_ERRORS: Final[dict[int, type[CloisterError]]] = {
    400: DataError,
    401: AccessDenied,
    404: NotFound,
    413: DataError,
}


class HttpTransport:
    """A connection to a server; redirects are not followed. Threads may share it.

    Parameters
    ----------
    address
        ``https://`` and a host, or ``http://`` and this machine.
    token
        The server's bearer token.
    timeout_s
        Time for a step of an exchange.
    ca_file
        Certificates that servers' own are checked against, in PEM; the system's where not given.
    transport
        Takes the place of the network.

    Examples
    --------
    >>> HttpTransport("http://index.example", "token")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: http://index.example: neither https nor this machine; ...
    """

    def __init__(
        self,
        address: str,
        token: str,
        *,
        timeout_s: float = 60.0,
        ca_file: str | Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._address = _checked(address)
        self._httpx = _httpx()
        headers = {"authorization": f"Bearer {token}"}
        self._http = self._httpx.Client(
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            trust_env=False,  # no proxy from the environment sees keys
            verify=True if ca_file is None else _trusting(ca_file),
        )

    def upload(self, index_id: str, index: Path) -> None:
        """Send an index's file; it takes the place of one of the same id."""
        with explained(index), index.open("rb") as stream:
            size = index.stat().st_size
            content = iter(lambda: stream.read(_CHUNK_BYTES), b"")
            headers = {"content-length": str(size)}
            self._send("PUT", f"/indexes/{index_id}", content=content, headers=headers)

    def rank(self, index_id: str, request: RankRequest) -> RankAnswer:
        """Send a query and return the answer."""
        address = f"/indexes/{index_id}/rank"
        return RankAnswer.from_json(self._send("POST", address, content=request.to_json()))

    def document_text(self, index_id: str, number: int) -> bytes:
        """Fetch a document's sealed text."""
        return self._send("GET", f"/indexes/{index_id}/documents/{number}")

    def describe(self, index_id: str) -> dict[str, Any]:
        """Return counts and sizes of an index."""
        try:
            return dict(json.loads(self._send("GET", f"/indexes/{index_id}")))
        except (ValueError, TypeError, RecursionError):
            raise DataError("the answer cannot be read", where=self._address) from None

    def remove(self, index_id: str) -> None:
        """Remove an index from the server; copies that its operator made stay."""
        self._send("DELETE", f"/indexes/{index_id}")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        url = self._address + path
        try:
            with self._http.stream(method, url, content=content, headers=headers) as answer:
                received = bytearray()
                for chunk in answer.iter_raw():
                    received += chunk
                    if len(received) > MAX_ANSWER_BYTES:
                        raise StoreError("the answer is too long", where=self._address)
                status = answer.status_code
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            kind = kind_in_words(error)
            raise StoreError(
                f"the server does not answer ({kind})",
                where=self._address,
                remedy="see that it runs there; for a certificate of your own name its CA",
            ) from None
        if not 200 <= status < 300:
            self._refused(status, bytes(received))
        return bytes(received)

    def _refused(self, status: int, content: bytes) -> NoReturn:
        try:
            told = json.loads(content)
            what, remedy = str(told["error"])[:500], str(told["remedy"])[:500]
        except (ValueError, TypeError, KeyError, RecursionError):
            what, remedy = f"the server answered with status {status}", ""
        raise _ERRORS.get(status, StoreError)(what, where=self._address, remedy=remedy)


def _checked(address: str) -> str:
    try:
        parts = urlsplit(address)
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
        sound = local or (parts.scheme == "https" and parts.hostname)
    except ValueError:  # half an IPv6 address
        sound = False
    if not sound or parts.username is not None or parts.query or parts.fragment:
        raise SettingsError(
            "neither https nor this machine", where=address[:80], remedy="use https://"
        )
    return address.rstrip("/")


def _trusting(ca_file: str | Path) -> ssl.SSLContext:
    with explained(Path(ca_file)), Path(ca_file).open("rb"):  # ssl's error names no file
        pass
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise SettingsError(
            "no certificates in PEM", where=str(ca_file), remedy="name another file"
        ) from None


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingDependency(
            "the way to a server needs httpx", where="cloud", remedy="pip install 'cloister[cloud]'"
        ) from None
    return httpx
