"""Store and forward: what carries envelopes between parties that are not online together.

A relay sees who talks to whom, when, how often and in which size class. It can delay, drop, repeat
and reorder envelopes. It cannot read, alter, forge or re-address one without being detected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cloister.core.errors import CloisterError, NotFound
from cloister.core.ids import checked_id

__all__ = ["Delivery", "InMemoryRelay", "Relay", "RelayFull"]


class RelayFull(CloisterError):
    """A recipient's queue has no room for the envelope; it was not taken."""

    usual_remedy = "send it again when the recipient has fetched its messages"


class Delivery(NamedTuple):
    """An envelope on its way out; it comes again unless it is acknowledged."""

    delivery_id: int
    envelope: bytes


class Relay(Protocol):
    """What parties need of a relay; delivery is at least once, in any order."""

    def publish(self, party_id: str, prekey: bytes) -> None:
        """Show a party's current prekey to all; it is signed, so the relay cannot make one up."""

    def prekey(self, party_id: str) -> bytes:
        """Return the prekey that a party published last."""

    def send(self, recipient: str, envelope: bytes) -> None:
        """Take an envelope for a recipient, or raise `RelayFull`."""

    def receive(self, recipient: str, *, limit: int = 100) -> list[Delivery]:
        """Return envelopes that wait for a recipient and are not being processed elsewhere."""

    def acknowledge(self, recipient: str, delivery_id: int) -> None:
        """Forget an envelope: the recipient has committed what it asked for."""


class _Waiting:
    __slots__ = ("envelope", "hidden_until_s")

    def __init__(self, envelope: bytes) -> None:
        self.envelope = envelope
        self.hidden_until_s = float("-inf")


class InMemoryRelay:
    """A relay inside one process, for the embedded default and for tests; a restart empties it.

    It does not check who asks: whoever can call it can take a recipient's envelopes off the queue,
    though not read them.

    Parameters
    ----------
    max_messages, max_bytes
        The bounds of each recipient's queue.
    lease_s
        How long a delivered envelope is hidden before it is delivered again.
    clock
        Seconds that never go backwards.

    Examples
    --------
    >>> relay = InMemoryRelay()
    >>> relay.send("lab", b"sealed")
    >>> (delivery,) = relay.receive("lab")
    >>> delivery.envelope, relay.receive("lab")
    (b'sealed', [])
    >>> relay.acknowledge("lab", delivery.delivery_id)
    """

    def __init__(
        self,
        *,
        max_messages: int = 10_000,
        max_bytes: int = 2**28,
        lease_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._lease_s = lease_s
        self._clock = clock
        self._lock = threading.Lock()
        self._prekeys: dict[str, bytes] = {}
        self._queues: dict[str, dict[int, _Waiting]] = {}
        self._sizes_bytes: dict[str, int] = {}
        self._next_id = 0

    def publish(self, party_id: str, prekey: bytes) -> None:
        """Show a party's current prekey to all."""
        self._prekeys[checked_id(party_id)] = prekey

    def prekey(self, party_id: str) -> bytes:
        """Return the prekey that a party published last."""
        try:
            return self._prekeys[party_id]
        except KeyError:
            raise NotFound("no prekey was published", where=party_id[:80]) from None

    def send(self, recipient: str, envelope: bytes) -> None:
        """Take an envelope for a recipient, or raise `RelayFull`."""
        with self._lock:
            queue = self._queues.setdefault(checked_id(recipient), {})
            size_bytes = self._sizes_bytes.get(recipient, 0) + len(envelope)
            if len(queue) >= self._max_messages or size_bytes > self._max_bytes:
                raise RelayFull(f"{len(queue)} messages are waiting already", where=recipient)
            queue[self._next_id] = _Waiting(envelope)
            self._sizes_bytes[recipient] = size_bytes
            self._next_id += 1

    def receive(self, recipient: str, *, limit: int = 100) -> list[Delivery]:
        """Return the oldest envelopes that wait for a recipient, and hide them for a while."""
        with self._lock:
            now_s = self._clock()
            found: list[Delivery] = []
            for delivery_id, waiting in self._queues.get(recipient, {}).items():
                if len(found) >= limit:
                    break
                if waiting.hidden_until_s <= now_s:
                    waiting.hidden_until_s = now_s + self._lease_s
                    found.append(Delivery(delivery_id, waiting.envelope))
            return found

    def acknowledge(self, recipient: str, delivery_id: int) -> None:
        """Forget an envelope; one that is gone already is no error."""
        with self._lock:
            waiting = self._queues.get(recipient, {}).pop(delivery_id, None)
            if waiting:
                self._sizes_bytes[recipient] -= len(waiting.envelope)

    def __repr__(self) -> str:
        with self._lock:
            n_waiting = sum(map(len, self._queues.values()))
        return f"<InMemoryRelay with {n_waiting} envelopes>"
