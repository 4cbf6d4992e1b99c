"""A service that can be armed to kill itself at any point of a round; its clock can be wrong.

A file ``armed`` in the service's folder names the point, such as ``after mask_input``. When the
service dies there, the file becomes ``died after mask_input`` and says in which round, so that the
next life is a sound one. Armed with ``hold after mask_input``, it waits there once: the file
becomes ``holding``, until somebody removes it. The environment variable
``CLOCK_SHIFT_S`` shifts what Python takes for the time; TLS keeps to the machine's clock.

========================  =====================================================================
``before M``, ``after M``  a node: around the answer to the call M. After: it is on the disk, and
                           was not sent.
``inside M``               a node: all is written, and the transaction is not over
``calling M``              the coordinator: before nodes are called
``called M``               the coordinator: when their answers are there
``committing``             the coordinator: all is written, and the transaction is not over
``committed``              the coordinator: the round is on the disk, and nobody knows
``taking tables``          the broker: the file is there, the database does not know of it
``took tables``            the broker: taken, and not confirmed
``selecting``              the broker: asked to choose nodes
========================  =====================================================================
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ARMED = "armed"
HOLDING = "holding"
CLOCK = "CLOCK_SHIFT_S"


def shift_clock(seconds: float) -> None:
    """Let this process believe in another time; before anything else is imported."""
    import datetime as module

    true_time, true_datetime = time.time, module.datetime

    class AnyDatetime(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, true_datetime)

    class ShiftedDatetime(true_datetime, metaclass=AnyDatetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return true_datetime.now(tz) + module.timedelta(seconds=seconds)

    time.time = lambda: true_time() + seconds
    module.datetime = ShiftedDatetime  # type: ignore[misc]


class Trap:
    """Kills the process where the file in the service's folder says."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / ARMED

    def pass_by(self, point: str, round_number: int = -1) -> None:
        try:
            armed = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        if armed == f"hold {point}":
            holding = self._file.rename(self._file.with_name(HOLDING))
            while holding.exists():
                time.sleep(0.01)
        if armed == point:
            self._file.rename(self._file.with_name(f"died {point}"))
            self._file.with_name(f"died {point}").write_text(str(round_number), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


def lay_in_node(trap: Trap) -> None:
    from cloister.federate.engines import site_memory
    from cloister.federate.engines.site import Site

    handle, put_answer = Site.handle, site_memory._put_answer
    method, number = "", -1  # calls take turns

    def watched_handle(self: Site, call: Any) -> bytes:
        nonlocal method, number
        method, number = str(call.method), call.round_number
        trap.pass_by(f"before {method}", number)
        answer = handle(self, call)
        trap.pass_by(f"after {method}", number)
        return answer

    def watched_put(*args: Any) -> bytes:
        answer = put_answer(*args)
        trap.pass_by(f"inside {method}", number)
        return answer

    Site.handle = watched_handle  # type: ignore[method-assign]
    site_memory._put_answer = watched_put


def lay_in_coordinator(trap: Trap) -> None:
    from cloister.federate.engines.https_engine import HttpsEngine
    from cloister.federate.engines.round_log import RoundLog

    call, commit = HttpsEngine.call, RoundLog.commit

    def watched_call(self: HttpsEngine, calls: Any, timeout_s: float) -> Any:
        (method,) = {str(one.method) for one in calls.values()} or {""}
        trap.pass_by(f"calling {method}")
        replies = call(self, calls, timeout_s)
        trap.pass_by(f"called {method}")
        return replies

    def watched_commit(self: RoundLog, *args: Any, also: Any, **more: Any) -> Any:
        def then(connection: Any) -> None:
            also(connection)
            trap.pass_by("committing")

        done = commit(self, *args, also=then, **more)
        trap.pass_by("committed")
        return done

    HttpsEngine.call = watched_call  # type: ignore[method-assign]
    RoundLog.commit = watched_commit  # type: ignore[method-assign]


def lay_in_broker(trap: Trap) -> None:
    from cloister.services.broker.published_tables import PublishedTables
    from cloister.store.files import Files

    put, keep, ranked = PublishedTables.put, Files.put, PublishedTables.ranked

    def watched_put(self: PublishedTables, *args: Any) -> Any:
        held = put(self, *args)
        trap.pass_by("took tables")
        return held

    def watched_keep(self: Files, content: bytes) -> Any:
        kept = keep(self, content)
        trap.pass_by("taking tables")
        return kept

    def watched_ranked(self: PublishedTables, *args: Any) -> Any:
        trap.pass_by("selecting")
        return ranked(self, *args)

    PublishedTables.put = watched_put  # type: ignore[method-assign]
    Files.put = watched_keep  # type: ignore[method-assign]
    PublishedTables.ranked = watched_ranked  # type: ignore[method-assign]


if __name__ == "__main__":
    shift_clock(float(os.environ.get(CLOCK, "0")))
    armed_trap = Trap(Path(sys.argv[1]).parent)
    lay_in_node(armed_trap)
    lay_in_coordinator(armed_trap)
    lay_in_broker(armed_trap)
    from cloister.services.running import main

    sys.exit(main())
