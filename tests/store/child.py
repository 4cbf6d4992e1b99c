"""What the tests run in other processes: ``python child.py PROGRAM ADDRESS [ARGUMENTS]``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import sqlalchemy as sa
from alembic.operations import Operations

from cloister.store import Database, Files, KeyedState, Migration, Schema


def _create_slowly(operations: Operations) -> None:
    operations.create_table("room", sa.Column("number", sa.Integer, primary_key=True))
    time.sleep(0.3)  # long enough for a rival to meet us here


def _fill(operations: Operations) -> None:
    operations.execute("INSERT INTO room VALUES (1)")  # a second time would fail


ROOMS = Schema("rooms", (Migration(1, "create", _create_slowly), Migration(2, "fill", _fill)))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def die_inside(address: str) -> None:
    """Commit one change, make another, and die before its commit."""
    state = KeyedState("test")
    database = Database.open(address)
    with database.transaction() as connection:
        state.put(connection, "committed", 1)
    with database.transaction() as connection:
        state.put(connection, "committed", 2)
        state.put(connection, "other", 2)
        os.kill(os.getpid(), signal.SIGKILL)


def die_migrating(address: str) -> None:
    """Die in the middle of a migration, after its first table."""

    def upgrade(operations: Operations) -> None:
        operations.create_table("half", sa.Column("number", sa.Integer, primary_key=True))
        os.kill(os.getpid(), signal.SIGKILL)

    Database.open(address).migrate(Schema("halves", (Migration(1, "half", upgrade),)))


def write_for_ever(address: str) -> None:
    """Say each number after its commit, until killed."""
    state = KeyedState("test")
    database = Database.open(address)
    for number in range(1_000_000):
        with database.transaction() as connection:
            state.put(connection, f"{number:06d}", {"number": number})
            state.put(connection, "last", number)
        say(str(number))


def count_up(address: str, n_times: str) -> None:
    """Add one to a counter, again and again; rivals do the same."""
    state = KeyedState("test")

    def add_one(connection: sa.Connection) -> None:
        entry = state.get(connection, "counter")
        state.put(connection, "counter", 1 + (entry.value if entry else 0))

    with Database.open(address) as database:
        say("ready")
        sys.stdin.readline()
        for _ in range(int(n_times)):
            database.run(add_one)


def migrate(address: str) -> None:
    """Migrate when told, and say how many steps were applied here."""
    with Database.open(address) as database:
        say("ready")
        sys.stdin.readline()
        say(str(len(database.migrate(ROOMS))))


def open_only(address: str) -> None:
    """Open a database that a rival opens at the same time."""
    say("ready")
    sys.stdin.readline()
    for _ in range(20):
        Database.open(address).close()


def hang_storing(root: str) -> None:
    """Say when half of a file is written, then wait to be killed."""

    class Endless:
        n_reads = 0

        def read(self, size: int) -> bytes:
            self.n_reads += 1
            if self.n_reads == 3:
                say("half")
                time.sleep(60)
            return b"x" * size

    Files(Path(root)).put(Endless())  # type: ignore[arg-type]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
