"""Both databases for every test of the store: a file, and a PostgreSQL server of our own.

The server lives in a temporary folder, listens on a Unix socket in that folder only, and is
stopped with the test session. PostgreSQL refuses to run as root, so root runs it as another user.
"""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister.store.database import Database

_BACKENDS = ("sqlite", "postgresql")
_number = itertools.count()


class Server:
    """A throw-away PostgreSQL cluster; with ``more`` settings where they are given."""

    def __init__(self, programs: Path, folder: Path, more: str = "listen_addresses=''") -> None:
        self.more = more
        self.programs = programs
        self.folder = folder
        self.data = folder / "data"
        self.user = "postgres"
        self.account = _unprivileged_account() if os.geteuid() == 0 else None

    def start(self) -> None:
        if self.account:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self.account.pw_uid, self.account.pw_gid)
        self._run("initdb", "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        rules = self.data / "pg_hba.conf"  # the first line that fits decides
        rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
        settings = (
            f"-c {self.more} -c unix_socket_directories='{self.folder}' -c fsync=off "
            "-c full_page_writes=off -c max_connections=60 -c shared_buffers=16MB"
        )
        log = str(self.folder / "log")
        self._run("pg_ctl", "-w", "-t", "60", "-l", log, "-o", settings, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def address(self, schema: str = "public") -> str:
        """Return an address whose tables live in one schema: new ones cost less than databases."""
        options = f"host={self.folder}&options=-csearch_path%3D{schema}"
        return f"postgresql://{self.user}@/postgres?{options}"

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.folder), user=self.user, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        as_user: dict[str, Any] = {}
        if self.account:
            uid, gid = self.account.pw_uid, self.account.pw_gid
            as_user = {"user": uid, "group": gid, "extra_groups": []}
        command = [str(self.programs / program), "-D", str(self.data), *arguments]
        # Output to a file: the server inherits it, and a pipe would stay open for its life.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=120,
                check=False,
                **as_user,
            )
            output.seek(0)
            if done.returncode:
                pytest.fail(f"{program} failed: {output.read()[-2000:]}")


def _unprivileged_account() -> pwd.struct_passwd:
    accounts = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(accounts[name] for name in ("postgres", "nobody") if name in accounts)


def _version(programs: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", programs.parent.name)]


def _find_programs() -> Path | None:
    installed = Path("/usr/lib/postgresql")
    versions = sorted(installed.glob("*/bin"), key=_version)
    on_path = shutil.which("initdb")
    candidates = [*reversed(versions), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in candidates if (path / "pg_ctl").exists()), None)


@contextmanager
def running_server(
    prepare: Callable[[Path], str] = lambda _: "listen_addresses=''",
) -> Iterator[Server]:
    """Give a server in a new folder, which ``prepare`` may fill; it returns more settings."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb in /usr/lib/postgresql or on PATH")
    folder = Path(tempfile.mkdtemp(prefix="cloister-pg-", dir="/tmp"))
    server = Server(programs, folder, prepare(folder))
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for each test process."""
    with running_server() as server:
        yield server


@pytest.fixture(params=_BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty database, once for each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "state.db")
    server: Server = request.getfixturevalue("server")
    name = f"test_{next(_number)}"
    server.execute(f"CREATE SCHEMA {name}")
    return server.address(name)


@pytest.fixture
def open_database(address: str) -> Iterator[Callable[..., Database]]:
    """Open the database of this test, as often as wanted; all are closed at the end."""
    opened: list[Database] = []

    def open_one(**options: Any) -> Database:
        opened.append(Database.open(address, **options))
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


@pytest.fixture
def database(open_database: Callable[..., Database]) -> Database:
    return open_database()


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program of child.py; whatever still runs at the end is killed."""
    children: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("child.py")), program, *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        children.append(subprocess.Popen(command, text=True, **pipes))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def race(spawn: Callable[..., subprocess.Popen[str]]) -> Callable[..., list[str]]:
    """Run the same program twice at once, from one starting signal; return what they said."""

    def run(program: str, *arguments: str) -> list[str]:
        rivals = [spawn(program, *arguments) for _ in range(2)]
        for rival in rivals:
            assert rival.stdout is not None
            assert rival.stdout.readline() == "ready\n"
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("go\n")
            rival.stdin.flush()
        said = [rival.communicate(timeout=60)[0].strip() for rival in rivals]
        assert [rival.returncode for rival in rivals] == [0, 0]
        return said

    return run
