"""What the ledger's tests run in other processes: ``python ledger_child.py PROGRAM ARGUMENTS``.

One process loads the code and then forks, since hundreds of deaths are wanted. A recipient in a
process of its own writes down what arrives.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from cloister.core.errors import BudgetExceeded
from cloister.privacy.ledger.entry import Entry
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.release import BoundedRelease
from cloister.privacy.releases.gaussian import GaussianRelease
from cloister.store import KeyedState

NOISY = GaussianRelease(level="user", sigma=100.0, sensitivity=1.0)


class Point:
    """A place where a process may die: the n-th of all dies."""

    def __init__(self, deadly: int) -> None:
        self.left = deadly

    def __call__(self, *_: object, **__: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def recipient(inbox: socket.socket, log: str) -> None:
    """Write down number and digest of each message, until an empty one comes."""
    with Path(log).open("a") as stream:
        while message := inbox.recv(1 << 16):
            stream.write(f"{message[:8].decode()} {hashlib.sha256(message[8:]).hexdigest()}\n")
            stream.flush()
            os.fsync(stream.fileno())


def party(address: str, outbox: socket.socket, point: Point, n_releases: int) -> None:
    """Send what is pending, then make new releases and send each; die at some point of it."""
    with Ledger.open(address) as ledger:
        state = KeyedState("rounds")
        ledger.database.migrate(KeyedState.schema)
        for engine in ledger.database._engines.values():
            sa.event.listen(engine, "before_cursor_execute", point)
            sa.event.listen(engine, "after_cursor_execute", point)
            sa.event.listen(engine, "commit", point)

        def send(entry: Entry, payload: bytes) -> None:
            point()
            outbox.send(f"{entry.number:08d}".encode() + payload)
            point()

        def draw(connection: sa.Connection) -> bytes:
            point()
            content = os.urandom(64)  # never the same twice: a second drawing would show
            state.put(connection, "last", hashlib.sha256(content).hexdigest())
            return content

        ledger.deliver(send)
        for _ in range(n_releases):
            point()
            ledger.release(NOISY, draw, party_id="clinic", recipient="hub", purpose="test")
            point()
            ledger.deliver(send)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return child


def die_everywhere(address: str, log: str, step: str) -> None:
    """Die at the first point, the second, ..., until none is left; say how many there were."""
    Ledger.open(address).close()
    inbox, outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    reader = _forked(lambda: recipient(inbox, log))
    n_deaths = 0
    while os.WIFSIGNALED(_died_at(1 + n_deaths * int(step), address, outbox)):
        n_deaths += 1
    _finish(address, outbox, reader, n_deaths)


def _died_at(deadly: int, address: str, outbox: socket.socket) -> int:
    child = _forked(lambda: party(address, outbox, Point(deadly), 1))
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit("a child failed")
    return status


def die_any_time(address: str, log: str, n_times: str) -> None:
    """Be killed from outside after random times, while releasing without end."""
    Ledger.open(address).close()
    inbox, outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    reader = _forked(lambda: recipient(inbox, log))
    chance = random.Random(7)
    for _ in range(int(n_times)):
        child = _forked(lambda: party(address, outbox, Point(-1), 1_000_000))
        time.sleep(chance.uniform(0.01, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _finish(address, outbox, reader, int(n_times))


def _finish(address: str, outbox: socket.socket, reader: int, n_deaths: int) -> None:
    party(address, outbox, Point(-1), 0)  # the last start: sends what waits, and releases nothing
    outbox.send(b"")
    os.waitpid(reader, 0)
    sys.stdout.write(f"{n_deaths}\n")


def race(address: str, epsilon_of_each: str) -> None:
    """Let two processes release until both are refused; say how many were let through."""
    start, started = os.pipe()
    results, result = os.pipe()
    rivals = [_forked(lambda: _spend(address, epsilon_of_each, start, result)) for _ in range(2)]
    os.write(started, b"go")
    for rival in rivals:
        os.waitpid(rival, 0)
    os.close(result)
    sys.stdout.write(os.read(results, 1000).decode())


def _spend(address: str, epsilon_of_each: str, start: int, result: int) -> None:
    release = BoundedRelease(level="user", epsilon=float(epsilon_of_each), mechanism_name="test")
    with Ledger.open(address) as ledger:
        os.read(start, 1)
        n_let_through = 0
        try:
            while True:
                ledger.release(release, b"", party_id="clinic", recipient="hub", purpose="")
                n_let_through += 1
        except BudgetExceeded:
            os.write(result, f"{n_let_through}\n".encode())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
