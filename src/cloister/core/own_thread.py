"""Work in a thread of its own: nobody waits behind it, and the program may end meanwhile.

Python cannot end a thread. What may hang gets its own, so that it holds up no shared one. A thread
that has done its work takes the next for which one is needed, or ends after some seconds.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

__all__ = ["in_own_thread"]

T = TypeVar("T")
IDLE_S: Final = 5.0
_Tasks = SimpleQueue[tuple[Callable[[], None], str]]
_idle: Final[deque[_Tasks]] = deque()  # of threads without work; the last to come is first to go


def in_own_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Do one piece of work in a thread and return its result to come.

    Examples
    --------
    >>> in_own_thread(lambda: 6 * 7, "sum").result()
    42
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            found = Context().run(work)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    future.set_running_or_notify_cancel()
    try:
        tasks = _idle.pop()
    except IndexError:
        tasks = SimpleQueue()
        threading.Thread(target=_work, args=(tasks,), daemon=True).start()
    tasks.put((run, name))
    return future


def _work(tasks: _Tasks) -> None:
    """Do what comes, until nothing does."""
    thread = threading.current_thread()
    while True:
        try:
            run, thread.name = tasks.get(timeout=IDLE_S)
        except Empty:
            try:
                _idle.remove(tasks)
            except ValueError:  # somebody has just taken this thread
                continue
            return
        run()
        del run  # and all that it holds
        _idle.append(tasks)


os.register_at_fork(after_in_child=_idle.clear)
