"""Which connections are open, of whom, and which one is given up when there are too many."""

from __future__ import annotations

import time
from collections.abc import Callable

from cloister.web.limits import ServiceLimits

__all__ = ["Connection", "OpenConnections"]


def _nothing() -> None:
    """Give up nothing."""


def _never() -> bool:
    """Tell of a connection without TLS whether newer files were read."""
    return False


class Connection:
    """One client's connection, from the moment that it is accepted.

    Parameters
    ----------
    address
        What is counted as one client.
    now
        When it was accepted.
    """

    def __init__(self, address: str, now: float) -> None:
        self.address = address
        self.waiting_since: float | None = now  # None while a request is worked on
        self.give_up: Callable[[], None] = _nothing
        self.is_outdated: Callable[[], bool] = _never


class OpenConnections:
    """All of them; connections that wait make room for new ones, those that work do not.

    Parameters
    ----------
    limits
        How many there may be.
    changed
        Told how many there are.

    Examples
    --------
    >>> limits = ServiceLimits(max_connections=9, max_connections_of_address=2)
    >>> opened = OpenConnections(limits)
    >>> first, second = opened.admit("10.0.0.1", now=1.0), opened.admit("10.0.0.1", now=2.0)
    >>> first.waiting_since = None                   # works on a request
    >>> second.give_up = lambda: print("the second is closed")
    >>> third = opened.admit("10.0.0.1", now=3.0)
    the second is closed
    >>> third.waiting_since = None
    >>> opened.admit("10.0.0.1", now=4.0) is None, opened.admit("10.0.0.2", now=4.0) is None
    (True, False)
    """

    def __init__(self, limits: ServiceLimits, changed: Callable[[int], None] | None = None) -> None:
        self._limits, self._changed = limits, changed
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def admit(self, address: str, *, now: float | None = None) -> Connection | None:
        """Take a new connection, or return None where no other can make room for it."""
        own = self._by_address.get(address, {})
        if len(own) >= self._limits.max_connections_of_address:
            made_room = self._close_one_of(address)
        elif self._n >= self._limits.max_connections:
            made_room = any(self._close_one_of(crowd) for crowd in self._crowds())
        else:
            made_room = True
        if not made_room:
            return None
        connection = Connection(address, time.monotonic() if now is None else now)
        self._by_address.setdefault(address, {})[connection] = None
        self._count(1)
        return connection

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; more than once does no harm."""
        own = self._by_address.get(connection.address, {})
        if connection not in own:
            return
        del own[connection]
        if not own:
            del self._by_address[connection.address]
        self._count(-1)

    def _crowds(self) -> list[str]:
        """Return addresses, those with most connections first."""
        return sorted(self._by_address, key=lambda address: -len(self._by_address[address]))

    def _close_one_of(self, address: str) -> bool:
        waiting = (
            (connection.waiting_since, index, connection)
            for index, connection in enumerate(self._by_address[address])
            if connection.waiting_since is not None
        )
        oldest = min(waiting, default=None)
        if oldest is None:
            return False
        self.remove(oldest[2])
        oldest[2].give_up()
        return True

    def _count(self, change: int) -> None:
        self._n += change
        if self._changed is not None:
            self._changed(self._n)
