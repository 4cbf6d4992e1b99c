"""HTTP as Solid servers are called: safe addresses, one deadline, bounded answers, our errors.

The server is not trusted. An exchange ends at its deadline whatever the server sends, and its
connection is closed. An answer has a greatest size. A compressed answer is refused: we ask for
plain ones, and a few bytes can unpack to more than memory holds. An answer in very many tiny pieces
is refused, too: each of them takes us a while. `PodGate` counts failures and leaves alone a server
that misbehaves.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from cloister.core.deadline import time_left, within
from cloister.core.errors import (
    CloisterError,
    Conflict,
    DataError,
    MissingDependency,
    SettingsError,
    StoreError,
    kind_in_words,
)
from cloister.pods.datastore import refused
from cloister.pods.document_text import MAX_DOCUMENT_BYTES
from cloister.pods.pod_gate import N_AT_ONCE, PodAway, PodGate

if TYPE_CHECKING:
    import httpx

__all__ = ["SolidHttp", "SolidResponse", "checked_address", "origin", "raise_for"]

ABSENT: Final = (404, 410)
REFUSED: Final = (401, 403, *ABSENT)
FAILED_CONDITION: Final = (409, 412)
NOT_MODIFIED: Final = 304
FAULTS: Final = 500  # statuses from here on are failures of the server
SETTLED_S: Final = 3.0
LOCAL: Final = "localhost"
FEW_PIECES: Final = 1_024  # of an answer, and one more for each
PIECE_BYTES: Final = 256
MAX_HEADERS: Final = 100


class SolidResponse(NamedTuple):
    """What came back; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def etag(self) -> str:
        """The entity tag; empty where the server gives none that can be sent back to it."""
        etag = self.headers.get("etag", "")
        return etag if etag.isascii() and etag.isprintable() else ""

    @property
    def is_settled(self) -> bool:
        """Whether the tag can be relied upon: what it stands for is older than a moment.

        Servers make tags of times in whole seconds. Of two changes within one second the second
        would not show. Where the server does not say when something changed, nobody knows.
        """
        try:
            changed = parsedate_to_datetime(self.headers["last-modified"])
            now = parsedate_to_datetime(self.headers["date"])
            return bool(self.etag) and (now - changed).total_seconds() >= SETTLED_S
        except (KeyError, TypeError, ValueError, OverflowError):
            return False

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
    """A pool of connections; redirects are not followed, no proxy is asked. Threads may share it.

    Parameters
    ----------
    timeout_s
        For a whole exchange. Inside `cloister.core.deadline.within` it may have to be quicker.
    gate
        Counts the server's failures.
    transport
        Of httpx, for tests: it keeps no deadline.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        gate: PodGate | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._httpx = _httpx()
        from cloister.pods.timed_sockets import FAILURES, TimedTransport

        self.gate = gate or PodGate()
        self.timeout_s = timeout_s
        self._failures = (self._httpx.HTTPError, *FAILURES)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._http = self._httpx.Client(
            transport=transport or TimedTransport(N_AT_ONCE),
            cookies=no_cookies,
            trust_env=False,
            timeout=None,
        )

    def close(self) -> None:
        """Close the connections; exchanges that are under way fail."""
        self._http.close()

    def send(
        self, method: str, url: str, *, max_bytes: int = MAX_DOCUMENT_BYTES, **options: Any
    ) -> SolidResponse:
        """Send a request and return the answer, whatever its status.

        Raises
        ------
        PodAway
            There is no answer in time, or the server is left alone.
        DataError
            The answer is too long, compressed, in too many pieces or has too many headers, or the
            request was made of words of the server that cannot be sent.
        """
        checked_address(url)
        hurried = time_left() < self.timeout_s
        with within(self.timeout_s):
            self.gate.enter()
            failed: bool | None = True
            began = time.monotonic()
            try:
                answer = self._answer(method, url, max_bytes, options)
                failed = answer.status >= FAULTS
                return answer
            except DataError:
                failed = False  # it did answer
                raise
            finally:
                is_slow = time.monotonic() - began > self.gate.slow_s
                if hurried and not time_left() and not is_slow:
                    failed = None  # others had used up the time
                elif (hurried and is_slow) or not time_left():
                    failed = True
                self.gate.leave(failed=failed)

    def _answer(
        self, method: str, url: str, max_bytes: int, options: dict[str, Any]
    ) -> SolidResponse:
        headers = {**(options.pop("headers", None) or {}), "accept-encoding": "identity"}
        try:
            with self._http.stream(method, url, headers=headers, **options) as answer:
                found = _headers(answer.headers.raw, answer.headers.encoding, url)
                _check_head(found, None if method == "HEAD" else max_bytes, url)
                content = bytearray()
                for n_pieces, piece in enumerate(answer.iter_bytes(), 1):
                    content += piece
                    if len(content) > max_bytes:
                        raise _unfit("too long", url)
                    if n_pieces > FEW_PIECES + len(content) // PIECE_BYTES:
                        raise _unfit("in too many pieces", url)
                return SolidResponse(answer.status_code, found, bytes(content))
        except self._failures as error:
            kind = kind_in_words(error)
            raise PodAway(f"the server does not answer ({kind})", where=origin(url)) from None
        except (self._httpx.InvalidURL, UnicodeError):
            raise DataError("an address or a header cannot be sent", where=repr(url[:80])) from None
        except CloisterError:
            raise
        except Exception as error:  # what a hostile answer makes a library raise
            kind = type(error).__name__
            raise PodAway(f"the answer cannot be read ({kind})", where=origin(url)) from None


def _headers(raw: Iterable[tuple[bytes, bytes]], encoding: str, url: str) -> Mapping[str, str]:
    """Return headers by name, in linear time; httpx's own dictionary takes quadratic time."""
    found: dict[str, list[str]] = {}
    for number, (name, value) in enumerate(raw):
        if number == MAX_HEADERS:
            raise _unfit("of too many headers", url)
        found.setdefault(name.decode(encoding).lower(), []).append(value.decode(encoding))
    return {name: ", ".join(values) for name, values in found.items()}


def _check_head(headers: Mapping[str, str], max_bytes: int | None, url: str) -> None:
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise _unfit("compressed, which we did not ask for", url)
    length = headers.get("content-length", "")
    if max_bytes is None or not length.isdigit():
        return
    if len(length) > 18 or int(length) > max_bytes:
        raise _unfit("too long", url)


def _unfit(what: str, url: str) -> DataError:
    return DataError(f"the answer is {what}", where=origin(url))


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
    shown = re.sub(r"//[^/]*@", "//", address)[:80]  # without a password
    try:
        parts = urlsplit(address)
        right = parts.hostname is not None and parts.port != 0
    except ValueError:  # as urlsplit and port raise
        right = False
    if not right:
        raise SettingsError(
            "not an address", where=shown, remedy="write it as in https://pods.example/ann/"
        )
    if parts.username is not None:
        raise SettingsError(
            "an address must not hold a name or a password",
            where=shown,
            remedy="leave them out; credentials are in a file",
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == LOCAL):
        raise SettingsError(
            "neither https nor http://localhost", where=shown, remedy="use one of them"
        )
    return address


def origin(url: str) -> str:
    """Return scheme, host and port of an address; raise `DataError` where it is none.

    Examples
    --------
    >>> origin("https://pods.example/ann/notes.txt")
    'https://pods.example'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise DataError("not an address", where=repr(url[:80])) from None
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
