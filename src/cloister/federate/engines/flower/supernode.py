"""A site's SuperNode: Flower's program, kept running on loopback beside the site's own process."""

from __future__ import annotations

import logging
import socket
import sysconfig
import time
from pathlib import Path
from typing import Final

from cloister.core.errors import MissingDependency
from cloister.federate.engines.flower.flower_folder import FlowerFolder
from cloister.federate.engines.flower.processes import end_program, find_program, start_program

__all__ = ["SUPERNODE", "SuperNode", "flower_environment", "flower_script"]

SUPERNODE: Final = "supernode"  # the program's name in a folder
LOOPBACK: Final = "127.0.0.1"
AGAIN_S: Final = 10.0  # between two starts
_log: Final = logging.getLogger(__name__)


class SuperNode:
    """Keeps a SuperNode running.

    A SuperLink lets a SuperNode that was killed come back only when it has missed it for a minute;
    until then each start ends by itself.

    Parameters
    ----------
    folder
        The site's.
    """

    def __init__(self, folder: FlowerFolder) -> None:
        self._folder = folder
        self._began_s = float("-inf")
        self.address: Final = f"{LOOPBACK}:{_free_port()}"
        self.end()  # of a site's process that was killed

    def keep(self) -> None:
        """Start it, unless it runs, or was started a moment ago."""
        if find_program(self._folder.running, SUPERNODE):
            return
        now = time.monotonic()
        if now - self._began_s > AGAIN_S:
            self._began_s = now
            self._start()

    def end(self) -> None:
        """End it."""
        end_program(self._folder.running, SUPERNODE)

    def _start(self) -> None:
        folder = self._folder
        command = [
            flower_script("flower-supernode"),
            *("--superlink", folder.settings.address, "--root-certificates", str(folder.ca)),
            *("--auth-supernode-private-key", str(folder.node_key)),
            *("--host", LOOPBACK, "--port", self.address.rpartition(":")[2]),
            *("--isolation", "process", "--superexec-auth-secret-file", str(folder.secret)),
        ]
        started = start_program(folder.running, SUPERNODE, command, flower_environment(folder))
        _log.info("SuperNode at %s, pid %d", self.address, started.pid)


def flower_environment(folder: FlowerFolder) -> dict[str, str]:
    """Keep Flower at home: no telemetry, no question about updates, its files in the folder."""
    home = folder.path / "flower"
    home.mkdir(mode=0o700, exist_ok=True)
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(home.resolve()),
    }


def flower_script(name: str) -> str:
    """Return the path of one of Flower's programs, beside this Python."""
    path = Path(sysconfig.get_path("scripts"), name)
    if not path.exists():
        raise MissingDependency(
            "Flower's program is not beside Python",
            where=str(path),
            remedy="install cloister[engines]",
        )
    return str(path)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        return int(listening.getsockname()[1])
