"""A service as a program: ``python -m cloister.services.running FILE``.

The file says which service it is (`cloister.services.service_file`). The first line of output has
the address, once connections are taken; SIGTERM and SIGINT end it, and a kill loses nothing. With
``--tied`` it also ends when its standard input does: a pipe that the process which started it holds
ends with that process, however it ends.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import APIRouter, FastAPI

from cloister.core.errors import CloisterError
from cloister.services.broker.published_tables import PublishedTables
from cloister.services.broker.routes import broker_router
from cloister.services.coordinator.coordinator import opened_coordinator
from cloister.services.coordinator.routes import coordinator_router
from cloister.services.disk_room import has_room
from cloister.services.figures import broker_figures, coordinator_figures, node_figures
from cloister.services.ledger_routes import ledger_router
from cloister.services.membership import known_to
from cloister.services.node.node import Node, opened_node
from cloister.services.node.routes import node_router
from cloister.services.service_file import (
    BrokerFile,
    CoordinatorServiceFile,
    NodeFile,
    ServiceFile,
    read_service_file,
)
from cloister.services.sole_process import sole_process
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.web.callers import Caller
from cloister.web.logs import configure_logs
from cloister.web.metrics import ServiceMetrics
from cloister.web.service import make_service
from cloister.web.serving import serve

__all__ = ["Running", "main", "opened_service", "run_service"]

_STANDARD_INPUT: Final = 0
_READ_BYTES: Final = 4096
MOST_FILES: Final = 65_536  # that a service opens at a time
_SYNC_LOOK_S: Final = 1.0  # between two looks at which pods are due
_STOP_S: Final = 5.0  # that a thread has for ending
_log: Final = logging.getLogger(__name__)


class Running(NamedTuple):
    """What one kind of service is made of.

    Parameters
    ----------
    routers
        Its addresses.
    ready
        What it needs, and whether that is there.
    metrics
        Its figures.
    identify
        Whose tokens it believes; nobody's unless given.
    """

    routers: Sequence[APIRouter]
    ready: Callable[[], dict[str, bool]]
    metrics: ServiceMetrics
    identify: Callable[[str], Caller] | None = None


@contextmanager
def opened_service(file: ServiceFile) -> Iterator[FastAPI]:
    """Give the service that a file describes, with its threads at work."""
    roster = file.opened_roster()
    with _running(file) as running:
        yield make_service(
            f"Cloister {file.kind}",
            federation=roster.name,
            identify=running.identify,
            known=known_to(file, roster),
            limits=file.limits,
            ready=lambda: running.ready() | {"room": has_room(file)},
            metrics=running.metrics,
            routers=running.routers,
        )


def run_service(
    path: str | Path,
    *,
    listening: Callable[[str], None] | None = None,
    stopping: threading.Event | None = None,
) -> None:
    """Serve until the process is told to end."""
    file = read_service_file(path)
    configure_logs(file.name)
    _open_many_files()
    with sole_process(Path(path).absolute()), opened_service(file) as service:
        gc.collect()
        gc.freeze()  # what is there stays: to look at it again and again would stop all for 0.1 s
        serve(
            service,
            host=file.host,
            port=file.port,
            tls=file.tls,
            limits=file.limits,
            listening=listening,
            stopping=stopping,
        )


def _open_many_files() -> None:
    """Let this process open as many files as it may: each exchange with a pod takes three."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, wanted), most))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a service from the command line."""
    parser = argparse.ArgumentParser(description="Run a node, a broker or a coordinator.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--tied", action="store_true", help="end when standard input ends")
    given = parser.parse_args(arguments)
    try:
        stopping = _end_of_input() if given.tied else None
        run_service(given.file, listening=_announce, stopping=stopping)
    except CloisterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


@contextmanager
def _running(file: ServiceFile) -> Iterator[Running]:
    if isinstance(file, NodeFile):
        with opened_node(file) as node:
            node.warm_up()
            with _looked_after(node, file.refresh_s):
                routers = [node_router(node), ledger_router(node.ledger)]
                metrics = ServiceMetrics()
                node_figures(metrics, node)
                yield Running(routers, node.ready, metrics, node.tokens.identify)
    elif isinstance(file, CoordinatorServiceFile):
        with opened_coordinator(file) as coordinator:
            coordinator.start()
            routers = [coordinator_router(coordinator), ledger_router(coordinator.ledger)]
            metrics = ServiceMetrics()
            coordinator_figures(metrics, coordinator)
            yield Running(routers, coordinator.ready, metrics)
    elif isinstance(file, BrokerFile):
        with Database.open(file.state) as database:
            tables = PublishedTables(database, Files(file.files), form=file.publishing.form)
            router = broker_router(tables)
            metrics = ServiceMetrics()
            broker_figures(metrics, tables)
            yield Running([router], lambda: {"database": database.answers()}, metrics)


@contextmanager
def _looked_after(node: Node, every_s: float) -> Iterator[None]:
    """Do what is due at a node, again and again, until the end.

    What asks other services and what begins syncs have a thread each. At the end all exchanges with
    pods are cut off, so that no pod keeps the node from stopping; whoever is still at work after
    some seconds is left behind.
    """
    stop = threading.Event()
    duties = [(node.look_after, every_s), (node.sync_due_pods, min(every_s, _SYNC_LOOK_S))]
    threads = [
        threading.Thread(target=_repeat, args=(*duty, stop), name="look-after", daemon=True)
        for duty in duties
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        node.let_go_of_pods()
        for thread in threads:
            thread.join(_STOP_S)


def _repeat(duty: Callable[[], None], every_s: float, stop: threading.Event) -> None:
    while True:
        try:
            duty()
        except Exception:  # whatever it is, the next look may pass
            _log.exception("looking after the node failed")
        if stop.wait(every_s):
            return


def _end_of_input() -> threading.Event:
    """Return what is set when standard input ends."""
    ended = threading.Event()

    def read() -> None:
        # Not sys.stdin: its lock, held in a read, would keep the interpreter from ending.
        while os.read(_STANDARD_INPUT, _READ_BYTES):
            pass
        ended.set()

    threading.Thread(target=read, name="end-of-input", daemon=True).start()
    return ended


def _announce(address: str) -> None:
    sys.stdout.write(json.dumps({"address": address}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
