"""HTTP as Solid servers are called: safe addresses, answers of bounded size, our errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from cloister.core.errors import Conflict, MissingDependency, SettingsError, StoreError
from cloister.pods.datastore import refused
from cloister.pods.document_text import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    import httpx

__all__ = ["SolidHttp", "SolidResponse", "checked_address", "origin", "raise_for"]

ABSENT: Final = (404, 410)
REFUSED: Final = (401, 403, *ABSENT)
FAILED_CONDITION: Final = (409, 412)
NOT_MODIFIED: Final = 304
LOCAL: Final = "localhost"


class SolidResponse(NamedTuple):
    """What came back; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def etag(self) -> str:
        """The entity tag; empty where the server gives none."""
        return self.headers.get("etag", "")

    @property
    def media_type(self) -> str:
        """The kind of content, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def fields(self, where: str) -> dict[str, Any]:
        """Return the content as a JSON object."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StoreError("the answer is not what Solid servers say", where=origin(where))
        return found


class SolidHttp:
    """A pool of connections; redirects are not followed. May be used by several threads."""

    def __init__(self, *, timeout_s: float, transport: httpx.BaseTransport | None = None) -> None:
        self._httpx = _httpx()
        self._http = self._httpx.Client(timeout=timeout_s, transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, method: str, url: str, **options: Any) -> SolidResponse:
        """Send a request and return the answer, whatever its status."""
        checked_address(url)
        try:
            with self._http.stream(method, url, **options) as answer:
                content = bytearray()
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > MAX_DOCUMENT_BYTES:
                        raise StoreError("the answer is too long", where=origin(url))
                return SolidResponse(answer.status_code, dict(answer.headers), bytes(content))
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            kind = type(error).__name__
            raise StoreError(f"the server does not answer ({kind})", where=origin(url)) from None


def checked_address(address: str) -> str:
    """Return an address to which a token may be sent, or raise.

    Tokens go over TLS. A server on this machine is ``http://localhost``: the Community Solid Server
    takes everybody for nobody where it is called by number.

    Examples
    --------
    >>> checked_address("http://127.0.0.1:3000/")
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: http://127.0.0.1:3000/: neither https nor http://localhost...
    """
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname == LOCAL
    if not (local or (parts.scheme == "https" and parts.hostname)) or parts.username is not None:
        raise SettingsError(
            "neither https nor http://localhost", where=address[:80], remedy="use one of them"
        )
    return address


def origin(url: str) -> str:
    """Return scheme, host and port of an address.

    Examples
    --------
    >>> origin("https://pods.example/ann/notes.txt")
    'https://pods.example'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def raise_for(status: int, url: str) -> None:
    """Raise unless a status tells of success, or that nothing changed.

    What may not be done and what is not there give the same error.
    """
    if status in REFUSED:
        raise refused()
    if status in FAILED_CONDITION:
        raise Conflict("the resource has changed, or is there already", where=url)
    if status != NOT_MODIFIED and not 200 <= status < 300:
        raise StoreError(f"the server answered with status {status}", where=origin(url))


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise MissingDependency(
            "Solid pods need httpx", where="pods", remedy="pip install 'cloister[solid]'"
        ) from None
    return httpx
