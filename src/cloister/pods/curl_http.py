"""HTTP by libcurl, with one deadline from the first look-up of a name to the last byte.

libcurl works without Python's lock: an exchange with a pod takes a tenth of the time from searches
in other threads that it took with a client in Python. It hands over bodies as they come, with the
marks of chunks, so that whoever takes them can bound every byte.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

import certifi
import pycurl

from cloister.core.deadline import time_left
from cloister.core.errors import DataError
from cloister.core.own_thread import in_own_thread
from cloister.pods.http_transport import (
    AnswerTaking,
    HttpFailure,
    PodTransport,
    SentAddress,
    sent_address,
)

__all__ = ["CurlTransport"]

KEEP_S: Final = 5  # for which a connection waits for the next request
MOST_IDLE: Final = 2  # handles of a transport; each has a connection and two descriptors more
KNOWN_S: Final = 60.0  # for which the address of a name is used again
LONGEST_S: Final = 3600.0
CLOSED_S: Final = 0.1  # after which a look-up sees that the transport was closed
BUFFER_BYTES: Final = 131_072
N_CONNECTIONS: Final = 2  # of a handle: to the pod, and to where its tokens come from
WORDS: Final = {
    pycurl.E_COULDNT_CONNECT: "no connection",
    pycurl.E_OPERATION_TIMEDOUT: "not in time",
    pycurl.E_GOT_NOTHING: "an empty answer",
    pycurl.E_PARTIAL_FILE: "half an answer",
    pycurl.E_PEER_FAILED_VERIFICATION: "its certificate does not hold",
    pycurl.E_SSL_CONNECT_ERROR: "no TLS",
    pycurl.E_UNSUPPORTED_PROTOCOL: "no HTTP",
    8: "no HTTP",  # CURLE_WEIRD_SERVER_REPLY, which pycurl has no name for
}


class _Handle:
    """One of libcurl's handles, with its open sockets. One thread at a time uses it."""

    def __init__(self) -> None:
        self.curl = pycurl.Curl()
        self.sockets: set[int] = set()
        self.idle_since = 0.0

    def heard_unasked(self) -> bool:
        """Say whether a server sent something, or closed, since the last answer."""
        waiting = select.poll()
        for number in self.sockets:
            waiting.register(number, select.POLLIN)
        return bool(self.sockets and waiting.poll(0))


