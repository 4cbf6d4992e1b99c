from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.privacy.sealed.replay import Window
from cloister.store.database import Database
from privacy.sealed_parties import Pair, open_database
from store import conftest as databases

DAY_S = 86_400


server = databases.server
address = databases.address


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    with open_database(address) as database:
        with database.transaction() as connection:
            connection.execute(text("CREATE TABLE done (content TEXT)"))
        yield database


def process(pair: Pair, connection: Connection, envelope: bytes) -> bytes:
    """Do what a message asks for: write its content down."""
    message = pair.bob.receiver.open(connection, envelope)
    connection.execute(text("INSERT INTO done VALUES (:c)"), {"c": message.content.decode()})
    return message.content


def accept(pair: Pair, database: Database, envelope: bytes) -> bytes:
    return database.run(lambda connection: process(pair, connection, envelope))


def done(database: Database) -> list[str]:
    with database.reading() as connection:
        return list(connection.scalars(text("SELECT content FROM done ORDER BY content")))


def sessions(database: Database) -> list[tuple[object, ...]]:
    with database.reading() as connection:
        query = text("SELECT * FROM cloister_sealed_session ORDER BY session_id")
        return [tuple(row) for row in connection.execute(query)]


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 12))
def test_window_knows_what_a_set_of_all_numbers_knows(numbers: list[int], width: int) -> None:
    window, seen = Window(), set[int]()
    for number in numbers:
        expected = number in seen or (bool(seen) and number <= max(seen) - width)
        assert window.has(number, width=width) == expected
        if not expected:
            window = window.with_number(number, width=width)
            seen.add(number)
        assert window.seen < 1 << width


def test_message_is_accepted_once(database: Database) -> None:
    pair = Pair()
    envelope = pair.sealed(b"once")
    assert accept(pair, database, envelope) == b"once"
    for _ in range(2):
        with pytest.raises(Replayed, match="accepted before"):
            accept(pair, database, envelope)
    assert done(database) == ["once"]


def test_messages_are_accepted_in_any_order_each_once(database: Database) -> None:
    pair = Pair(session_messages=5)
    envelopes = [pair.sealed(b"%02d" % i) for i in range(20)]
    for envelope in envelopes[::-3] + envelopes[::2] + envelopes:
        try:
            accept(pair, database, envelope)
        except Replayed:
            continue
    assert done(database) == [f"{i:02d}" for i in range(20)]


def test_message_beyond_the_window_is_refused_though_it_is_new(database: Database) -> None:
    pair = Pair(window=3)
    envelopes = [pair.sealed(b"%d" % i) for i in range(5)]
    accept(pair, database, envelopes[4])
    accept(pair, database, envelopes[2])
    with pytest.raises(Replayed, match="3 later"):
        accept(pair, database, envelopes[1])


def test_with_default_settings_no_message_of_a_session_comes_too_late(database: Database) -> None:
    pair = Pair()
    first = pair.sealed(b"first")
    for _ in range(pair.ann.settings.session_messages - 2):
        last = pair.sealed(b"last")
    accept(pair, database, last)
    accept(pair, database, first)
    assert len(sessions(database)) == 1


