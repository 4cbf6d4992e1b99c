"""Work in a thread of its own: nobody waits behind it, and the program may end meanwhile.

Python cannot end a thread. What may hang gets its own, so that it holds up no shared one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["in_own_thread"]

T = TypeVar("T")


def in_own_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Start a thread for one piece of work and return its result to come.

    Examples
    --------
    >>> in_own_thread(lambda: 6 * 7, "sum").result()
    42
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name=name, daemon=True).start()
    return future
