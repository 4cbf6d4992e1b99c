"""Asks pods whether a reader may read some documents now, each pod apart from the others.

Each pod on a server gets threads of its own. Folders are read by one thread, since threads take
longer than most folders; where one hangs, another thread goes on with the next. What hangs keeps
nobody waiting but those who asked for its documents, and these only until the deadline.

A document's rights hold before and after its text is read; of a kept text, its version holds before
and after the rights are looked at. What documents of a pod inherit is looked at once before the
first of them is read, and once after the last.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from cloister.core.deadline import time_left, within
from cloister.core.errors import AccessDenied, DataError, NotFound, StoreError
from cloister.core.ids import DocId, PodId
from cloister.core.own_thread import in_own_thread
from cloister.core.rights import Reader
from cloister.pods.datastore import Datastore, RightsMoment, refused
from cloister.pods.pod_gate import PodAway, PodGate, SearchTally
from cloister.pods.text_store import TextStore
from cloister.search.shard_node import PodReading, TextsRead

__all__ = ["CONFIRM_S", "GuardedReading", "ReadablePod", "ReadersPod"]

T = TypeVar("T")
CONFIRM_S: Final = 1.0  # for all pods together that are asked at a time
LONGEST_S: Final = 3600.0
N_THREADS: Final = 4  # for one pod and one answer
PATIENCE_S: Final = 0.1  # with a folder, before another thread goes on with the next
DRAFT_PART: Final = 2 / 3  # of the time; the rest is for looking at the rights again
KEPT_PART: Final = 0.4  # where texts are kept
DOCUMENT_S: Final = 0.005  # of processors; what takes longer counts as several documents
_log: Final = logging.getLogger(__name__)


class Draft(NamedTuple):
    """A text that may be shown if `ReadersPod.check` agrees; its version where it was kept."""

    doc_id: DocId
    text: str
    version: str = ""


class ReadersPod(NamedTuple):
    """A pod as one reader reads it.

    Parameters
    ----------
    store
        The pod.
    texts
        Kept texts; None where there are none.
    """

    store: Datastore
    reader: Reader
    texts: TextStore | None = None

    def text(self, doc_id: DocId) -> str:
        """Return a text if the reader may read it now, else raise."""
        draft = self.draft(doc_id, self.store.now(), is_whole=True)
        self.check(draft, self.store.now())
        return draft.text

    def draft(self, doc_id: DocId, before: RightsMoment, *, is_whole: bool = False) -> Draft:
        """Read a text: a kept one, or at the pod if the reader may read it; else raise.

        Parameters
        ----------
        is_whole
            Whether the beginning of a kept text is not enough.
        """
        if self.texts is not None:
            version = self.store.version(doc_id)
            kept = (self.texts.text if is_whole else self.texts.beginning)(doc_id, version)
            if kept is not None:
                return Draft(doc_id, kept, version)
        if not before.may_read(doc_id, self.reader):
            raise refused()
        return Draft(doc_id, self.store.text(doc_id))

    def check(self, draft: Draft, after: RightsMoment) -> None:
        """Raise unless a text may be shown.

        A kept text must be the document's before and after its reader's rights are looked at: who
        gets a right to a document gets none to what it was before.
        """
        if not after.may_read(draft.doc_id, self.reader):
            raise refused()
        if draft.version and self.store.version(draft.doc_id) != draft.version:
            raise refused()


class ReadablePod(NamedTuple):
    """A pod before it is opened, which may take long, and its gate.

    Parameters
    ----------
    is_folder
        Whether one thread reads it, and passes the gate once for all documents. A server's client
        passes it for each request.
    """

    opened: Callable[[], ReadersPod]
    gate: PodGate
    is_folder: bool


class PodFinding(Protocol):
    """Finds pods for one reader; the registry does."""

    def pods(self, pod_ids: Iterable[PodId]) -> dict[PodId, ReadablePod]:
        """Return those of some pods that there are."""

    def away(self) -> frozenset[PodId]:
        """Return the pods that are not asked at the moment."""

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        """Say whether a document is known not to be fit to be shown at the moment."""

    def n_aside(self) -> int:
        """Return how many documents are known not to be."""


class GuardedReading(PodReading):
    """Reads texts as one reader.

    Parameters
    ----------
    pods
        Where documents lie.
    timeout_s
        For all pods together that are asked at a time.
    """

    def __init__(self, pods: PodFinding, timeout_s: float = CONFIRM_S) -> None:
        self._pods = pods
        self._timeout_s = timeout_s

    @property
    def timeout_s(self) -> float:
        """How long the pods may take each time that some are asked; twice as long in all."""
        return self._timeout_s

    def away(self) -> frozenset[PodId]:
        """Return the pods that are not asked at the moment."""
        return self._pods.away()

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        """Say whether a document is known not to be fit to be shown at the moment."""
        return self._pods.is_aside(doc_id, pod_id)

    def n_aside(self) -> int:
        """Return how many documents are known not to be."""
        return self._pods.n_aside()

    def read(self, documents: Sequence[tuple[DocId, PodId]]) -> TextsRead:
        """Ask for texts, all pods at once."""
        by_pod: dict[PodId, list[DocId]] = {}
        for doc_id, pod_id in documents:
            by_pod.setdefault(pod_id, []).append(doc_id)
        asked = {
            pod_id: _Asked(pod, by_pod[pod_id]) for pod_id, pod in self._pods.pods(by_pod).items()
        }
        for one in asked.values():
            if not one.is_folder:
                one.begin()
        _read_folders(deque(one for one in asked.values() if one.is_folder))
        texts: dict[DocId, str] = {}
        away = frozenset(pod_id for pod_id, one in asked.items() if not one.wait_for(texts))
        return TextsRead(texts, away)


def _read_folders(waiting: deque[_Asked]) -> None:
    """Read folders in one thread; where it hangs, another one goes on with the next folder."""

    def work(left_s: float) -> None:
        with within(left_s), suppress(IndexError):  # another thread was faster
            while waiting:
                waiting.popleft().run()

    while waiting and time_left():
        reading, n_waiting = in_own_thread(partial(work, time_left()), "pod-folders"), -1
        while not reading.done() and n_waiting != len(waiting):
            n_waiting = len(waiting)
            wait([reading], min(time_left(), PATIENCE_S))


class _Asked:
    """One pod, asked for some documents in threads of its own."""

    def __init__(self, pod: ReadablePod, documents: Sequence[DocId]) -> None:
        self._pod, self._documents = pod, documents
        self._texts: dict[DocId, str] = {}
        self._tally = SearchTally()
        self._lock = threading.Lock()
        self._n_threads = 0
        self._begun: list[DocId] = []
        self._began = math.inf
        self._answered: Future[bool] = Future()

    @property
    def is_folder(self) -> bool:
        """Whether the pod is a folder."""
        return self._pod.is_folder

    def begin(self) -> None:
        """Ask in threads of its own."""
        self._began = time.monotonic()
        if self._pod.gate.begin_search():
            self._answered = self._start(self._ask)
        else:
            self._answered.set_result(False)

    def run(self) -> None:
        """Ask in this thread, in one of the folder's slots: where it hangs, it keeps no more."""
        self._began = time.monotonic()
        answered = False
        if self._pod.gate.begin_search():
            self._n_threads += 1
            answered = self._charged(self._ask_in_slot, time_left())
        self._answered.set_result(answered)

    def wait_for(self, texts: dict[DocId, str]) -> bool:
        """Take over what came in time; say whether the pod answered for all."""
        if not self._answered.done():
            wait([self._answered], min(time_left(), self._patience_left(), LONGEST_S))
        is_done = self._answered.done()
        texts |= dict(self._texts)
        if is_done:
            return self._answered.result()
        gate = self._pod.gate
        if self.is_folder and time.monotonic() - self._began > gate.slow_s:
            with self._tally.counting():  # a server's exchanges count themselves
                gate.complain()
        return False

    def _patience_left(self) -> float:
        return max(0.0, self._began + self._pod.gate.patience_s - time.monotonic())

    def _ask_in_slot(self) -> bool:
        try:
            self._pod.gate.enter()
        except PodAway:
            return False
        try:
            return self._ask()
        finally:
            self._pod.gate.leave(failed=False)

    def _ask(self) -> bool:
        opened: list[ReadersPod] = []
        if not self._each([self._pod], lambda pod: opened.append(pod.opened())):
            return False
        (pod,) = opened
        drafts: list[Draft] = []
        before = pod.store.now()
        gate = self._pod.gate

        def draft(doc_id: DocId) -> None:
            self._begun.append(doc_id)
            try:
                drafts.append(pod.draft(doc_id, before))
            except DataError:
                gate.put_aside(doc_id)
                raise

        fit = [doc_id for doc_id in self._documents if not gate.is_aside(doc_id)]
        with within(time_left() * (DRAFT_PART if pod.texts is None else KEPT_PART)):
            are_all = self._each(fit, draft)
        after = pod.store.now()

        def take(draft: Draft) -> None:
            pod.check(draft, after)
            self._texts[draft.doc_id] = draft.text

        is_done = self._each(list(drafts), take) and are_all
        is_slow = time.monotonic() - self._began > 2 * gate.slow_s
        if fit and not self._texts and is_slow and not self.is_folder:
            gate.complain()  # each answer may have come just in time, and all together too late
        return is_done

    def _each(self, given: Sequence[T], work: Callable[[T], None]) -> bool:
        """Do something for each, in several threads; say whether the pod answered for all."""
        waiting = deque(given)
        n_more = 0 if self.is_folder else min(N_THREADS, len(given)) - 1
        if n_more < 1:
            return self._work(waiting, work)
        others = [self._start(partial(self._work, waiting, work)) for _ in range(n_more)]
        is_done = self._work(waiting, work)
        _, late = wait(others, min(time_left(), LONGEST_S))
        return is_done and not late and all(one.result() for one in others)

    def _work(self, waiting: deque[T], work: Callable[[T], None]) -> bool:
        while waiting:
            if not time_left():
                return False
            try:
                one = waiting.popleft()
            except IndexError:  # another thread was faster
                break
            try:
                work(one)
            except (AccessDenied, NotFound, DataError):
                continue
            except StoreError:
                return False
            except Exception as error:  # what a hostile answer makes a library raise
                kind = type(error).__name__
                _log.warning("%s: the pod cannot be read (%s)", self._pod.gate.name, kind)
                self._pod.gate.complain()
                return False
        return True

    def _start(self, work: Callable[[], bool]) -> Future[bool]:
        with self._lock:
            self._n_threads += 1
        try:
            return in_own_thread(partial(self._charged, work, time_left()), "pod")
        except RuntimeError:  # there are too many threads
            self._end_thread()
            unasked: Future[bool] = Future()
            unasked.set_result(False)
            return unasked

    def _charged(self, work: Callable[[], bool], left_s: float) -> bool:
        """Work, and add the time of the processor to what the pod costs."""
        try:
            with within(left_s), self._tally.counting():
                return work()
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        with self._lock:
            self._n_threads -= 1
            is_last = not self._n_threads
        if is_last:
            n_documents = max(len(self._begun), self._tally.used_s / DOCUMENT_S)
            self._pod.gate.end_search(n_documents)
