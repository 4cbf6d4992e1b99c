"""A provisioned NVFlare federation of three sites on this machine, with processes to kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.federate.engines.nvflare.kit_processes import kit_process, start_kit, stop_kit
from cloister.federate.engines.nvflare.kits import KitProject, Kits, link_files, make_kits
from federate.engines.made_files import NAMES, write_federation

TIMEOUT_S = 3.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class LoggedModel(NamedTuple):
    """A round as the coordinator's database has it."""

    n_rounds: int
    model: NDArray[np.float64]
    sites: tuple[str, ...]


class NvflareScene:
    """Kits whose files are links to those of one folder; every process is ended by its number."""

    def __init__(self, folder: Path, *, n_rounds: int) -> None:
        self.files = folder / "files"
        write_federation(self.files, n_rounds=n_rounds, timeout_s=TIMEOUT_S)
        self.kits: Kits = make_kits(folder / "kits", KitProject(sites=NAMES, port=free_port()))
        link_files(self.kits, self.files)
        self._news = folder / "news.log"
        self._news.touch()
        self._beside: subprocess.Popen[bytes] | None = None

    @property
    def all_kits(self) -> tuple[Path, ...]:
        """The kits that have processes, the server's first."""
        return (self.kits.server, *self.kits.sites.values())

    def start(self) -> None:
        for kit in self.all_kits:
            start_kit(kit)

    def stop(self) -> None:
        if self._beside is not None:
            self._beside.kill()
            self._beside.wait()
        for kit in reversed(self.all_kits):
            stop_kit(kit)
            for worker in _with_folder(kit):
                os.kill(worker, signal.SIGKILL)

    def command(self, *words: str | Path, seconds: float = 100.0) -> dict[str, Any]:
        """Run a command of Cloister's to its end; return its result."""
        with self._news.open("ab") as news:
            done = subprocess.run(
                _cloister(*words, "--json"), stdout=-1, stderr=news, timeout=seconds, check=True
            )
        return dict(json.loads(done.stdout))

    def train_beside(self) -> None:
        """Train in a process of its own, until the scene stops."""
        with self._news.open("ab") as news:
            words = _cloister(*self._train_words())
            self._beside = subprocess.Popen(words, stdout=news, stderr=news)

    def _train_words(self) -> list[str | Path]:
        roster = self.files / "roster.json"
        return ["train", self.kits.operator, "--roster", roster, "--rejoin", "5"]

    @property
    def news(self) -> list[dict[str, Any]]:
        """What the supervisors have told."""
        lines = self._news.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def n_events(self, event: str) -> int:
        return sum(one["event"] == event for one in self.news)

    def rounds(self) -> list[LoggedModel]:
        """Return what the coordinator has written down."""
        query = "SELECT n_rounds, model, sites FROM cloister_federation_round ORDER BY n_rounds"
        try:
            address = f"file:{self.files}/coordinator.db?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as database:
                found = database.execute(query).fetchall()
        except sqlite3.OperationalError:  # no file yet, or no table
            return []
        return [
            LoggedModel(n, np.frombuffer(model, "<f8"), tuple(json.loads(sites)))
            for n, model, sites in found
        ]

    def last(self) -> LoggedModel:
        return (self.rounds() or [LoggedModel(0, np.zeros(0), ())])[-1]

    def wait_for(self, what: Callable[[], bool], seconds: float) -> float:
        """Wait until something is so; return how long it took."""
        begin = time.monotonic()
        while not what():
            if time.monotonic() - begin > seconds:
                raise TimeoutError(f"not so after {seconds} s; the news: {self.news[-5:]}")
            time.sleep(0.1)
        return time.monotonic() - begin

    def wait_for_round_of(self, n_sites: int, seconds: float) -> float:
        """Wait for a new round of so many sites."""
        now = self.last().n_rounds
        return self.wait_for(
            lambda: self.last().n_rounds > now and len(self.last().sites) == n_sites, seconds
        )

    def left_over(self) -> list[int]:
        """Return all processes of kits that still run."""
        return [pid for kit in self.all_kits for pid in _with_folder(kit)]

    def kill_process(self, kit: Path) -> None:
        """Kill a kit's process, not its keeper and not its worker."""
        process = kit_process(kit).process
        assert process is not None
        os.kill(process, signal.SIGKILL)

    def kill_worker(self, kit: Path) -> None:
        """Kill the process in which the job runs."""
        process = kit_process(kit)
        workers = [pid for pid in _with_folder(kit) if pid not in process]
        assert len(workers) == 1
        os.kill(workers[0], signal.SIGKILL)

    def kill_everything(self, kit: Path) -> None:
        """Kill keeper, process and worker: as if the machine were gone."""
        for pid in _with_folder(kit):
            os.kill(pid, signal.SIGKILL)


def _cloister(*words: str | Path) -> list[str]:
    program = "from cloister.app.nvflare_commands import app; app()"
    return [sys.executable, "-c", program, *map(str, words)]


def _with_folder(kit: Path) -> list[int]:
    """Return the processes whose command names a kit's folder, the keeper first."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(kit) in words:
            found.append(int(path.parent.name))
    return sorted(found)
