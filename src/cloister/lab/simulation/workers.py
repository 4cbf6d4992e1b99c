"""Runs side by side, each in a process of its own: one that fails or dies stops no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from cloister.core.errors import CloisterError
from cloister.core.file_errors import refused_remedy
from cloister.lab.simulation.run import Advance, silent

__all__ = ["Job", "RunFailure", "Work", "do_job", "in_processes"]

REPORT_EVERY_S: Final = 0.1  # rounds may take microseconds; people read more slowly


class Work(Protocol):
    """Something that a process of its own can do: a run, or a measurement."""

    @property
    def rounds(self) -> int:
        """How long it is, in the steps of which it tells."""

    def carry_out(self, folder: Path, *, position: int, threads: int, advance: Advance) -> None:
        """Do it, and keep the results in a prepared folder."""


W = TypeVar("W", bound=Work)


class Job(NamedTuple, Generic[W]):
    """A run to be done, and where it stands in its grid."""

    position: int
    run: W


class RunFailure(NamedTuple, Generic[W]):
    """A run that failed: why, what to do about it, and for a defect of ours where it arose."""

    run: W
    error: str
    remedy: str
    trace: str = ""


class Event(NamedTuple, Generic[W]):
    """What a job has to tell: rounds done so far, and at its end how that was."""

    job: Job[W]
    rounds: int
    ended: bool = False
    failure: RunFailure[W] | None = None


def do_job(
    job: Job[W], folder: Path, *, threads: int, advance: Advance | None = None
) -> RunFailure[W] | None:
    """Do a run and keep its results; return why that failed, if it did."""
    try:
        job.run.carry_out(folder, position=job.position, threads=threads, advance=advance or silent)
    except CloisterError as error:
        return RunFailure(job.run, error.message, error.remedy)
    except OSError as error:  # the machine's word, not a defect of ours
        place = f"{error.filename}: " if error.filename else ""
        return RunFailure(job.run, f"{place}{error.strerror or error}", refused_remedy(error))
    except MemoryError:
        return RunFailure(job.run, "not enough memory", "use fewer workers, or smaller settings")
    except Exception as error:
        return RunFailure(
            job.run,
            f"{type(error).__name__}: {error}",
            "this is a defect in Cloister: please report it with the lines above",
            traceback.format_exc(),
        )
    return None


def in_processes(
    jobs: Sequence[Job[W]], folder: Path, *, workers: int, threads: int
) -> Generator[Event[W], None, None]:
    """Do all jobs in some processes of so many threads each; yield what happens.

    All processes are gone when the iterator is closed.
    """
    waiting = deque(jobs)
    at_work: list[_Worker[W]] = []
    try:
        while waiting or at_work:
            while waiting and len(at_work) < workers:
                with _interrupts_held():
                    at_work.append(_Worker(folder, threads, waiting.popleft()))
            ready = wait([worker.connection for worker in at_work])
            for worker in [worker for worker in at_work if worker.connection in ready]:
                event = worker.receive()
                yield event
                if event.ended and not worker.take(waiting):
                    at_work.remove(worker)
    finally:
        for worker in at_work:
            worker.end()


class _Worker(Generic[W]):
    """A process, its end of the line, and the job that it has."""

    def __init__(self, folder: Path, threads: int, job: Job[W]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.job = job
        self._process = context.Process(target=_work, args=(theirs, folder, threads), daemon=True)
        with _linear_algebra_on(threads):
            self._process.start()
        theirs.close()  # else the end of the process would not end the line
        self.connection.send(job)

    def receive(self) -> Event[W]:
        try:
            rounds, ended, failure = self.connection.recv()
            return Event(self.job, rounds, ended, failure)
        except (EOFError, OSError):
            return Event(self.job, 0, True, self._died())

    def take(self, waiting: deque[Job[W]]) -> bool:
        """Begin another job, if there is one and the process lives; else end the process."""
        if not waiting or self.connection.closed:
            self.end()
            return False
        self.job = waiting.popleft()
        self.connection.send(self.job)
        return True

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()

    def _died(self) -> RunFailure[W]:
        self._process.join()
        self.connection.close()
        code = self._process.exitcode or 0
        why = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return RunFailure(
            self.job.run,
            f"the process that ran it died ({why})",
            "if memory ran out, use fewer workers; then run the same command again",
        )


@contextmanager
def _linear_algebra_on(threads: int) -> Iterator[None]:
    """Let a process that is started here use so many threads for matrices, and not every core."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = before or str(threads)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C back until the end; a process that is started here will never see it.

    The parent decides when its workers end. A mask alone would not hold signals back here: threads
    of other libraries may take them.
    """
    resource_tracker.ensure_running()  # else it is started in between, and lets signals through
    held: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda *_: held.append(1)) if in_main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if in_main:
            signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)


def _work(connection: Connection, folder: Path, threads: int) -> None:
    """Do the jobs that come down the line."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        job: Job[Work] = connection.recv()
        failure = do_job(job, folder, threads=threads, advance=_reporter(connection))
        connection.send((job.run.rounds, True, failure))


def _reporter(connection: Connection) -> Callable[[int, int], None]:
    last = time.monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY_S:
            last = time.monotonic()
            connection.send((done, False, None))

    return advance


def _leave_with_parent() -> None:
    """End this process when its parent is gone, however that went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
