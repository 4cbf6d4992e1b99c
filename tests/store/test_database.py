"""The contract of Database, the same for SQLite and PostgreSQL."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cloister.core.contention import Busy, patiently
from cloister.core.errors import Damaged, MissingDependency, NotFound, SettingsError, StoreError
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

note = sa.table("note", sa.column("id", sa.Integer), sa.column("text", sa.Text))


@pytest.fixture(autouse=True)
def _tables(request: pytest.FixtureRequest) -> None:
    if "database" in request.fixturenames:
        database: Database = request.getfixturevalue("database")
        with database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"))
            connection.execute(
                sa.text("CREATE TABLE reply (note_id INTEGER NOT NULL REFERENCES note (id))")
            )


def insert(connection: sa.Connection, number: int, text: str = "") -> None:
    connection.execute(note.insert().values(id=number, text=text))


def stored(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(connection.scalars(sa.select(note.c.id).order_by(note.c.id)))


def test_a_commit_is_seen_by_another_connection(
    database: Database, open_database: Callable[..., Database]
) -> None:
    with database.transaction() as connection:
        insert(connection, 1)
    assert stored(open_database()) == [1]


def test_an_error_undoes_the_whole_transaction(database: Database) -> None:
    def work(connection: sa.Connection) -> None:
        insert(connection, 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(work)
    assert stored(database) == []


def test_an_error_undoes_table_changes_too(database: Database) -> None:
    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text("CREATE TABLE extra (n INTEGER)"))
        connection.execute(sa.text("ALTER TABLE note ADD COLUMN extra INTEGER"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(work)
    with database.reading() as connection:
        inspector = sa.inspect(connection)
        assert not inspector.has_table("extra")
        assert [column["name"] for column in inspector.get_columns("note")] == ["id", "text"]


def test_a_savepoint_undoes_only_its_part(database: Database) -> None:
    with database.transaction() as connection:
        insert(connection, 1)
        savepoint = connection.begin_nested()
        insert(connection, 2)
        with pytest.raises(sa.exc.IntegrityError):
            insert(connection, 1)
        savepoint.rollback()
        insert(connection, 3)
    assert stored(database) == [1, 3]


def test_an_uncommitted_change_is_invisible_and_a_reader_keeps_its_snapshot(
    database: Database,
) -> None:
    count = sa.select(sa.func.count()).select_from(note)
    with database.reading() as reader:
        assert reader.scalar(count) == 0
        with database.transaction() as writer:
            insert(writer, 1)
            with database.reading() as second_reader:
                assert second_reader.scalar(count) == 0
        assert reader.scalar(count) == 0
    assert stored(database) == [1]


def test_a_reader_cannot_write_and_leaves_writers_able_to(database: Database) -> None:
    with pytest.raises(StoreError, match=r"read-only; .*Database\.transaction"):
        database.run(lambda connection: insert(connection, 1), read_only=True)
    with pytest.raises(StoreError, match="read-only"), database.reading() as connection:
        insert(connection, 1)
    with database.transaction() as connection:
        insert(connection, 2)
    assert stored(database) == [2]


def test_foreign_keys_are_enforced(database: Database) -> None:
    with pytest.raises(StoreError, match=r"(?i)foreign key"), database.transaction() as connection:
        connection.execute(sa.text("INSERT INTO reply VALUES (99)"))


def test_two_threads_lose_no_increment(database: Database) -> None:
    with database.transaction() as connection:
        insert(connection, 1, "0")

    def add_one(connection: sa.Connection) -> None:
        value = int(connection.scalar(sa.select(note.c.text).where(note.c.id == 1)) or 0)
        connection.execute(note.update().where(note.c.id == 1).values(text=str(value + 1)))

    def add_many(_: int) -> None:
        for _ in range(25):
            database.run(add_one)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_many, range(4)))
    with database.reading() as connection:
        assert connection.scalar(sa.select(note.c.text)) == "100"


def test_write_skew_is_impossible(database: Database) -> None:
    """Two doctors each go off duty if the other is on: serializable keeps one on duty."""
    with database.transaction() as connection:
        insert(connection, 1, "on")
        insert(connection, 2, "on")
    both_have_read = threading.Barrier(2)
    on_duty = sa.select(sa.func.count()).select_from(note).where(note.c.text == "on")

    def leave(number: int) -> None:
        first = True

        def work(connection: sa.Connection) -> None:
            nonlocal first
            n_on = connection.scalar(on_duty) or 0
            if first and database.kind == "postgresql":  # SQLite lets one writer in at a time
                first = False
                both_have_read.wait(timeout=10)
            if n_on == 2:
                connection.execute(note.update().where(note.c.id == number).values(text="off"))

        database.run(work)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(leave, (1, 2)))
    with database.reading() as connection:
        assert connection.scalar(on_duty) == 1


def test_a_writer_in_the_way_is_busy_and_run_gets_through(
    open_database: Callable[..., Database], database: Database
) -> None:
    with database.transaction() as connection:
        insert(connection, 1, "first")
    impatient = open_database(busy_timeout_s=0.05)
    change = note.update().where(note.c.id == 1)
    n_calls = 0

    def work(connection: sa.Connection) -> str:
        nonlocal n_calls
        n_calls += 1
        connection.execute(change.values(text="second"))
        return "done"

    with database.transaction() as holder:
        holder.execute(change.values(text="held"))
        began = time.monotonic()
        with pytest.raises(Busy), impatient.transaction() as connection:
            connection.execute(change.values(text="too early"))
        with pytest.raises(Busy, match=r"try again, or use Database\.run"):
            impatient.run(work, n_attempts=2)
        assert time.monotonic() - began < 5  # three times the short timeout, not the default
        timer = threading.Timer(0.3, holder.commit)
        timer.start()
        n_calls = 0
        assert impatient.run(work) == "done"
        timer.join()
    assert (n_calls > 1) or database.kind == "sqlite"  # SQLite waits before the work begins
    with database.reading() as connection:
        assert connection.scalar(sa.select(note.c.text)) == "second"


def test_run_does_not_repeat_other_errors(database: Database) -> None:
    calls = []

    def work(connection: sa.Connection) -> None:
        calls.append(1)
        insert(connection, 1)
        insert(connection, 1)

    with pytest.raises(StoreError, match=r"(?i)unique") as caught:
        database.run(work)
    assert not isinstance(caught.value, Busy)
    assert len(calls) == 1
    assert stored(database) == []


def test_patience_ends() -> None:
    calls = []

    def never() -> None:
        calls.append(1)
        raise Busy("locked")

    with pytest.raises(Busy):
        patiently(never, n_attempts=3)
    assert len(calls) == 3


def test_values_do_not_appear_in_errors(database: Database) -> None:
    secret = "diagnosis-4711"
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE patient (name TEXT PRIMARY KEY)"))
    patient = sa.table("patient", sa.column("name"))

    def insert_twice(connection: sa.Connection) -> None:
        for _ in range(2):
            connection.execute(patient.insert().values(name=secret))

    def read_as_number(connection: sa.Connection) -> None:  # SQLite reads anything as a number
        connection.execute(patient.insert().values(name=secret))
        connection.execute(sa.text("SELECT CAST(name AS INTEGER) FROM patient")).all()

    works = [insert_twice] if database.kind == "sqlite" else [insert_twice, read_as_number]
    for work in works:
        with pytest.raises(StoreError) as caught:
            database.run(work)
        assert secret not in "".join(traceback.format_exception(caught.value))


def test_a_missing_table_says_to_migrate(database: Database) -> None:
    with pytest.raises(StoreError, match="migrate"), database.reading() as connection:
        connection.execute(sa.text("SELECT * FROM nowhere"))


def test_a_closed_database_refuses(database: Database) -> None:
    with database:
        pass
    with pytest.raises(StoreError, match="closed"), database.reading():
        pass


def test_two_processes_can_open_a_new_database_at_once(
    address: str, race: Callable[..., list[str]]
) -> None:
    assert len(race("open_only", address)) == 2  # race() itself sees that both ended well


def test_more_threads_than_connections_all_get_through(database: Database) -> None:
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda n: database.run(lambda c: insert(c, n)), range(48)))
    assert stored(database) == list(range(48))


# SQLite alone


def test_sqlite_runs_with_a_log_and_full_synchronisation(tmp_path: Path) -> None:
    with Database.open(tmp_path / "a.db") as database, database.transaction() as connection:
        setting = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "query_only")
        }
    assert setting == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "query_only": 0}


def test_sqlite_writers_who_read_first_wait_for_each_other(tmp_path: Path) -> None:
    """With a late lock, one of two who have read would be refused and could not just wait."""

    def add_one(connection: sa.Connection) -> None:
        value = connection.scalar(sa.text("SELECT n FROM t"))
        connection.execute(sa.text("UPDATE t SET n = :n"), {"n": value + 1})

    with Database.open(tmp_path / "a.db") as database:
        with database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE t AS SELECT 0 AS n"))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: database.run(add_one, n_attempts=1), range(40)))
        with database.reading() as connection:
            assert connection.scalar(sa.text("SELECT n FROM t")) == 40


def test_opening_waits_for_another_process_that_sets_up_the_same_file(tmp_path: Path) -> None:
    rival = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    rival.execute("BEGIN EXCLUSIVE")
    rival.execute("CREATE TABLE t (n INTEGER)")
    timer = threading.Timer(0.2, rival.commit)
    timer.start()
    database = Database.open(tmp_path / "a.db", busy_timeout_s=0.01)
    with database, database.reading() as connection:
        assert sa.inspect(connection).has_table("t")
    timer.join()
    rival.close()


def test_sqlite_files_are_private(tmp_path: Path) -> None:
    with Database.open(tmp_path / "a.db") as database:
        with database.transaction() as connection:
            connection.execute(sa.text("CREATE TABLE t (n INTEGER)"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("a.db*")}
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"not a database " * 100)
    with pytest.raises(Damaged, match=r"a\.db.*damaged"):
        Database.open(tmp_path / "a.db")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_sqlite_addresses_name_the_same_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "with space? and ünïcode.db" if form == "{}" else tmp_path / "ü x.db"
    with Database.open(form.format(path)) as database:
        assert database.kind == "sqlite"
        assert path.exists()
        assert str(path) in repr(database)


@pytest.mark.parametrize(
    "address",
    [":memory:", "", "sqlite://", "sqlite:///", "sqlite://host/a.db", "sqlite:///a.db?mode=ro"],
)
def test_a_sqlite_address_without_a_file_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="PATH"):
        Database.open(address)


def test_a_missing_folder_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="make the folder first"):
        Database.open(tmp_path / "missing" / "a.db")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="this is a folder, not a file; name a file"):
        Database.open(tmp_path)


# PostgreSQL alone


def test_an_unreachable_server_is_reported_without_the_password() -> None:
    pytest.importorskip("psycopg")
    address = "postgresql://ann:s3cr3t@127.0.0.1:1/x?sslpassword=hidden"
    with pytest.raises(StoreError, match=r"check that the server runs") as caught:
        Database.open(address)
    assert str(caught.value).startswith("postgresql://ann@127.0.0.1:1/x: cannot connect")
    assert "s3cr3t" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_wrong_password_is_reported_without_it(server: Any) -> None:
    server.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    good = f"postgresql://locked:right@/postgres?host={server.folder}"
    with Database.open(good) as database:
        assert "right" not in repr(database)
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        Database.open(good.replace("right", "wr0ng"))
    assert "wr0ng" not in str(caught.value)


def test_a_lost_connection_is_reported_and_the_next_transaction_works(server: Any) -> None:
    def work(connection: sa.Connection) -> None:
        pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        server.execute(f"SELECT pg_terminate_backend({pid})")
        connection.execute(sa.text("SELECT 1"))

    with Database.open(server.address()) as database:
        with pytest.raises(StoreError, match="connection was lost"):
            database.run(work)
        with database.reading() as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1


def test_a_connection_that_was_lost_while_idle_is_replaced(server: Any) -> None:
    with Database.open(server.address()) as database:
        with database.reading() as connection:
            pid = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        server.execute(f"SELECT pg_terminate_backend({pid})")
        with database.reading() as connection:
            assert connection.scalar(sa.text("SELECT pg_backend_pid()")) != pid


def test_postgresql_is_serializable(server: Any) -> None:
    with Database.open(server.address()) as database, database.reading() as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == "serializable"
        assert connection.scalar(sa.text("SHOW transaction_read_only")) == "on"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3cr3t:x@host:port/db",
        "postgresql://ann:p@s3cr3t@host/db",
        "mysql://ann:s3cr3t@host/db",
        "postgresql+asyncpg://ann:s3cr3t@host/db",
    ],
)
def test_an_unreadable_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Database.open(address)
    assert "s3cr3t" not in str(caught.value)


def test_a_missing_driver_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependency, match=r"pip install cloister\[postgres\]"):
        Database.open("postgresql://ann:s3cr3t@host/db")


# Crashes


def test_a_killed_transaction_leaves_the_last_commit(
    database: Database, address: str, spawn: Callable[..., Any]
) -> None:
    database.migrate(KeyedState.schema)
    child = spawn("die_inside", address)
    assert child.wait(timeout=60) == -signal.SIGKILL
    state = KeyedState("test")
    with database.reading() as connection:
        assert state.keys(connection) == ["committed"]
        assert state.get(connection, "committed") == (1, 1)
    with database.transaction() as connection:  # and nothing is left locked
        state.put(connection, "committed", 3)


def test_every_commit_of_a_killed_writer_is_there(
    database: Database, address: str, spawn: Callable[..., Any]
) -> None:
    database.migrate(KeyedState.schema)
    child = spawn("write_for_ever", address)
    said = [int(child.stdout.readline()) for _ in range(100)]
    os.kill(child.pid, signal.SIGKILL)
    said += [int(line) for line in child.communicate()[0].splitlines()]
    state = KeyedState("test")

    def read(connection: sa.Connection) -> tuple[list[str], int]:
        last = state.get(connection, "last")
        assert last is not None
        return state.keys(connection, prefix="0"), last.value

    keys, last = database.run(read, read_only=True)
    assert [int(key) for key in keys] == list(range(last + 1))  # each transaction whole
    assert last in (said[-1], said[-1] + 1)  # the last commit may have died before it was said
    if database.kind == "sqlite":
        with database.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


def test_two_processes_lose_no_increment(
    database: Database, address: str, race: Callable[..., list[str]]
) -> None:
    database.migrate(KeyedState.schema)
    race("count_up", address, "100")
    with database.reading() as connection:
        assert KeyedState("test").get(connection, "counter") == (200, 200)
