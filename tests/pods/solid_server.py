"""Real Community Solid Servers on loopback, for the tests of one run."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

VERSION: Final = "7.2.0"  # as in tools/install-solid-server
START_S: Final = 120.0
SERVER_JS: Final = "node_modules/@solid/community-server/bin/server.js"


class RunningServer(NamedTuple):
    address: str
    process: subprocess.Popen[bytes]


def installed_folder() -> Path | None:
    """Return where tools/install-solid-server put the server; None where it did not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    default = cache / "cloister" / f"solid-server-{VERSION}"
    folder = Path(os.environ.get("CLOISTER_SOLID_SERVER") or default)
    return folder if (folder / ".ready").exists() else None


def start_servers(installed: Path, data: Path, n: int, *, watched_pid: int) -> list[RunningServer]:
    """Start n servers at the same time and wait until all answer."""
    servers = [_start(installed, data / str(i), watched_pid) for i in range(n)]
    try:
        for server in servers:
            _wait_for(server)
    except BaseException:
        stop(servers)
        raise
    return servers


def stop(servers: list[RunningServer]) -> None:
    for server in servers:
        server.process.terminate()
    for server in servers:
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def _start(installed: Path, data: Path, watched_pid: int) -> RunningServer:
    data.mkdir(parents=True)
    port = _free_port()
    address = f"http://localhost:{port}/"  # by number, every request would be anonymous
    command = ["node", "--require", str(Path(__file__).with_name("loopback.js"))]
    command += [str(installed / SERVER_JS), "-p", str(port), "-b", address]
    command += ["-c", "@css:config/file.json", "-f", str(data / "files"), "-l", "warn"]
    environment = os.environ | {"WATCHED_PID": str(watched_pid), "NODE_ENV": "production"}
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=installed,
            start_new_session=True,
        )
    return RunningServer(address, process)


def _wait_for(server: RunningServer) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"the Solid server at {server.address} ended while it started")
        try:
            with urllib.request.urlopen(server.address + ".account/", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the Solid server at {server.address} did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def shared_servers(installed: Path, folder: Path, n: int, *, alone: bool) -> Iterator[list[str]]:
    """Give the addresses of servers that all workers of a run share.

    Alone, they are stopped at the end. Where several workers share them, the one that comes first
    starts them, and they end by themselves when the run does: no worker knows who is last.
    """
    if alone:
        servers = start_servers(installed, folder / "solid", n, watched_pid=os.getpid())
        try:
            yield [server.address for server in servers]
        finally:
            stop(servers)
        return
    note = folder / "solid-servers.json"
    with (folder / "solid-servers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            started = start_servers(installed, folder / "solid", n, watched_pid=os.getppid())
            note.write_text(json.dumps([server.address for server in started]))
            for server in started:
                server.process.returncode = 0  # not ours to wait for: no warning at the end
        addresses = json.loads(note.read_text())
    yield addresses
