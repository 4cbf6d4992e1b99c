"""HTTP by libcurl, with one deadline from the first look-up of a name to the last byte.

libcurl works without Python's lock: an exchange with a pod takes a tenth of the time from searches
in other threads that it took with a client in Python. It hands over bodies as they come, with the
marks of chunks, so that whoever takes them can bound every byte.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from struct import unpack_from
from typing import Any, Final

import certifi
import pycurl

from cloister.core.deadline import time_left
from cloister.core.errors import CloisterError, DataError, SettingsError
from cloister.core.own_thread import in_own_thread
from cloister.pods.http_transport import (
    AnswerTaking,
    HttpFailure,
    NotAsked,
    PodTransport,
    SentAddress,
    sent_address,
)

__all__ = ["CurlTransport"]

KEEP_S: Final = 5  # for which a connection waits for the next request
MOST_IDLE: Final = 32  # handles of all transports; each has a connection, and two descriptors more
COLD_S: Final = 300  # for which a handle without connections waits: a new one takes 5 ms
MOST_COLD: Final = 8
RECEIVED_AT: Final = 128  # where Linux's tcp_info has the number of bytes received
CAN_COUNT: Final = sys.platform == "linux"
KNOWN_S: Final = 60.0  # for which the address of a name is used again
LONGEST_S: Final = 3600.0
CLOSED_S: Final = 0.1  # after which a look-up sees that the transport was closed
BUFFER_BYTES: Final = 131_072
N_CONNECTIONS: Final = 2  # of a handle: to the pod, and to where its tokens come from
OWN_ERRORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
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
        self.owner: CurlTransport | None = None  # whose connections it has
        self.idle_since = 0.0
        self._lock = threading.Lock()
        self._sockets: dict[int, int] = {}  # and the how-manieth of the handle each is
        self._n_opened = 0

    def begin_anew(self) -> None:
        """Forget the last request; connections stay."""
        self.curl.reset()
        self.curl.setopt(pycurl.SOCKOPTFUNCTION, self._note_opened)
        self.curl.setopt(pycurl.CLOSESOCKETFUNCTION, self._note_closed)

    def heard_unasked(self) -> bool:
        """Say whether a server sent something, or closed, since the last answer."""
        waiting = select.poll()
        for number in self._sockets:
            waiting.register(number, select.POLLIN)
        return bool(self._sockets and waiting.poll(0))

    def n_received(self) -> dict[int, int]:
        """Return how many bytes have come over each connection."""
        with self._lock:
            return {place: _n_received(number) for number, place in self._sockets.items()}

    def cut(self) -> None:
        """Cut all connections; any thread may do it.

        libcurl closes them later. Should it take one for a request that reads, it sends that again
        over a new one; requests that change something have new ones anyway.
        """
        with self._lock:
            for number in self._sockets:
                with suppress(OSError), _borrowed(number) as opened:
                    opened.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()

    def _note_opened(self, number: int, _: int) -> int:
        with self._lock:
            self._n_opened += 1
            self._sockets[number] = self._n_opened
        return int(self.owner is None or self.owner.is_closed)

    def _note_closed(self, number: int) -> int:
        with self._lock:  # whoever cuts connections must not meet another one of this number
            self._sockets.pop(number, None)
            os.close(number)
        return 0


class _Pool:
    """Handles that wait for their next request, of all transports together.

    A connection is used again by its own transport alone. When nobody has used it for a while it is
    cut, and any transport may take the handle: it has read the authorities, which takes 5 ms. What
    a process was forked from keeps its handles to itself.
    """

    def __init__(self) -> None:
        self._of_parents: list[deque[_Handle]] = []  # closing them would close connections there
        self._begin_anew()
        os.register_at_fork(after_in_child=self._forked)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[_Handle] = deque()
        self._is_running = False

    def _forked(self) -> None:
        self._of_parents.append(self._idle)
        self._begin_anew()

    def take(self, transport: CurlTransport) -> _Handle | None:
        """Return the transport's handle that was used last, or one without connections."""
        with self._lock:
            of_it = [one for one in self._idle if one.owner is transport]
            found = of_it[-1] if of_it else next((a for a in self._idle if a.owner is None), None)
            if found is not None:
                self._idle.remove(found)
            return found

    def put(self, handle: _Handle) -> None:
        """Keep a handle for the next request; close one of the transport that has most, if need be.

        So no pod can take away another one's connections by many requests of its own.
        """
        handle.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(handle)
            closing = self._of_the_greediest() if len(self._idle) > MOST_IDLE else None
            if closing is not None:
                self._idle.remove(closing)
            begins, self._is_running = not self._is_running, True
        if closing is not None:
            closing.curl.close()
        if begins:
            try:
                in_own_thread(self._run, "idle connections")
            except RuntimeError:  # there are too many threads: the next one tries again
                self._is_running = False

    def _of_the_greediest(self) -> _Handle:
        """Return what waits longest of those without an owner, else of the owner of most."""
        owners = Counter(one.owner for one in self._idle)
        most = None if None in owners else max(owners, key=owners.__getitem__)
        return next(one for one in self._idle if one.owner is most)

    def cool(self, transport: CurlTransport) -> None:
        """Cut the connections of a transport."""
        with self._lock:
            for one in self._idle:
                if one.owner is transport:
                    self._cool(one)

    def sweep(self) -> bool:
        """Cut connections that nobody used for a while; say whether any handles are left."""
        now = time.monotonic()
        closing: list[_Handle] = []
        with self._lock:
            for one in self._idle:
                if one.owner is not None and one.idle_since <= now - KEEP_S:
                    self._cool(one)
            cold = [one for one in self._idle if one.owner is None]
            for place, one in enumerate(reversed(cold)):
                if place >= MOST_COLD or one.idle_since <= now - COLD_S:
                    self._idle.remove(one)
                    closing.append(one)
            goes_on = self._is_running = bool(self._idle)
        for one in closing:
            one.curl.close()
        return goes_on

    @staticmethod
    def _cool(handle: _Handle) -> None:
        handle.cut()
        handle.owner = None

    def _run(self) -> None:
        try:
            time.sleep(KEEP_S / 2)
            while self.sweep():
                time.sleep(KEEP_S / 2)
        except BaseException:
            self._is_running = False
            raise


_POOL: Final = _Pool()


class CurlTransport(PodTransport):
    """HTTP/1.1 by libcurl. Redirects are not followed, no proxy is asked, no cookie is kept.

    The time for an exchange is what `cloister.core.deadline.within` leaves. Requests that change
    something get a new connection: over an old one nobody knows whether they arrived.

    Servers are trusted by the authorities in the file ``SSL_CERT_FILE`` and the folder
    ``SSL_CERT_DIR``, or by those that certifi lists where neither is set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[_Handle] = set()
        self._addresses: dict[tuple[str, int], tuple[float, str]] = {}
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether there is no way through any more."""
        return self._is_closed

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
        keeps = False
        try:
            curl = handle.curl
            _set_up(handle)
            curl.setopt(pycurl.URL, sent.url)
            curl.setopt(pycurl.RESOLVE, found)
            curl.setopt(pycurl.HTTPHEADER, [*lines, "expect:"])
            take_line: Callable[[bytes], None] = answer.take_line
            if sent.is_tls:
                take_line = _asked_for(handle, take_line)
            curl.setopt(pycurl.HEADERFUNCTION, _guarded(take_line, failures))
            curl.setopt(pycurl.WRITEFUNCTION, _guarded(answer.take_piece, failures))
            if threading.current_thread() is threading.main_thread():
                curl.setopt(pycurl.NOPROGRESS, 0)  # so that Ctrl-C is heard
                curl.setopt(pycurl.XFERINFOFUNCTION, _guarded(lambda *_: None, failures))
            self._set_method(curl, method, content)
            curl.setopt(pycurl.TIMEOUT_MS, math.ceil(_left() * 1e3) + 1)
            curl.perform()
            self._require_open()  # else what seems to be the end of an answer may be none
            keeps = True
            return int(curl.getinfo(pycurl.RESPONSE_CODE))
        except pycurl.error as error:
            keeps = True
            if failures:
                raise failures.pop() from None  # nothing may hold it: it holds the answer
            self._addresses.pop((sent.host, sent.port), None)  # it may have moved
            if error.args[0] == pycurl.E_COULDNT_CONNECT:
                _require_sockets(sent.host)
            raise _failure(error.args[0]) from None
        except UnicodeError:
            raise DataError("a header cannot be sent", where=repr(url[:80])) from None
        finally:
            self._put_back(handle, keeps=keeps)

    def close(self) -> None:
        """Close all connections; exchanges that are under way fail at once."""
        with self._lock:
            self._is_closed = True
            for one in self._busy:
                one.cut()
        _POOL.cool(self)

    def _require_open(self) -> None:
        if self._is_closed:
            raise HttpFailure("the connections are closed")

    def _taken(self) -> _Handle:
        """Return a handle with the connection that was used last, or without one.

        What a server sends unasked would be taken for the answer to the next request.
        """
        handle = _POOL.take(self) or _Handle()
        handle.owner = self
        if handle.heard_unasked():
            handle.cut()
        with self._lock:
            self._busy.add(handle)
        if self._is_closed:
            self._put_back(handle, keeps=False)
        self._require_open()
        return handle

    def _put_back(self, handle: _Handle, *, keeps: bool) -> None:
        """Keep a handle for the next request, or close it."""
        with self._lock:
            self._busy.discard(handle)
        if keeps and not self._is_closed:
            handle.curl.setopt(pycurl.HEADERFUNCTION, len)  # let go of the answer
            handle.curl.setopt(pycurl.WRITEFUNCTION, len)
            _POOL.put(handle)
            if self.is_closed:  # meanwhile
                _POOL.cool(self)
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
        try:
            looked_up = in_own_thread(
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "look-up"
            )
        except RuntimeError:
            raise NotAsked("no thread can be started", where=host) from None
        try:
            found = self._awaited(looked_up)
        except (OSError, UnicodeError) as error:
            raise HttpFailure(str(error)) from None
        listed = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
        address = ",".join(f"[{one}]" if ":" in one else one for one in listed)
        self._addresses[host, port] = time.monotonic() + KNOWN_S, address
        return [f"{host}:{port}:{address}"]

    def _awaited(self, looked_up: Future[Any]) -> Any:
        while not wait([looked_up], min(_left("the name was not found in time"), CLOSED_S)).done:
            self._require_open()
        return looked_up.result()


