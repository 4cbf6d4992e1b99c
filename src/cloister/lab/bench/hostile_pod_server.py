"""A Solid server with hostile pods, run as a program that prints its port.

It behaves until it reads a line, so that its pods can be added. From then on:

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
    Compressed documents that unpack to 50 MB.
``tiny``
    Thousands of tiny documents.

Everybody may read all of it, and all of it holds the words that users search for. A server that
never reads a line serves as an honest one: its pods ``honest-0``, ``honest-1`` and so on have one
document each, for one user.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

__all__ = ["COMMON", "HONEST", "KINDS", "main", "word_of"]

KINDS: Final = ("drip", "hang", "tree", "word", "html", "json", "marks", "bomb", "tiny")
HONEST: Final = "honest-"
COMMON: Final = "cough"  # is in every hostile document
DRIP_S: Final = 0.5
N_DOCUMENTS: Final = 10  # of each kind but the tiny ones
CHANGED: Final = formatdate(time.time() - 3600, usegmt=True)
PUBLIC: Final = """@prefix acl: <http://www.w3.org/ns/auth/acl#>.
<#r> a acl:Authorization; acl:agentClass <http://xmlns.com/foaf/0.1/Agent>; acl:mode acl:Read;
    acl:accessTo <{0}>; acl:default <{0}>."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    n_tiny = 10_000
    hostile = threading.Event()


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
        is_document = with_body and rest and not rest.endswith(("/", ".acl"))
        if self.server.hostile.is_set() and (kind == "hang" or (kind == "drip" and is_document)):
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
            lines += [f'<{here}{name}> <urn:changed> "{CHANGED}" .' for name in names]
            self._send("\n".join(lines).encode(), "application/n-triples", with_body=with_body)
        else:
            content, media_type = _document(kind)
            encoding = "gzip" if kind == "bomb" and self.server.hostile.is_set() else ""
            self._send(content, media_type, encoding=encoding, with_body=with_body)

    def _names(self, kind: str, rest: str) -> list[str]:
        if kind == "tree" and self.server.hostile.is_set():
            return [f"{number}/" for number in range(10)]
        if rest:
            return []
        n_documents = self.server.n_tiny if kind == "tiny" else N_DOCUMENTS
        if kind.startswith(HONEST):
            n_documents = 1
        ending = {"html": "html", "json": "json"}.get(kind, "txt")
        return [f"{number}.{ending}" for number in range(n_documents)]

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
        name = self.path.rsplit("/", 1)[1]
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", '"1"')
        self.send_header("last-modified", CHANGED)
        self.send_header("link", f'<{name}.acl>; rel="acl"')
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        if with_body:
            self.wfile.write(content)


def word_of(number: int) -> str:
    """Return the word that is in one user's documents alone."""
    return f"zebra{number}"


@cache
def _document(kind: str) -> tuple[bytes, str]:
    if kind == "word":
        return f"{COMMON} ".encode() + b"x" * 15_999_000, "text/plain"
    if kind == "html":
        return f"<p>{COMMON}</p>".encode() + b"<a " * 10_000, "text/html"
    if kind == "json":
        return b"[" * 100_000 + f'"{COMMON}"'.encode() + b"]" * 100_000, "application/json"
    if kind == "marks":
        accents = "\N{COMBINING ACUTE ACCENT}" * 128_000 + "\N{COMBINING DOT BELOW}" * 128_000
        return f"{COMMON} a{accents}".encode(), "text/plain"
    if kind == "bomb":
        return gzip.compress(f"{COMMON} ".encode() + bytes(50_000_000), 1), "text/plain"
    if kind.startswith(HONEST):
        return f"{word_of(int(kind.removeprefix(HONEST)))} {COMMON}".encode(), "text/plain"
    return f"{COMMON} and nothing else".encode(), "text/plain"


def main(arguments: list[str]) -> None:
    """Serve until standard input ends; be hostile from its first line on."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.n_tiny = int(arguments[0])
    for kind in KINDS:
        _document(kind)  # made before anybody waits for it
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        server.hostile.set()
    server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
