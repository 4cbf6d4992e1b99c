"""One request and its answer, as far as logs and counts may know them."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Final

from starlette.types import Message as AsgiMessage
from starlette.types import Scope, Send

from cloister.web.callers import SERVICES, Caller
from cloister.web.logs import SeldomLog, log_event
from cloister.web.metrics import ServiceMetrics, shown_method
from cloister.web.refusals import REFUSAL_HEADER, Refusal

__all__ = ["Exchange"]

UNKNOWN_ROUTE: Final = "unknown"
PIECE_BYTES: Final = 64 << 10  # of an answer: between two of them a client must have read
_GONE: Final = 499  # in logs only: the client went away
_SELDOM: Final = frozenset({"too_many", "busy"})  # what grows with the number of requests
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Exchange:
    """Sends the answer to a request and remembers what is logged of it.

    Parameters
    ----------
    scope
        Of the request.
    send
        Of the server.
    """

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._started = time.monotonic()
        self.request_id = secrets.token_hex(8)
        self.method: str = scope["method"]
        self.route = UNKNOWN_ROUTE
        self.caller: Caller | None = None
        self.status = 0
        self.n_bytes = 0
        self.refusal = ""
        self.failure: dict[str, str] = {}

    @property
    def begun(self) -> bool:
        """Whether a part of the answer was sent."""
        return self.status > 0

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the answer; large bodies piece by piece, as the client reads them."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (*_HEADERS, (b"x-request-id", self.request_id.encode()))
            await self._send({**message, "headers": [*message.get("headers", ()), *own]})
            return
        body = memoryview(message.get("body", b""))
        self.n_bytes += len(body)
        for start in range(0, max(1, len(body)), PIECE_BYTES):
            last = start + PIECE_BYTES >= len(body)
            piece = bytes(body[start : start + PIECE_BYTES])
            more = not last or message.get("more_body", False)
            await self._send({"type": message["type"], "body": piece, "more_body": more})

    async def refuse(self, refusal: Refusal) -> None:
        """Send a refusal as the whole answer."""
        self.refusal = refusal.kind
        body = refusal.body()
        headers = (
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            (REFUSAL_HEADER, refusal.kind),
            *refusal.headers,
        )
        raw = [(name.encode(), value.encode()) for name, value in headers]
        start = {"type": "http.response.start", "status": refusal.status, "headers": raw}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def note(self, metrics: ServiceMetrics, seldom: SeldomLog) -> None:
        """Count and log the exchange; of persons the role only."""
        seconds = time.monotonic() - self._started
        metrics.answered(self.route, self.method, self.status or _GONE, seconds)
        if self.refusal:
            metrics.refused(self.refusal)
        if self.refusal in _SELDOM:
            seldom.event("refused", self.refusal)
            return
        log_event(
            "refused" if self.refusal else "request", level=self._level(), **self._fields(seconds)
        )

    def _level(self) -> int:
        if self.failure:
            return logging.ERROR
        return logging.WARNING if self.refusal else logging.INFO

    def _fields(self, seconds: float) -> dict[str, object]:
        fields: dict[str, object] = {
            "request_id": self.request_id,
            "method": shown_method(self.method),
            "route": self.route,
            "status": self.status or _GONE,
            "ms": round(seconds * 1000, 1),
            "role": str(self.caller.role) if self.caller else "none",
            "n_bytes": self.n_bytes,
        }
        if self.caller is not None and self.caller.role in SERVICES:
            fields["name"] = self.caller.name
        if self.refusal:
            fields["kind"] = self.refusal
        return {**fields, **self.failure}
