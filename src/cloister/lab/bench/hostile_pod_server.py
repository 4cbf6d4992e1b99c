"""A Solid server with hostile pods, run as a program that prints its port.

It behaves until it reads a line, so that its pods can be added: each has documents of a few words.
From then on each listing of a pod says that all its documents changed, and:

``drip``
    Its listing and its access control lists come at once, its documents byte by byte.
``hang``
    Everything comes byte by byte.
``tree``
    Containers in containers without end.
``word``, ``html``, ``json``, ``marks``
    A word of 16 MB, tags that a quadratic parser cannot get through, 100,000 brackets, a letter
    with 256,000 accents.
``bomb``
    Documents of 50 MB, compressed.
``tiny``
    Thousands of tiny documents.

Everybody may read all of it, and all of it holds the words that users search for. It answers each
line with how often each kind was asked for what makes it hostile, as JSON. A server that never
reads a line serves as an honest one: its pods ``honest-0``, ``honest-1`` and so on are of one user
each.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from collections import Counter
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

__all__ = ["COMMON", "HONEST", "KINDS", "N_HONEST", "main", "ward_of", "word_of"]

KINDS: Final = ("drip", "hang", "tree", "word", "html", "json", "marks", "bomb", "tiny")
HONEST: Final = "honest-"
N_HONEST: Final = 5  # documents of an honest pod
COMMON: Final = "cough"  # is in every hostile document
MEDIA_TYPES: Final = {"html": "text/html", "json": "application/json", "txt": "text/plain"}
DRIP_S: Final = 0.5
N_DOCUMENTS: Final = 10  # of each kind but the tiny ones
BEGAN: Final = time.time() - 36_000
PUBLIC: Final = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agentClass <http://xmlns.com/foaf/0.1/Agent>; acl:mode acl:Read;
    acl:accessTo <{0}>; acl:default <{0}>."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    n_tiny = 10_000
    hostile = threading.Event()

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.asked = Counter[str]()
        self.n_changes = Counter[str]()


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms, for no server's sake
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        token = {"access_token": "t", "token_type": "DPoP", "expires_in": 3600}
        self._send(json.dumps(token).encode(), "application/json")

    def _answer(self, *, with_body: bool) -> None:
        kind, _, rest = self.path.lstrip("/").partition("/")
        root = f"http://localhost:{self.server.server_address[1]}/"
        is_hostile = self.server.hostile.is_set() and kind in KINDS
        names_document = bool(rest) and not rest.endswith(("/", ".acl"))
        is_document = with_body and names_document
        if is_hostile:
            self.server.asked[kind] += {
                "hang": True,
                "tree": rest.endswith("/"),
                "tiny": names_document,
            }.get(kind, is_document)
            self.server.n_changes[kind] += not rest
        if is_hostile and (kind == "hang" or (kind == "drip" and is_document)):
            self._drip()
        elif self.path == "/.well-known/openid-configuration":
            self._send(json.dumps({"token_endpoint": root + "token"}).encode(), "application/json")
        elif self.path.endswith(".acl"):
            if rest == ".acl":
                self._send(PUBLIC.format(f"{root}{kind}/").encode(), "text/turtle")
            else:
                self._send(b"", "text/plain", status=404)
        elif self.path.endswith("/"):
            names = self._names(kind, rest)
            here = root + self.path.lstrip("/")
            lines = [
                f"<{here}> <http://www.w3.org/ns/ldp#contains> <{here}{name}> ." for name in names
            ]
            lines += [f'<{here}{name}> <urn:changed> "{self._changed(kind)}" .' for name in names]
            self._send("\n".join(lines).encode(), "application/n-triples", with_body=with_body)
        else:
            content = _hostile(kind) if is_hostile else _harmless(kind, rest)
            encoding = "gzip" if is_hostile and kind == "bomb" and with_body else ""
            media_type = MEDIA_TYPES[_ending(kind)]
            self._send(content, media_type, encoding=encoding, with_body=with_body)

    def _changed(self, kind: str) -> str:
        return formatdate(BEGAN + self.server.n_changes[kind], usegmt=True)

    def _names(self, kind: str, rest: str) -> list[str]:
        if kind == "tree" and self.server.hostile.is_set():
            return [f"{number}/" for number in range(10)]
        if rest:
            return []
        n_documents = self.server.n_tiny if kind == "tiny" else N_DOCUMENTS
        if kind.startswith(HONEST):
            n_documents = N_HONEST
        return [f"{number}.{_ending(kind)}" for number in range(n_documents)]

    def _drip(self) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while True:
                self.wfile.write(b"a")
                self.wfile.flush()
                time.sleep(DRIP_S)
        except OSError:
            self.close_connection = True

    def _send(
        self,
        content: bytes,
        media_type: str,
        *,
        status: int = 200,
        encoding: str = "",
        with_body: bool = True,
    ) -> None:
        kind, name = self.path.split("/")[1], self.path.rsplit("/", 1)[1]
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", f'"{self.server.n_changes[kind]}"')
        self.send_header("last-modified", self._changed(kind))
        self.send_header("link", f'<{name}.acl>; rel="acl"')
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        if with_body:
            self.wfile.write(content)


def word_of(number: int) -> str:
    """Return the word that is in two documents of one user alone."""
    return f"zebra{number}"


def ward_of(number: int) -> str:
    """Return the word that is in all other documents of one user alone."""
    return f"ward{number}"


def _ending(kind: str) -> str:
    return kind if kind in ("html", "json") else "txt"


def _harmless(kind: str, name: str) -> bytes:
    text = f"{COMMON} and nothing else"
    if kind.startswith(HONEST):
        user = int(kind.removeprefix(HONEST))
        number = name.removesuffix(".txt")
        text = f"{word_of(user)} {COMMON}" if number == "0" else f"{ward_of(user)}, bed {number}"
    return (json.dumps(text) if kind == "json" else text).encode()


@cache
def _hostile(kind: str) -> bytes:
    if kind == "word":
        return f"{COMMON} ".encode() + b"x" * 15_999_000
    if kind == "html":
        return f"<p>{COMMON}</p>".encode() + b"<a " * 10_000
    if kind == "json":
        return b"[" * 100_000 + f'"{COMMON}"'.encode() + b"]" * 100_000
    if kind == "marks":
        accents = "\N{COMBINING ACUTE ACCENT}" * 128_000 + "\N{COMBINING DOT BELOW}" * 128_000
        return f"{COMMON} a{accents}".encode()
    if kind == "bomb":
        return gzip.compress(f"{COMMON} ".encode() + b" " * 50_000_000, 1)
    return _harmless(kind, "")


def main(arguments: list[str]) -> None:
    """Serve until standard input ends; be hostile from its first line on."""
    server = _Server(_Handler)
    server.n_tiny = int(arguments[0])
    for kind in KINDS:
        _hostile(kind)  # made before anybody waits for it
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        server.hostile.set()
        sys.stdout.write(json.dumps(server.asked) + "\n")
        sys.stdout.flush()
    server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
