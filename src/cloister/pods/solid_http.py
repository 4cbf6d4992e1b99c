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
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
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
from cloister.pods.http_transport import (
    AnswerTaking,
    HttpFailure,
    NotAsked,
    PodTransport,
    TooLong,
)
from cloister.pods.pod_gate import PodAway, PodGate, is_search

__all__ = ["SolidHttp", "SolidResponse", "checked_address", "linked", "origin", "raise_for"]

ABSENT: Final = (404, 410)
REFUSED: Final = (401, 403, *ABSENT)
FAILED_CONDITION: Final = (409, 412)
NOT_MODIFIED: Final = 304
FAULTS: Final = 500  # statuses from here on are failures of the server
SETTLED_S: Final = 3.0
LOCAL: Final = "localhost"
LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
PARAMETER: Final = re.compile(r';\s*([^\s=;,"]+)\s*=\s*(?:"([^"]*)"|([^\s",;]+))')
FEW_PIECES: Final = 1_024  # of an answer, and one more for each
PIECE_BYTES: Final = 256
MAX_LINES: Final = 110  # of a head and of what comes before it
CHUNK_ROOM: Final = 65_536  # for the marks of chunks; a body may come with as many bytes of them
LONG_LINE: Final = 64  # of one that says how long a chunk is; what follows says nothing
CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,16}(?=[ \t\r\n;])")


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
        What carries requests; libcurl unless given.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        gate: PodGate | None = None,
        transport: PodTransport | None = None,
    ) -> None:
        self.gate = gate or PodGate()
        self.timeout_s = timeout_s
        self._transport = transport or _curl()

    def close(self) -> None:
        """Close the connections; exchanges that are under way fail."""
        self._transport.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        max_bytes: int = MAX_DOCUMENT_BYTES,
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
                answer = self._answer(method, url, headers or {}, content, max_bytes)
                failed = answer.status >= FAULTS
                return answer
            except DataError:
                failed = False  # it did answer
                raise
            except (SettingsError, NotAsked):
                failed = None
                raise
            finally:
                is_slow = time.monotonic() - began > self.gate.slow_s
                if hurried and not time_left() and not is_slow:
                    failed = None  # others had used up the time
                elif (hurried and is_slow and is_search()) or not time_left():
                    failed = True
                self.gate.leave(failed=failed)

    def _answer(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        max_bytes: int,
    ) -> SolidResponse:
        sent = {"accept": "*/*", **headers, "accept-encoding": "identity"}
        answer = _Answer(url, None if method == "HEAD" else max_bytes)
        try:
            status = self._transport.exchange(method, url, sent, content, answer)
        except HttpFailure as error:
            raise PodAway(f"the server does not answer ({error})", where=origin(url)) from None
        except CloisterError:
            raise
        except Exception as error:  # what a hostile answer makes a library raise
            kind = kind_in_words(error)
            raise PodAway(f"the answer cannot be read ({kind})", where=origin(url)) from None
        if not answer.has_head:
            raise PodAway("the server does not answer (half an answer)", where=origin(url))
        return SolidResponse(status, answer.headers, bytes(answer.content))


