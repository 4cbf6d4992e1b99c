"""Jobs: one of a kind at a time, watched, stopped, and ended with the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from cloister.app.console.jobs import MOST_KEPT, Job, Jobs
from cloister.core.errors import Conflict, NotFound, SettingsError


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come true")


def waiting(released: threading.Event) -> Callable[[Job], None]:
    def work(job: Job) -> None:
        while not released.wait(0.002):
            job.advance(1, 2)

    return work


def test_a_job_tells_what_it_found_and_how_it_ended() -> None:
    def work(job: Job) -> int:
        job.advance(1, 2)
        job.add("curve", 0.5)
        job.add("curve", 0.6)
        job.put("name", "x")
        job.advance(2, 2)
        return 7

    with Jobs() as jobs:
        job = jobs.start("lab", "A run", work, {"rounds": 2})
        until(lambda: not job.running)
        told = jobs.get(job.job_id).snapshot()
    assert (told["state"], told["done"], told["total"], job.result) == ("done", 2, 2, 7)
    assert told["found"] == {"curve": [0.5, 0.6], "name": "x"}
    assert told["asked"] == {"rounds": 2}


def test_one_of_a_kind_runs_at_a_time_and_two_in_all() -> None:
    released = threading.Event()
    with Jobs() as jobs:
        first = jobs.start("lab", "first", waiting(released))
        with pytest.raises(Conflict):
            jobs.start("lab", "again", waiting(released))
        jobs.start("forget", "second", waiting(released))
        with pytest.raises(Conflict):
            jobs.start("experiments", "third", waiting(released))
        released.set()
        until(lambda: not first.running)
        assert [job.title for job in jobs.of_kind("lab")] == ["first"]
    with pytest.raises(NotFound):
        jobs.get("unknown")


def test_a_job_that_is_stopped_or_whose_console_closes_ends() -> None:
    never = threading.Event()
    with Jobs() as jobs:
        stopped = jobs.start("lab", "stopped", waiting(never))
        stopped.stop()
        until(lambda: stopped.state == "stopped")
        closed = jobs.start("lab", "closed", waiting(never))
    assert closed.state == "stopped"


@pytest.mark.parametrize(
    ("error", "told"),
    [(SettingsError("too many", where="rounds", remedy="take fewer"), "too many"),
     (ZeroDivisionError("secret detail"), "zero division error")],
)  # fmt: skip
def test_a_job_that_fails_says_why_and_nothing_secret(error: Exception, told: str) -> None:
    def work(job: Job) -> None:
        raise error

    with Jobs() as jobs:
        job = jobs.start("lab", "A run", work)
        until(lambda: not job.running)
    assert job.state == "failed"
    assert told in job.error
    assert "secret" not in job.error


def test_only_so_many_that_are_over_are_kept() -> None:
    with Jobs() as jobs:
        for number in range(MOST_KEPT + 5):
            job = jobs.start("lab", str(number), lambda job: None)
            until(lambda job=job: not job.running)  # type: ignore[misc]
        assert len(jobs.of_kind("lab")) <= MOST_KEPT + 1
        assert jobs.of_kind("lab")[0].title == str(MOST_KEPT + 4)
