"""What one search asks of pods, and what it leaves behind at their gates."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pytest

from cloister.core.deadline import within
from cloister.core.errors import DataError, StoreError
from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import Reader
from cloister.pods import pod_reading
from cloister.pods.datastore import RightsMoment
from cloister.pods.pod_gate import PodGate
from cloister.pods.pod_reading import GuardedReading, PodFinding, ReadablePod, ReadersPod
from cloister.search.shard_node import TextsRead

ANN, NOTES = Reader(AgentId("ann")), PodId("notes")


class Everybody(RightsMoment):
    def may_read(self, doc_id: DocId, reader: Reader) -> bool:
        return True


class OnePod(PodFinding):
    """One pod, whose documents say what happens when they are read."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.gate = PodGate(NOTES, read_rate=10.0, clock=lambda: self.now_s)
        self.asked: list[str] = []

    def now(self) -> RightsMoment:
        return Everybody()

    def text(self, doc_id: DocId) -> str:
        self.asked.append(doc_id)
        if doc_id.startswith("unreadable"):
            raise DataError("cannot be read")
        if doc_id.startswith("late"):
            raise StoreError("no child process was free in time")
        if doc_id.startswith("costly"):
            began = time.thread_time()
            while time.thread_time() < began + 0.1:
                pass
        return f"text of {doc_id}"

    def pods(self, pod_ids: Iterable[PodId]) -> dict[PodId, ReadablePod]:
        pod: Any = self
        readable = ReadablePod(lambda: ReadersPod(pod, ANN), self.gate, is_folder=False)
        return dict.fromkeys(pod_ids, readable)

    def away(self) -> frozenset[PodId]:
        return frozenset()

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        return self.gate.is_aside(doc_id)

    def n_aside(self) -> int:
        return self.gate.n_aside()

    def read(self, *names: str) -> TextsRead:
        with within(2.0):
            return GuardedReading(self).read([(DocId(name), NOTES) for name in names])

    def n_saved(self) -> float:
        """Return how many documents searches may still ask for, once the last one has ended."""
        until = time.monotonic() + 5
        while self.gate._n_searches and time.monotonic() < until:
            time.sleep(0.001)
        return 10 * self.gate._saved_s


def test_what_cannot_be_read_is_not_asked_for_again_and_costs_nothing_then() -> None:
    pod = OnePod()
    assert set(pod.read("a", "unreadable").texts) == {"a"}
    assert pod.n_saved() == pytest.approx(298)
    assert pod.read("a", "unreadable").away == frozenset()
    assert pod.n_saved() == pytest.approx(297)
    assert sorted(pod.asked) == ["a", "a", "unreadable"]
    pod.now_s += 61
    pod.read("a", "unreadable")
    assert pod.asked.count("unreadable") == 2


def test_what_a_busy_machine_did_not_read_is_asked_for_again_and_its_pod_is_named() -> None:
    pod = OnePod()
    for n in range(1, 4):
        found = pod.read("a", "b", "late")
        assert (set(found.texts), found.away) == ({"a", "b"}, {NOTES})
        assert pod.asked.count("late") == n
    assert pod.gate.n_aside() == 0
    assert pod.gate.state().state == "closed"


def test_a_document_that_takes_long_counts_as_several() -> None:
    pod = OnePod()
    pod.read("costly 1", "costly 2")
    assert 300 - 2 * 30 < pod.n_saved() < 300 - 2 * 19


def test_where_no_thread_can_be_started_the_search_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pod, n_started, n_before = OnePod(), 0, threading.active_count()
    start = pod_reading.in_own_thread

    def few(work: Any, name: str) -> Future[Any]:
        nonlocal n_started
        n_started += 1
        if n_started > most:
            raise RuntimeError("can't start new thread")
        return start(work, name)

    monkeypatch.setattr(pod_reading, "in_own_thread", few)
    for most in (0, 1, 2):
        n_started = 0
        found = pod.read(*"abcdef")
        assert len(found.texts) == (6 if most else 0)
        assert found.away == {NOTES}
    assert pod.n_saved() == pytest.approx(300 - 12)
    assert not pod.gate._n_searches
    assert threading.active_count() < n_before + 10
