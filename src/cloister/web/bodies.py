"""Bodies of requests: read as they come, cut at a limit, checked before they are parsed."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi.routing import APIRoute
from starlette.types import Message as AsgiMessage
from starlette.types import Receive

from cloister.core.errors import DataError
from cloister.web.json_shape import check_json_shape
from cloister.web.limits import ServiceLimits
from cloister.web.messages import BINARY
from cloister.web.refusals import TooLong, WrongContent

__all__ = ["UnsoundHead", "Disconnected", "Headers", "checked_body", "takes_bytes"]

_JSON = "application/json"


class Disconnected(Exception):
    """The client went away before its body was whole."""


class UnsoundHead(DataError):
    """The head of a request is one that two programs could read differently, or too long."""

    usual_remedy = "send plain HTTP/1.1"


class Headers:
    """What the headers of a request say about its body.

    Raises
    ------
    DataError
        For shapes that two programs can read differently: a length twice, a length beside another
        framing.
    """

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            found.setdefault(name, []).append(value)
        lengths = found.get(b"content-length", [])
        self.chunked = b"transfer-encoding" in found
        if len(lengths) > 1 or (lengths and self.chunked):
            raise UnsoundHead("the length of the body is said twice")
        self.n_bytes = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
        self.encoded = b"content-encoding" in found
        types = found.get(b"content-type", [])
        self.media_type = types[0].split(b";")[0].strip().lower() if len(types) == 1 else b""

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        return self.chunked or self.n_bytes > 0


def takes_bytes(route: APIRoute) -> bool:
    """Tell whether a route takes bytes; see `cloister.web.messages.binary_body`."""
    body = (route.openapi_extra or {}).get("requestBody", {})
    return BINARY in body.get("content", {})


async def checked_body(
    route: APIRoute, headers: Headers, receive: Receive, limits: ServiceLimits
) -> Receive:
    """Return where a route finds its body: JSON whole and checked, bytes as they come."""
    binary = takes_bytes(route)
    if not headers.has_body:
        if binary:
            raise DataError("a body is needed here", remedy="send it")
        return receive
    if not binary and route.body_field is None:
        raise DataError("no body is taken here", remedy="leave it out")
    wanted = BINARY if binary else _JSON
    if headers.media_type != wanted.encode() or headers.encoded:
        raise WrongContent(f"the body must be {wanted}, as it is")
    limit = limits.max_binary_bytes if binary else limits.max_body_bytes
    if headers.n_bytes > limit:
        raise TooLong(f"at most {limit} bytes are taken")
    if binary:
        return _cut(receive, limit)
    content = await _whole(_cut(receive, limit))
    check_json_shape(content, max_depth=limits.max_json_depth)
    return _replayed(content, receive)


def _cut(receive: Receive, limit: int) -> Receive:
    """Pass a body on until more than the limit came, whatever its headers say."""
    n_bytes = 0

    async def cut() -> AsgiMessage:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > limit:
            raise TooLong(f"at most {limit} bytes are taken")
        return message

    return cut


async def _whole(receive: Receive) -> bytes:
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        content += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(content)


def _replayed(content: bytes, receive: Receive) -> Receive:
    waiting = [content]

    async def replay() -> AsgiMessage:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay
