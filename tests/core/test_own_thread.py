from __future__ import annotations

import contextvars
import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from cloister.core import own_thread
from cloister.core.own_thread import in_own_thread


def test_what_hangs_holds_up_nobody_and_threads_are_used_again() -> None:
    release = threading.Event()
    hanging = [in_own_thread(release.wait, "hangs") for _ in range(5)]
    names = {in_own_thread(threading.get_ident, "one").result(5) for _ in range(50)}
    assert len(names) <= 3  # one after the other
    assert not any(one.done() for one in hanging)
    release.set()
    assert all(one.result(5) for one in hanging)


def test_an_error_reaches_who_waits_and_the_thread_goes_on() -> None:
    for _ in range(3):
        with pytest.raises(KeyError):
            in_own_thread(lambda: {}["a"], "fails").result(5)


def test_nothing_of_the_work_before_is_left() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def change() -> tuple[int, str]:
        found = variable.get()
        variable.set(1)
        return found, threading.current_thread().name

    found = [in_own_thread(change, f"name-{n}").result(5) for n in range(9)]
    assert found == [(0, f"name-{n}") for n in range(9)]

    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)
    in_own_thread(partial(id, large), "holds").result(5)
    del large
    time.sleep(0.1)
    gc.collect()
    assert gone() is None


def test_idle_threads_end_and_work_that_comes_meanwhile_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_thread, "IDLE_S", 0.001)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: in_own_thread(lambda: n, "races").result(5), range(3_000))
        assert list(found) == list(range(3_000))
    time.sleep(0.1)
    assert not any(thread.name == "races" for thread in threading.enumerate())


def test_a_fork_begins_without_threads() -> None:
    in_own_thread(int, "before").result(5)
    child = os.fork()
    if not child:
        try:
            os._exit(in_own_thread(lambda: 7, "after").result(5))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