def test_restarted_recipient_refuses_what_it_accepted_before(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    envelopes = [pair.sealed(b"%d" % i) for i in range(3)]
    with open_database(tmp_path / "bob.db") as database, database.transaction() as connection:
        pair.bob.receiver.open(connection, envelopes[0])
    pair.bob.restart()
    with open_database(tmp_path / "bob.db") as database, database.transaction() as connection:
        with pytest.raises(Replayed):
            pair.bob.receiver.open(connection, envelopes[0])
        assert pair.bob.receiver.open(connection, envelopes[2]).content == b"2"
        assert pair.bob.receiver.open(connection, envelopes[1]).content == b"1"


def die_before_the_commit(pair: Pair, folder: Path, envelope: bytes) -> int:
    """Process a message in a child that is gone before it commits; return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of forks with threads
        child = os.fork()
    if child == 0:
        try:
            with open_database(folder / "bob.db") as database, database.transaction() as connection:
                if process(pair, connection, envelope) == b"careful":
                    os._exit(42)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_crash_before_the_commit_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    envelope = pair.sealed(b"careful")
    with open_database(tmp_path / "bob.db") as database, database.transaction() as connection:
        connection.execute(text("CREATE TABLE done (content TEXT)"))
    assert die_before_the_commit(pair, tmp_path, envelope) == 42
    pair.bob.restart()
    with open_database(tmp_path / "bob.db") as database:
        assert done(database) == []
        assert sessions(database) == []
        accept(pair, database, envelope)  # the relay delivers it again
        with pytest.raises(Replayed):  # the acknowledgement was lost, and it comes once more
            accept(pair, database, envelope)
        assert done(database) == ["careful"]


def test_refused_message_changes_nothing(database: Database) -> None:
    pair = Pair()
    envelope = pair.sealed()
    accept(pair, database, envelope)
    before = sessions(database)
    unseen = bytearray(pair.sealed())
    for position in (0, 4, 10, 30, 60, 100, 130, 200, -1):
        bad = bytearray(unseen)
        bad[position] ^= 1
        with database.transaction() as connection, pytest.raises(MessageRefused):
            pair.bob.receiver.open(connection, bytes(bad))
    assert sessions(database) == before
    accept(pair, database, bytes(unseen))


def test_one_message_in_many_threads_is_processed_once(database: Database) -> None:
    pair = Pair(session_messages=4)
    envelopes = [pair.sealed(b"%02d" % i) for i in range(12)]

    def attempt(envelope: bytes) -> bool:
        try:
            accept(pair, database, envelope)
        except Replayed:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        accepted = list(pool.map(attempt, envelopes * 4))
    assert sum(accepted) == 12
    assert done(database) == [f"{i:02d}" for i in range(12)]


def test_rows_go_away_with_their_prekeys(database: Database) -> None:
    pair = Pair(session_messages=1)
    for _ in range(5):
        for _ in range(10):
            accept(pair, database, pair.sealed())
        pair.clock.now_s += DAY_S
        pair.ann.knows(pair.bob)
        with database.transaction() as connection:
            pair.bob.receiver.forget_old(connection)
        assert len(sessions(database)) <= 20  # of the last day, and of the day of grace
    pair.clock.now_s += 10 * DAY_S
    with database.transaction() as connection:
        assert pair.bob.receiver.forget_old(connection) == 20
    assert sessions(database) == []


def test_row_stays_while_its_prekey_can_open_messages(database: Database) -> None:
    pair = Pair()
    envelope = pair.sealed()
    accept(pair, database, envelope)
    pair.clock.now_s += 2 * DAY_S
    with database.transaction() as connection:
        assert pair.bob.receiver.forget_old(connection) == 0
    with pytest.raises(Replayed):
        accept(pair, database, envelope)


def test_sender_cannot_fill_the_table(database: Database) -> None:
    pair = Pair(session_messages=1, sessions_per_sender=3)
    for _ in range(3):
        accept(pair, database, pair.sealed())
    with pytest.raises(MessageRefused, match="more than 3"):
        accept(pair, database, pair.sealed())
    assert len(sessions(database)) == 3


def test_two_recipients_in_one_database_do_not_mix(database: Database) -> None:
    pair = Pair()
    accept(pair, database, pair.sealed())
    back = pair.bob.sender.seal("ann", "search", b"back")
    with database.transaction() as connection:
        assert pair.ann.receiver.open(connection, back).content == b"back"
    pair.clock.now_s += 10 * DAY_S
    with database.transaction() as connection:
        assert pair.ann.receiver.forget_old(connection) == 1
    assert [row[0] for row in sessions(database)] == ["bob"]


def test_session_dropped_from_memory_is_derived_again(database: Database) -> None:
    pair = Pair(session_messages=2, cached_sessions=1)
    envelopes = [pair.sealed(b"%d" % i) for i in range(6)]
    for envelope in envelopes[::2] + envelopes[1::2]:
        accept(pair, database, envelope)
    assert len(pair.bob.receiver._sessions) == 1
    assert len(done(database)) == 6
