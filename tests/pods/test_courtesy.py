"""While somebody searches, syncs take a small share of the processor, in equal parts for pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cloister.core.deadline import within
from cloister.core.ids import PodId
from cloister.pods.courtesy import LOOK_S, SEARCHED_S, SHARE, SMALL_S, Courtesy, considerate

ANN, MALLORY = PodId("ann"), PodId("mallory")


def compute(cpu_s: float) -> None:
    ends = time.thread_time() + cpu_s
    while time.thread_time() < ends:
        pass


@contextmanager
def searches(courtesy: Courtesy) -> Iterator[None]:
    ended = threading.Event()

    def search() -> None:
        while not ended.wait(0.05):
            courtesy.note_search()

    courtesy.note_search()
    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def work(courtesy: Courtesy, pod_id: PodId, cpu_s: float) -> float:
    """Return how long a piece of work and the rest after it take."""
    began = time.monotonic()
    with courtesy.of(pod_id):
        considerate(compute)(cpu_s)
    return time.monotonic() - began


def test_long_pieces_of_work_take_the_share_and_no_more() -> None:
    courtesy, ends = Courtesy(), time.monotonic() + 5.0
    used = []

    def sync(pod_id: PodId) -> None:
        while time.monotonic() < ends:
            with within(max(0.0, ends - time.monotonic())):
                work(courtesy, pod_id, 0.1)
            used.append(0.1)

    with searches(courtesy):
        threads = [threading.Thread(target=sync, args=(PodId(f"m{n % 3}"),)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(used) <= SHARE * 5.0 + 6 * 0.1 + 0.1  # each thread begins one piece at once


def test_a_pod_that_costs_much_keeps_no_other_one_waiting() -> None:
    courtesy = Courtesy()
    with searches(courtesy):
        threading.Thread(target=work, args=(courtesy, MALLORY, 0.6), daemon=True).start()
        time.sleep(1.0)
        assert work(courtesy, ANN, 0.01) < 2.0
        courtesy.end()


def test_a_small_pod_is_synced_in_time_beside_many_that_cost_much() -> None:
    courtesy = Courtesy()
    with searches(courtesy):
        for n in range(20):
            given = (courtesy, PodId(f"m{n}"), SMALL_S + 0.05)
            threading.Thread(target=work, args=given, daemon=True).start()
        time.sleep(3.0)  # all of them rest
        began = time.monotonic()
        with courtesy.of(ANN):
            for _ in range(10):
                considerate(compute)(0.001)
        assert time.monotonic() - began < 1.0
        courtesy.end()


def test_nobody_rests_where_nobody_searches_and_not_beyond_a_deadline_or_the_end() -> None:
    courtesy = Courtesy()
    assert work(courtesy, ANN, 0.2) < 1.0
    courtesy.note_search()
    with within(0.3):
        assert work(courtesy, ANN, 0.2) < 1.0
    assert work(courtesy, ANN, 1.0) < 1.0 + SEARCHED_S + LOOK_S + 0.5  # nobody searches any more
    with searches(courtesy):
        threading.Timer(0.5, courtesy.end).start()
        assert work(courtesy, ANN, 0.3) < 1.5