class _Answer(AnswerTaking):
    """An answer while it comes; what is too much of it ends the exchange.

    Parameters
    ----------
    max_bytes
        Of the body; None where there is none.
    """

    def __init__(self, url: str, max_bytes: int | None) -> None:
        self._url, self._max_bytes = url, max_bytes
        self._n_lines, self._n_pieces, self._n_taken = 0, 0, 0
        self._begins, self._is_interim = True, False
        self._chunks: _Chunks | None = None
        self.has_head = False  # to its end
        self.headers: dict[str, str] = {}
        self.content = bytearray()

    def take_line(self, line: bytes) -> None:
        """Take a line of the head, in linear time."""
        self._n_lines += 1
        if self._n_lines > MAX_LINES:
            raise _unfit("of too many headers", self._url)
        if self.has_head:
            return
        if self._begins:
            self.headers = {}
            self._begins, self._is_interim = False, line[9:10] == b"1"
        elif line.strip():
            self._take_header(line)
        elif self._is_interim:
            self._begins = True
        else:
            self.has_head = True
            if _check_head(self.headers, self._max_bytes, self._url):
                self._chunks = _Chunks(self.content)

    def _take_header(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or name != name.strip():
            raise HttpFailure("a header that cannot be read")
        name, value = name.lower(), value.strip()
        self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    def take_piece(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self._n_taken += len(piece)
        if self._chunks is None:
            self._n_pieces += 1
            self.content += piece
        else:
            self._n_pieces += self._chunks.take(piece)
        n_marks, most = self._n_taken - len(self.content), self._max_bytes
        if most is not None and (len(self.content) > most or n_marks > most + CHUNK_ROOM):
            what = f"the answer is longer than {most:,} bytes"
            raise TooLong(what, where=origin(self._url), n_bytes=self._n_taken)
        if self._n_pieces > FEW_PIECES + len(self.content) // PIECE_BYTES:
            raise _unfit("in too many pieces", self._url)


class _Chunks:
    """Takes a body in chunks (RFC 9112, section 7.1) apart while it comes, in linear time.

    Parameters
    ----------
    content
        What chunks hold is added here.
    """

    def __init__(self, content: bytearray) -> None:
        self._content = content
        self._line = bytearray()  # that says how long the next chunk is
        self._left = 0  # of this chunk
        self._is_over = False

    def take(self, piece: bytes) -> int:
        """Take a piece; return how many chunks begin in it, and one more for itself."""
        place, n_begun = 0, 1
        while place < len(piece) and not self._is_over:
            if self._left:
                part = piece[place : place + self._left]
                self._content += part
                self._left -= len(part)
                place += len(part)
                continue
            end = piece.find(b"\n", place)
            self._line += piece[place : len(piece) if end < 0 else min(end + 1, place + LONG_LINE)]
            del self._line[LONG_LINE:]
            if end < 0:
                break
            place = end + 1
            if self._line.strip():  # else the end of the chunk before
                n_begun += 1
                self._left = self._size()
                self._is_over = not self._left
            self._line.clear()
        return n_begun

    def _size(self) -> int:
        size = CHUNK_SIZE.match(self._line)
        if size is None:
            raise HttpFailure("chunks that cannot be read")
        return int(size[0], 16)


def _check_head(headers: Mapping[str, str], max_bytes: int | None, url: str) -> bool:
    """Refuse an answer by its head; return whether its body comes in chunks."""
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise _unfit("compressed, which we did not ask for", url)
    coding = headers.get("transfer-encoding", "").lower()
    if coding not in ("", "identity", "chunked"):
        raise _unfit("coded, which we did not ask for", url)
    length = headers.get("content-length", "")
    is_long = length.isdigit() and (len(length) > 18 or int(length) > (max_bytes or 0))
    if is_long and max_bytes is not None:
        raise _unfit("too long", url)
    return coding == "chunked"


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


def linked(header: str, relation: str) -> str | None:
    """Return the first address that a ``Link`` header gives for a relation, in linear time.

    Examples
    --------
    >>> linked('<a.meta>; rel="describedby", <a,b.acl>; title="x"; rel="acl type"', "acl")
    'a,b.acl'
    """
    for address, parameters in LINK.findall(header):
        for name, quoted, plain in PARAMETER.findall(parameters):
            if name.lower() == "rel":
                if relation in (quoted or plain).lower().split():
                    return str(address)
                break  # further ones do not count
    return None


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


def _curl() -> PodTransport:
    try:
        from cloister.pods.curl_http import CurlTransport
    except ImportError:
        raise MissingDependency(
            "Solid pods need pycurl", where="pods", remedy="pip install 'cloister[solid]'"
        ) from None
    return CurlTransport()