def _set_up(handle: _Handle) -> None:
    """Set what is the same for all requests."""
    handle.begin_anew()
    curl = handle.curl
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    curl.setopt(pycurl.NOPROXY, "*")
    curl.setopt(pycurl.USERAGENT, "cloister")
    curl.setopt(pycurl.MAXAGE_CONN, KEEP_S)
    curl.setopt(pycurl.MAXCONNECTS, N_CONNECTIONS)
    curl.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
    curl.setopt(pycurl.FORBID_REUSE, int(not CAN_COUNT))
    _trust(curl)


def _trust(curl: Any) -> None:
    """Say by which authorities servers are trusted, and by no others."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or not folder:
        curl.setopt(pycurl.CAINFO, os.fsencode(file or certifi.where()))
    else:
        curl.unsetopt(pycurl.CAINFO)
    if folder:
        curl.setopt(pycurl.CAPATH, os.fsencode(folder))
    else:
        curl.unsetopt(pycurl.CAPATH)  # some builds know a folder of their own


def _require_sockets(host: str) -> None:
    """Raise where this process can open no connection to anybody; libcurl does not say why."""
    try:
        socket.socket().close()
    except OSError as error:
        if error.errno in OWN_ERRORS:
            raise NotAsked("no connection can be opened", where=host) from None


def _failure(number: int) -> CloisterError | HttpFailure:
    if number == pycurl.E_SSL_CACERT_BADFILE:
        return SettingsError(
            "the file of the authorities to trust cannot be read",
            where="SSL_CERT_FILE",
            remedy="let it name a file of certificates in PEM, or unset it",
        )
    return HttpFailure(WORDS.get(number, f"libcurl's error {number}"))


def _asked_for(handle: _Handle, take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Take lines of an answer if it came after now.

    TLS is read ahead: an answer that came right behind the one before it shows at no socket.
    """
    before = handle.n_received() if CAN_COUNT else None

    def called(line: bytes) -> None:
        nonlocal before
        if before is not None:
            if handle.n_received() == before:
                raise HttpFailure("it answered before it was asked")
            before = None
        take(line)

    return called


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """Give a socket of libcurl's for a moment; it is not closed, and takes no descriptor more."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=number)
    try:
        yield opened
    finally:
        opened.detach()


def _n_received(number: int) -> int:
    with _borrowed(number) as opened:
        told = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + 8)
    return int(unpack_from("=Q", told, RECEIVED_AT)[0])


def _left(otherwise: str = "the exchange took too long") -> float:
    left_s = time_left()
    if left_s <= 0:
        raise HttpFailure(otherwise)
    return min(left_s, LONGEST_S)


def _guarded(take: Callable[..., None], failures: list[BaseException]) -> Callable[..., int | None]:
    """Keep what a callback raises: libcurl knows only that it failed."""

    def called(*given: Any) -> int | None:
        try:
            take(*given)
        except BaseException as error:
            failures.append(error)
            return -1
        return None

    return called