class CurlTransport(PodTransport):
    """HTTP/1.1 by libcurl. Redirects are not followed, no proxy is asked, no cookie is kept.

    The time for an exchange is what `cloister.core.deadline.within` leaves. Requests that change
    something get a new connection: over an old one nobody knows whether they arrived.

    Servers are trusted by the authorities in the file ``SSL_CERT_FILE`` and the folder
    ``SSL_CERT_DIR``, or by those that certifi lists where neither is set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Handle] = []
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
        sent = sent_address(url)
        lines = [f"{name}: {value}" if value else f"{name};" for name, value in headers.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise DataError("a header cannot be sent", where=repr(url[:80]))
        if not any(name.lower() == "content-type" for name in headers):
            lines.append("content-type:")  # libcurl would make one up
        failures: list[BaseException] = []
        found = self._found(sent)
        handle = self._taken()
        curl = handle.curl
        try:
            curl.setopt(pycurl.URL, sent.url)
            curl.setopt(pycurl.RESOLVE, found)
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
            number = error.args[0]
            raise HttpFailure(WORDS.get(number, f"libcurl's error {number}")) from None
        except UnicodeError:
            raise DataError("a header cannot be sent", where=repr(url[:80])) from None
        finally:
            self._put_back(handle)

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

    def sweep(self) -> bool:
        """Close connections that nobody used for a while; say whether others wait."""
        before = time.monotonic() - KEEP_S
        with self._lock:
            old = [one for one in self._idle if one.idle_since <= before]
            self._idle = [one for one in self._idle if one.idle_since > before]
            waits = bool(self._idle)
        for one in old:
            one.curl.close()
        return waits

    def _require_open(self) -> None:
        if self._is_closed:
            raise HttpFailure("the connections are closed")

    def _taken(self) -> _Handle:
        """Return a handle with the connection that was used last, or a new one.

        What a server sends unasked would be taken for the answer to the next request.
        """
        with self._lock:
            self._require_open()
            handle = self._idle.pop() if self._idle else _Handle()
        if handle.heard_unasked():
            handle.curl.close()
            handle = _Handle()
        curl = handle.curl
        curl.reset()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOPROXY, "*")
        curl.setopt(pycurl.USERAGENT, "cloister")
        _trust(curl)
        curl.setopt(pycurl.MAXAGE_CONN, KEEP_S)
        curl.setopt(pycurl.MAXCONNECTS, N_CONNECTIONS)
        curl.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
        curl.setopt(pycurl.SOCKOPTFUNCTION, lambda number, _: self._note_opened(handle, number))
        curl.setopt(pycurl.CLOSESOCKETFUNCTION, lambda number: self._note_closed(handle, number))
        return handle

    def _put_back(self, handle: _Handle) -> None:
        """Keep a handle for the next request, if few are kept."""
        handle.curl.setopt(pycurl.HEADERFUNCTION, len)  # let go of the answer
        handle.curl.setopt(pycurl.WRITEFUNCTION, len)
        handle.idle_since = time.monotonic()
        with self._lock:
            keeps = len(self._idle) < MOST_IDLE and not self._is_closed
            if keeps:
                self._idle.append(handle)
        if keeps:
            _SWEEPER.watch(self)
        else:
            handle.curl.close()

    @staticmethod
    def _set_method(curl: Any, method: str, content: bytes | None) -> None:
        if method in ("GET", "HEAD") and content is None:
            curl.setopt(pycurl.NOBODY, int(method == "HEAD"))
            return
        curl.setopt(pycurl.FRESH_CONNECT, 1)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        if content is not None or method in ("POST", "PUT"):
            curl.setopt(pycurl.POSTFIELDS, content or b"")

    def _note_opened(self, handle: _Handle, number: int) -> int:
        with self._lock:
            handle.sockets.add(number)
            self._sockets.add(number)
            return int(self._is_closed)

    def _note_closed(self, handle: _Handle, number: int) -> int:
        with self._lock:  # whoever shuts sockets must not meet another one of this number
            handle.sockets.discard(number)
            self._sockets.discard(number)
            os.close(number)
        return 0

    def _found(self, sent: SentAddress) -> list[str]:
        """Return what libcurl is to know of a name, so that it looks up none itself.

        The system's resolver knows no deadline, so each look-up gets its own thread.
        """
        if sent.is_number:
            return []
        host, port = sent.host, sent.port
        known = self._addresses.get((host, port))
        if known is not None and time.monotonic() < known[0]:
            return [f"{host}:{port}:{known[1]}"]
        looked_up = in_own_thread(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "look-up"
        )
        try:
            found = self._awaited(looked_up)
        except (OSError, UnicodeError) as error:
            raise HttpFailure(str(error)) from None
        listed = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
        address = ",".join(f"[{one}]" if ":" in one else one for one in listed)
        self._addresses[host, port] = time.monotonic() + KNOWN_S, address
        return [f"{host}:{port}:{address}"]

    def _awaited(self, looked_up: Future[Any]) -> Any:
        while True:
            left_s = _left("the name was not found in time")
            with suppress(TimeoutError):
                return looked_up.result(min(left_s, CLOSED_S))
            self._require_open()


class _Sweeper:
    """Closes idle connections from time to time, in a thread that lives while there are any."""

    def __init__(self) -> None:
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._transports: WeakSet[CurlTransport] = WeakSet()
        self._is_running = False

    def watch(self, transport: CurlTransport) -> None:
        """Look after a transport that has idle connections."""
        with self._lock:
            self._transports.add(transport)
            if self._is_running:
                return
            self._is_running = True
        in_own_thread(self._run, "idle connections")

    def _run(self) -> None:
        while True:
            time.sleep(KEEP_S / 2)
            with self._lock:
                self._transports = WeakSet(one for one in self._transports if one.sweep())
                if not self._transports:
                    self._is_running = False
                    return


_SWEEPER: Final = _Sweeper()


def _trust(curl: Any) -> None:
    """Say by which authorities servers are trusted."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    curl.setopt(pycurl.CAINFO, file or certifi.where())
    if folder:
        curl.setopt(pycurl.CAPATH, folder)
        if not file:
            curl.unsetopt(pycurl.CAINFO)


def _left(otherwise: str = "the exchange took too long") -> float:
    left_s = time_left()
    if left_s <= 0:
        raise HttpFailure(otherwise)
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
