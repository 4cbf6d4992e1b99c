"""HTTP by libcurl, with one deadline from the first look-up of a name to the last byte.

libcurl works without Python's lock: an exchange with a pod takes a tenth of the time from searches
in other threads that it took with a client in Python.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import certifi
import pycurl

from cloister.core.deadline import time_left
from cloister.core.errors import DataError
from cloister.core.own_thread import in_own_thread
from cloister.pods.http_transport import AnswerTaking, HttpFailure, PodTransport

__all__ = ["CurlTransport"]

KEEP_S: Final = 5  # for which a connection waits for the next request
KNOWN_S: Final = 60.0  # for which the address of a name is used again
LONGEST_S: Final = 3600.0
PRINTABLE: Final = "".join(map(chr, range(33, 127)))  # is sent as it is in an address
BUFFER_BYTES: Final = 131_072
N_CONNECTIONS: Final = 2  # of a handle: to the pod, and to where its tokens come from
UNSENDABLE: Final = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL})
WORDS: Final = {
    pycurl.E_COULDNT_CONNECT: "no connection",
    pycurl.E_OPERATION_TIMEDOUT: "not in time",
    pycurl.E_GOT_NOTHING: "an empty answer",
    pycurl.E_PARTIAL_FILE: "half an answer",
    pycurl.E_PEER_FAILED_VERIFICATION: "its certificate does not hold",
}


class _Idle(NamedTuple):
    curl: Any
    since: float


class CurlTransport(PodTransport):
    """HTTP/1.1 by libcurl. Redirects are not followed, no proxy is asked, no cookie is kept.

    The time for an exchange is what `cloister.core.deadline.within` leaves. Requests that change
    something get a connection of their own: over an old one nobody knows whether they arrived.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._sockets: set[int] = set()
        self._addresses: dict[tuple[str, int], tuple[float, str]] = {}
        self._is_closed = False

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        answer: AnswerTaking,
    ) -> int:
        """Send a request, hand its answer over, and return the status."""
        url, host, port = _sendable(url)
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise DataError("a header cannot be sent", where=repr(url[:80]))
        failures: list[BaseException] = []
        address = self._address(host, port)
        curl = self._taken()
        try:
            curl.setopt(pycurl.URL, url)
            curl.setopt(pycurl.RESOLVE, [f"{host}:{port}:{address}"] if address else [])
            curl.setopt(pycurl.HTTPHEADER, [*lines, "expect:"])
            curl.setopt(pycurl.HEADERFUNCTION, _guarded(answer.take_line, failures))
            curl.setopt(pycurl.WRITEFUNCTION, _guarded(answer.take_piece, failures))
            self._set_method(curl, method, content)
            curl.setopt(pycurl.TIMEOUT_MS, math.ceil(_left() * 1e3) + 1)
            curl.perform()
            self._require_open()  # else what seems to be the end of an answer may be none
            return int(curl.getinfo(pycurl.RESPONSE_CODE))
        except pycurl.error as error:
            if failures:
                raise failures[0] from None
            if error.args[0] in UNSENDABLE:
                raise DataError("an address cannot be sent", where=repr(url[:80])) from None
            raise HttpFailure(WORDS.get(error.args[0], str(error.args[-1]))) from None
        except UnicodeError:
            raise DataError("a header cannot be sent", where=repr(url[:80])) from None
        finally:
            self._put_back(curl)

    def close(self) -> None:
        """Close all connections; exchanges that are under way fail at once."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for number in self._sockets:
                with suppress(OSError), socket.socket(fileno=os.dup(number)) as opened:
                    opened.shutdown(socket.SHUT_RDWR)
        for one in idle:
            one.curl.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise HttpFailure("the connections are closed")

    def _taken(self) -> Any:
        """Return a handle with the connection that was used last, or a new one."""
        with self._lock:
            self._require_open()
            curl = self._idle.pop().curl if self._idle else pycurl.Curl()
        curl.reset()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOPROXY, "*")
        curl.setopt(pycurl.CAINFO, os.environ.get("SSL_CERT_FILE") or certifi.where())
        curl.setopt(pycurl.MAXAGE_CONN, KEEP_S)
        curl.setopt(pycurl.MAXCONNECTS, N_CONNECTIONS)
        curl.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._note_opened)
        curl.setopt(pycurl.CLOSESOCKETFUNCTION, self._note_closed)
        return curl

    def _put_back(self, curl: Any) -> None:
        """Keep a handle for the next request; close those that nobody used for a while."""
        curl.setopt(pycurl.HEADERFUNCTION, len)  # let go of the answer
        curl.setopt(pycurl.WRITEFUNCTION, len)
        now = time.monotonic()
        with self._lock:
            self._idle.append(_Idle(curl, now))
            old = [one for one in self._idle if self._is_closed or now - one.since > KEEP_S]
            self._idle = [one for one in self._idle if one not in old]
        for one in old:
            one.curl.close()

    @staticmethod
    def _set_method(curl: Any, method: str, content: bytes | None) -> None:
        if method in ("GET", "HEAD") and content is None:
            curl.setopt(pycurl.NOBODY, int(method == "HEAD"))
            return
        curl.setopt(pycurl.FRESH_CONNECT, 1)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        if content is not None or method in ("POST", "PUT"):
            curl.setopt(pycurl.POSTFIELDS, content or b"")

    def _note_opened(self, number: int, _purpose: int) -> int:
        with self._lock:
            self._sockets.add(number)
            return int(self._is_closed)

    def _note_closed(self, number: int) -> int:
        with self._lock:  # whoever shuts sockets must not meet another one of this number
            self._sockets.discard(number)
            os.close(number)
        return 0

    def _address(self, host: str, port: int) -> str:
        """Look a name up; the system's resolver knows no deadline, so it gets its own thread."""
        known = self._addresses.get((host, port))
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        looked_up = in_own_thread(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "look-up"
        )
        try:
            found = looked_up.result(_left())
        except TimeoutError:
            raise HttpFailure("the name was not found in time") from None
        except (OSError, UnicodeError) as error:
            raise HttpFailure(str(error)) from None
        listed = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
        address = ",".join(f"[{one}]" if ":" in one else one for one in listed)
        self._addresses[host, port] = time.monotonic() + KNOWN_S, address
        return address


def _sendable(url: str) -> tuple[str, str, int]:
    """Return an address in ASCII, its host and port."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("ascii" if (url.isascii()) else "idna").decode()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        bare = parts.netloc.rpartition("@")[2]
        if not bare.isascii():
            parts = parts._replace(netloc=f"{host}:{port}")
        return quote(parts._replace(fragment="").geturl(), safe=PRINTABLE), host, port
    except ValueError:
        raise DataError("an address cannot be sent", where=repr(url[:80])) from None


def _left() -> float:
    left_s = time_left()
    if left_s <= 0:
        raise HttpFailure("the exchange took too long")
    return min(left_s, LONGEST_S)


def _guarded(
    take: Callable[[bytes], None], failures: list[BaseException]
) -> Callable[[bytes], int | None]:
    """Keep what a callback raises: libcurl knows only that it failed."""

    def called(given: bytes) -> int | None:
        try:
            take(given)
        except BaseException as error:
            failures.append(error)
            return -1
        return None

    return called
