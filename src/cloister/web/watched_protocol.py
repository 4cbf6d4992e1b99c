"""HTTP/1.1 for one connection, with a watch on clients that are slow.

uvicorn's protocol, which reads with h11, and for each stage of an exchange how long it may take:
the head of a request, its body, reading the answer, the pause to the next request. A client that
takes longer is told 408 where it still can be told, and the connection ends. What a client sends
after a refusal is thrown away for a short while, so that it can read why, and then cut.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from cloister.web.admission import PEER
from cloister.web.connections import Connection, OpenConnections
from cloister.web.limits import ServiceLimits
from cloister.web.refusals import Refusal

__all__ = ["HEAD_BYTES", "Stage", "WatchedProtocol", "Watch"]

HEAD_BYTES: Final = 16 << 10  # of a head that is not complete; h11 refuses more
LINGER_S: Final = 2.0  # for a client to read a refusal, and for a connection to close
LINGER_BYTES: Final = 1 << 20
SLOW: Final = Refusal(408, "slow", "the request did not come in time", "send it again")
UNREADABLE: Final = Refusal(400, "unreadable", "this is not HTTP as it should be", "check it")
_RESET: Final = struct.pack("ii", 1, 0)
_PHRASES: Final = {400: "Bad Request", 408: "Request Timeout"}


class Stage(Enum):
    """What a connection waits for."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"  # ours
    LEFTOVER = "leftover"  # the rest of a body that was refused
    IDLE = "idle"
    CLOSING = "closing"


_WAITING: Final = frozenset({Stage.HEAD, Stage.LEFTOVER, Stage.IDLE, Stage.CLOSING})


class Watch(NamedTuple):
    """What all connections of a server share."""

    limits: ServiceLimits
    connections: OpenConnections
    refused: Callable[[str], None]


class WatchedProtocol(H11Protocol):
    """A connection of a server.

    Parameters
    ----------
    watch
        What all connections share.
    connection
        Its entry among the open ones.
    **of_uvicorn
        What uvicorn gives to its protocols.
    """

    def __init__(self, watch: Watch, connection: Connection, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._limits, self._connections, self._refused = watch
        self._connection = connection
        self._stage = Stage.HEAD
        self._since = self._came = self._read = time.monotonic()  # stage, last bytes in, out
        self._writing_since: float | None = None
        self._n_leftover = self._n_unwritten = 0

    def connection_made(self, transport: Any) -> None:
        """Begin; what the peer showed in the handshake goes into the state of all requests.

        A handshake that began before newer certificates or a newer list were read ends here: it
        may have believed somebody who is revoked since.
        """
        super().connection_made(transport)
        if self._connection.is_outdated():
            self._refused("outdated_handshake")
            transport.abort()
            return
        encrypted = transport.get_extra_info("ssl_object")
        certificate = encrypted.getpeercert() if encrypted is not None else None
        self.app_state = {**self.app_state, PEER: certificate or None}
        self._connection.give_up = transport.abort
        self._enter(Stage.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and make room for others."""
        self._connections.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; heads in pieces, so that h11 sees how long they grow."""
        self._came = time.monotonic()
        if self._stage is Stage.LEFTOVER:
            self._n_leftover += len(data)
            if self._n_leftover > LINGER_BYTES:
                self.end()
        for start in range(0, len(data), HEAD_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + HEAD_BYTES])
        self._settle()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._settle()

    def send_400_response(self, msg: str) -> None:
        """Refuse what h11 cannot read, in our form."""
        self.refuse(UNREADABLE)

    def shutdown(self) -> None:
        """End after the request that is worked on, if there is one."""
        if not self.transport.is_closing():
            super().shutdown()

    def refuse(self, refusal: Refusal) -> None:
        """Tell the client, if no answer has begun, and end."""
        self._refused(refusal.kind)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_raw(refusal))
        self.end()

    def end(self) -> None:
        """Close; what waits for this client is told that it is gone."""
        if self._works():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_writing()
        self.transport.close()
        self._enter(Stage.CLOSING)

    def look(self, now: float) -> None:
        """End the connection if its client is too slow."""
        if self.transport.is_closing() and self._stage is not Stage.CLOSING:
            self._enter(Stage.CLOSING)
        if self._does_not_read(now):
            self._refused("unread")
            self._drop()
        elif self._is_late(now):
            self._end_late()

    def _should_upgrade(self) -> bool:
        return False

    def _works(self) -> bool:
        """Tell whether a request is worked on."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _settle(self) -> None:
        stage = self._stage_now()
        if stage is not self._stage:
            self._enter(stage)

    def _enter(self, stage: Stage) -> None:
        self._stage, self._since, self._n_leftover = stage, time.monotonic(), 0
        self._connection.waiting_since = self._since if stage in _WAITING else None

    def _stage_now(self) -> Stage:
        if self.transport.is_closing():
            return Stage.CLOSING
        sends_body = self.conn.their_state is h11.SEND_BODY
        if self._works():
            return Stage.BODY if sends_body else Stage.ANSWER
        if sends_body:
            return Stage.LEFTOVER
        begun = self._stage is Stage.HEAD or self.conn.trailing_data[0]
        return Stage.HEAD if begun else Stage.IDLE

    def _is_late(self, now: float) -> bool:
        limits, for_s = self._limits, now - self._since
        if self._stage is Stage.HEAD:
            return for_s > limits.head_s
        if self._stage is Stage.BODY:
            stopped = now - self._came > limits.idle_s and not self.flow.read_paused
            return stopped or for_s > limits.body_s
        if self._stage is Stage.IDLE:
            return for_s > limits.idle_s
        if self._stage is Stage.ANSWER:
            return False
        return for_s > LINGER_S

    def _end_late(self) -> None:
        if self._stage is Stage.CLOSING:
            self._drop()
        elif self._stage is Stage.BODY or (self._stage is Stage.HEAD and self._has_begun()):
            self.refuse(SLOW)
        else:
            self.end()

    def _drop(self) -> None:
        """Reset the connection, so that the system does not keep what was never read."""
        taken = self.transport.get_extra_info("socket")
        if taken is not None:
            with contextlib.suppress(OSError):
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _has_begun(self) -> bool:
        return bool(self.conn.trailing_data[0])

    def _does_not_read(self, now: float) -> bool:
        """Tell whether an answer lies unread for too long, or is read too slowly."""
        n_bytes = self.transport.get_write_buffer_size()
        if n_bytes == 0 or self._stage is Stage.CLOSING:
            self._writing_since, self._n_unwritten = None, 0
            return False
        if self._writing_since is None:
            self._writing_since = self._read = now
        elif n_bytes < self._n_unwritten:
            self._read = now
        self._n_unwritten = n_bytes
        limits = self._limits
        return now - self._read > limits.idle_s or now - self._writing_since > limits.body_s


def _raw(refusal: Refusal) -> bytes:
    body = refusal.body()
    head = (
        f"HTTP/1.1 {refusal.status} {_PHRASES[refusal.status]}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
