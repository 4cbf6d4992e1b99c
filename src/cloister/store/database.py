"""One door to SQLite and PostgreSQL: serializable transactions, the same code on both.

A transaction is all or nothing, also when the process is killed in its middle, and a commit is on
the disk when it returns. SQLite runs with a write-ahead log, ``synchronous=FULL`` and one writer at
a time; PostgreSQL runs at isolation level SERIALIZABLE, where a transaction that cannot be put in
a row with the others is refused as `Busy` and tried again by `Database.run`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from cloister.core.closing import Closing
from cloister.core.contention import N_ATTEMPTS, patiently
from cloister.core.errors import MissingDependency, StoreError
from cloister.core.file_errors import writing
from cloister.store.addresses import Address, check_transport, parse_address
from cloister.store.driver_errors import translated

if TYPE_CHECKING:
    from cloister.store.migrations import Migration, Schema

__all__ = ["Database"]

T = TypeVar("T")
_Mode = Literal["writing", "reading", "restructuring"]

BUSY_TIMEOUT_S: Final = 10.0  # how long a statement waits for somebody else's lock
CONNECT_TIMEOUT_S: Final = 10


class Database(Closing):
    """An open database. Threads may share it; each transaction has its own connection.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sqlalchemy import text
    >>> with TemporaryDirectory() as folder, Database.open(Path(folder, "state.db")) as database:
    ...     with database.transaction() as connection:
    ...         _ = connection.execute(text("CREATE TABLE visit (place TEXT)"))
    ...         _ = connection.execute(text("INSERT INTO visit VALUES ('Melk')"))
    ...     with database.reading() as connection:
    ...         connection.scalar(text("SELECT place FROM visit"))
    'Melk'
    """

    def __init__(self, engine: Engine, address: Address) -> None:
        self._address = address
        self._closed = False
        self._engines: dict[_Mode, Engine] = {
            "writing": engine.execution_options(cloister_mode="writing"),
            "reading": engine.execution_options(
                cloister_mode="reading",
                **({} if engine.name == "sqlite" else {"postgresql_readonly": True}),
            ),
            "restructuring": engine.execution_options(cloister_mode="restructuring"),
        }

    @classmethod
    def open(cls, address: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Self:
        """Open a database and see that it answers.

        Parameters
        ----------
        address
            A file path or ``sqlite:///PATH`` for SQLite, which makes the file where it is missing;
            ``postgresql://USER:PASSWORD@HOST/DATABASE`` for PostgreSQL. A server on another
            machine must prove its name: ``?sslmode=verify-full&sslrootcert=FILE``.
        busy_timeout_s
            How long a statement waits for a lock before it raises `Busy`.
        """
        parsed = parse_address(address)
        make = _sqlite_engine if parsed.url.drivername == "sqlite+pysqlite" else _postgresql_engine
        database = cls(make(parsed, busy_timeout_s), parsed)
        try:
            patiently(database._ping)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def shown(self) -> str:
        """Where it is, without secrets."""
        return self._address.shown

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """Which of the two databases this is."""
        return "sqlite" if self._engines["writing"].name == "sqlite" else "postgresql"

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection for reading and writing; commit at the end, or undo on any error.

        Raises `Busy` where another transaction is in the way; `run` tries again by itself.
        """
        with self._begun("writing") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the database throughout and cannot write.

        On PostgreSQL a reader too may be `Busy`, though seldom: ``run(work, read_only=True)``.
        """
        with self._begun("reading") as connection:
            yield connection

    @contextmanager
    def restructuring(self) -> Iterator[Connection]:
        """Give a connection for changing tables; foreign keys of SQLite are checked at the end.

        SQLite changes a table by making a new one and dropping the old, which would delete or
        forbid what refers to it if foreign keys were enforced meanwhile.
        """
        with self._begun("restructuring") as connection:
            yield connection
            if self.kind == "sqlite":
                self._check_foreign_keys(connection)

    def run(
        self,
        work: Callable[[Connection], T],
        *,
        read_only: bool = False,
        n_attempts: int = N_ATTEMPTS,
    ) -> T:
        """Return what ``work`` returns from its own transaction, tried again while `Busy`.

        ``work`` may be called several times, and must change nothing but the database.
        """
        mode: _Mode = "reading" if read_only else "writing"
        return patiently(partial(self._attempt, work, mode), n_attempts=n_attempts)

    def migrate(self, schema: Schema) -> tuple[Migration, ...]:
        """Bring a component's tables up to date; return the migrations that were applied."""
        from cloister.store.migrations import migrate

        return migrate(self, schema)

    def answers(self) -> bool:
        """Say whether the database answers now."""
        try:
            self._ping()
        except StoreError:
            return False
        return True

    def close(self) -> None:
        """Close all connections; the database cannot be used afterwards."""
        self._closed = True
        self._engines["writing"].dispose()

    def __repr__(self) -> str:
        return f"<Database {self.shown}>"

    @contextmanager
    def _begun(self, mode: _Mode) -> Iterator[Connection]:
        if self._closed:
            raise StoreError("the database is closed", where=self._address.shown)
        with translated(self._address), self._engines[mode].begin() as connection:
            yield connection

    def _attempt(self, work: Callable[[Connection], T], mode: _Mode) -> T:
        with self._begun(mode) as connection:
            return work(connection)

    def _ping(self) -> None:
        with self.reading() as connection:
            connection.exec_driver_sql("SELECT 1").all()

    def _check_foreign_keys(self, connection: Connection) -> None:
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        if broken:
            tables = ", ".join(sorted({row[0] for row in broken}))
            raise StoreError(
                f"{len(broken)} rows refer to rows that do not exist, in: {tables}",
                where=self._address.shown,
                remedy="nothing was changed; correct the migration",
            )


