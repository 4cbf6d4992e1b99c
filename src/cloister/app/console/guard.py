"""What stands before every page: who may ask, and what browsers may do with the answer.

The console listens on loopback addresses only. Other programs and users of the machine can reach
those too, and so can pages of other sites through a browser. Against the latter, the Host header
must name this machine (else a name that was bound to 127.0.0.1 would do), and whatever changes
something must come from the console's own pages. Against the former there is a key, where the
console is given one.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cloister.web.addresses import is_loopback

__all__ = ["ConsoleGuard"]

KEY_COOKIE: Final = "cloister-console"  # and the port: cookies do not tell ports apart
KEY_PARAMETER: Final = "key"
MOST_BODY: Final = 64 << 10  # bytes of a form
_SAFE: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # charts set styles as they are drawn
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class ConsoleGuard:
    """ASGI middleware before all routes of a console.

    Parameters
    ----------
    app
        What it guards.
    key
        What a browser must have shown once; everybody on this machine may ask where there is none.
    """

    def __init__(self, app: ASGIApp, key: str | None = None) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or let it pass with headers that bind the browser."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_loopback(_name_of(host)):
            return PlainTextResponse("This console answers on this machine only.\n", 403)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            if headers.get("sec-fetch-mode") != "navigate":
                return PlainTextResponse("Not from a page of this console.\n", 403)
            if scope["method"] in _SAFE and scope["query_string"] and self._key is None:
                return RedirectResponse(scope["path"], 303)  # a link may lead here, not search here
        if scope["method"] not in _SAFE:
            if not _same_origin(headers, host):
                return PlainTextResponse("Not from a page of this console.\n", 403)
            if "transfer-encoding" in headers:
                return PlainTextResponse("A form says how long it is.\n", 411)
            length = headers.get("content-length", "0")
            if not length.isascii() or not length.isdigit():
                return PlainTextResponse("Not a length.\n", 400)
            if int(length) > MOST_BODY:
                return PlainTextResponse("Too much.\n", 413)
        return None if self._key is None else self._without_key(scope, headers, self._key)

    def _without_key(self, scope: Scope, headers: Headers, key: str) -> Response | None:
        """Let pass who has the key; keep it in a cookie, and out of the address."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get(KEY_PARAMETER, [""])[0]
        if given and hmac.compare_digest(given.encode(), key.encode()):
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(
                _cookie_name(headers), key, httponly=True, samesite="strict", path="/"
            )
            return answer
        if hmac.compare_digest(_cookie(headers).encode(), key.encode()):
            return None
        told = "This console needs its key: open the address that the command printed.\n"
        return PlainTextResponse(told, 401)


def _name_of(host: str) -> str:
    """Return the name in a Host header; nothing where it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _same_origin(headers: Headers, host: str) -> bool:
    """Say whether a request that changes something comes from our own pages.

    Browsers say where such requests come from; programs that are no browsers need not.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    return site == "same-origin" and (origin is None or urlsplit(origin).netloc == host)


def _cookie_name(headers: Headers) -> str:
    return f"{KEY_COOKIE}-{headers.get('host', '').rpartition(':')[2]}"


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
    except CookieError:
        return ""
    return "" if found is None else found.value


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
            message["headers"] = headers.raw
        await send(message)

    return sent
