"""Work that takes longer than a page: started from a form, watched, stopped, remembered.

One job of a kind runs at a time, and two in all; each in a thread of its own. A job tells how far
it is and what it has found so far, and ends early where it is told to stop.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Literal

from cloister.core.closing import Closing
from cloister.core.errors import CloisterError, Conflict, NotFound, kind_in_words

__all__ = ["Job", "JobStopped", "Jobs"]

_log: Final = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 2
MOST_KEPT: Final = 50  # of those that are over
State = Literal["running", "done", "failed", "stopped"]


class JobStopped(Exception):
    """Raised inside a job that was told to stop."""


class Job:
    """One piece of work. The thread that does it writes; others read.

    Parameters
    ----------
    kind
        The last part of the address of the page that it belongs to.
    title
        For people.
    asked
        What was chosen, for people and for the page.
    """

    def __init__(self, kind: str, title: str, asked: dict[str, Any]) -> None:
        self.job_id = secrets.token_hex(8)
        self.kind, self.title, self.asked = kind, title, asked
        self.state: State = "running"
        self.error = self.remedy = ""
        self.result: Any = None
        self._found: dict[str, Any] = {}
        self._done, self._total = 0, 0
        self._began, self._ended = time.time(), 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def advance(self, done: int, total: int) -> None:
        """Tell how much is done; raises `JobStopped` where the job is to end."""
        if self._stop.is_set():
            raise JobStopped
        self._done, self._total = done, total

    def add(self, name: str, point: Any) -> None:
        """Add something that was found, at the end of a list of that name."""
        with self._lock:
            self._found.setdefault(name, []).append(point)

    def put(self, name: str, value: Any) -> None:
        """Set something that was found."""
        with self._lock:
            self._found[name] = value

    def stop(self) -> None:
        """Tell the job to end; it does so at the next `advance`."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self.state == "running"

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return (self._ended or time.time()) - self._began

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        with self._lock:
            found = {
                name: list(value) if isinstance(value, list) else value
                for name, value in self._found.items()
            }
        return {
            "job_id": self.job_id,
            "kind": self.kind,
            "title": self.title,
            "asked": self.asked,
            "state": self.state,
            "running": self.running,
            "done": self._done,
            "total": self._total,
            "seconds": round(self.seconds, 1),
            "error": self.error,
            "remedy": self.remedy,
            "found": found,
        }

    def run(self, work: Callable[[Job], Any]) -> None:
        """Do the work in this thread, and note how it ended."""
        try:
            self.result = work(self)
            state: State = "done"
        except JobStopped:
            state = "stopped"
        except CloisterError as error:
            self.error, self.remedy, state = error.message, error.remedy, "failed"
        except Exception as error:  # a defect of ours: told, and in the log
            _log.exception("a job failed")
            self.error, self.remedy, state = kind_in_words(error), "see the log", "failed"
        self._ended = time.time()
        self.state = state


class Jobs(Closing):
    """All jobs of a console. Threads may share it; closing stops those that run."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(
        self, kind: str, title: str, work: Callable[[Job], Any], asked: dict[str, Any] | None = None
    ) -> Job:
        """Begin a job; raise `Conflict` where one of its kind, or too much, is at work."""
        with self._lock:
            running = [job for job in self._jobs.values() if job.running]
            if any(job.kind == kind for job in running):
                raise Conflict("one is under way", where=title, remedy="wait for it, or stop it")
            if len(running) >= MOST_AT_ONCE:
                raise Conflict("too much is under way", where=title, remedy="wait, or stop a job")
            job = Job(kind, title, asked or {})
            self._jobs[job.job_id] = job
            self._drop_oldest()
            thread = threading.Thread(target=job.run, args=(work,), name=kind, daemon=True)
            self._threads[job.job_id] = thread
            thread.start()
        return job

    def get(self, job_id: str) -> Job:
        """Return a job by its id."""
        with self._lock:
            if job_id not in self._jobs:
                raise NotFound("no such job", remedy="begin one")
            return self._jobs[job_id]

    def of_kind(self, kind: str) -> list[Job]:
        """Return the jobs of a kind, newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.kind == kind]

    def close(self) -> None:
        """Stop all jobs and wait for them."""
        with self._lock:
            jobs, threads = list(self._jobs.values()), list(self._threads.values())
        for job in jobs:
            job.stop()
        for thread in threads:
            thread.join(10.0)

    def _drop_oldest(self) -> None:
        over = [job_id for job_id, job in self._jobs.items() if not job.running]
        for job_id in over[: max(0, len(over) - MOST_KEPT)]:
            del self._jobs[job_id], self._threads[job_id]