def _sqlite_engine(address: Address, busy_timeout_s: float) -> Engine:
    _make_private_file(Path(address.url.database or ""))
    engine = create_engine(
        address.url, hide_parameters=True, connect_args={"timeout": busy_timeout_s}
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_private_file(path: Path) -> None:
    """Make an empty file that only its owner may read; SQLite gives its log the same rights."""
    with writing(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _set_up_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Prepare a new connection.

    Without ``isolation_level = None`` the driver would begin transactions itself, late, and not at
    all for table changes; `_begin_sqlite` does it instead, as SQLAlchemy's manual recommends.
    """
    connection.isolation_level = None
    (journal_mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal_mode != "wal":
        raise StoreError(
            f"no write-ahead log is possible here (journal mode {journal_mode!r})",
            where="SQLite",
            remedy="keep the file on a local file system",
        )
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    """Begin by mode. Each begin sets every switch, so none is left over from the last user."""
    mode: _Mode = connection.get_execution_options().get("cloister_mode", "writing")
    enforced = "OFF" if mode == "restructuring" else "ON"
    connection.exec_driver_sql(f"PRAGMA foreign_keys = {enforced}")
    connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if mode == 'reading' else 'OFF'}")
    # A writer takes the lock at once: one that read first could not be let through later.
    connection.exec_driver_sql("BEGIN" if mode == "reading" else "BEGIN IMMEDIATE")


def _postgresql_engine(address: Address, busy_timeout_s: float) -> Engine:
    wanted: dict[str, Any] = {
        "prepare_threshold": None,  # a prepared statement may not outlive a migration
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "cloister",
    }
    connect_args = {name: wanted[name] for name in wanted if name not in address.url.query}
    try:
        if not check_transport(address, *_connection_options(address)):
            connect_args["gssencmode"] = "disable"  # libpq would prefer it to verified TLS
        engine = create_engine(
            address.url,
            hide_parameters=True,
            isolation_level="SERIALIZABLE",
            pool_pre_ping=True,
            connect_args=connect_args,
        )
    except ImportError:
        raise MissingDependency(
            "PostgreSQL needs the package psycopg",
            where=address.shown,
            remedy="pip install cloister[postgres]",
        ) from None
    event.listen(engine, "connect", partial(_set_up_postgresql, busy_timeout_s))
    return engine


def _connection_options(address: Address) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the address gives libpq, and what libpq takes from elsewhere."""
    from psycopg import pq

    _, given = address.url.get_dialect()().create_connect_args(address.url)
    usual = {
        one.keyword.decode(): one.val.decode() for one in pq.Conninfo.get_defaults() if one.val
    }
    return {name: value for name, value in given.items() if value}, usual


def _set_up_postgresql(busy_timeout_s: float, connection: Any, _record: object) -> None:
    """Let a statement wait for a lock for some time, not for ever."""
    milliseconds = max(1, round(busy_timeout_s * 1000))  # 0 would mean for ever
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {milliseconds}")
    connection.commit()
