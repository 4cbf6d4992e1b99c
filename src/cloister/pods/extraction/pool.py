"""Children that read documents, kept warm: the side of the program that has the documents.

A document that exceeds a limit costs its own limit: its child is ended and replaced, the documents
around it are read. One pod has few children at a time, and what runs in the background (syncs)
leaves some to searches. A document that failed is remembered by its content and not tried again by
this process; a sync remembers it for longer (`cloister.pods.text_store`).
"""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import cloister
from cloister.core.errors import DataError, StoreError
from cloister.pods.document_text import MAX_TEXT_CHARACTERS
from cloister.pods.extraction.child import (
    FAILED,
    GROUP,
    KINDS,
    MEMORY_BYTES,
    NO_MEMORY,
    READ,
    READY,
    REPLY,
    REQUEST,
    cpu_limit_s,
)
from cloister.pods.pod_gate import note_child_time

__all__ = ["SEARCH_DEADLINE_S", "Extracted", "ExtractionPool", "RawDocument", "extraction_pool"]

SEARCH_DEADLINE_S: Final = 5.0  # for one document that is to be shown
SYNC_DEADLINE_S: Final = 60.0  # for one document; children have the lowest priority
START_S: Final = 30.0  # for a child to start
GROUP_BYTES: Final = 1_000_000  # sent to a child at a time, unless one document is longer
GROUP_DOCUMENTS: Final = 128
RETIRED_CPU_MS: Final = 20_000  # a child that computed for so long is replaced between documents
KEPT_FAILURES: Final = 4_096
NO_CHILD: Final = "no child process was free in time"
TOO_LATE: Final = "it came too late to be read in time"
OWN_FAULT_S: Final = 0.1  # of a processor, from which a deadline was missed for the document's sake
COSTLY_S: Final = 60.0  # for which a pod of such a document shares its children with its like
LEAST_S: Final = 0.05  # that a search needs for a document: else its child would be ended half-way
MAX_REPLY_BYTES: Final = 4 * MAX_TEXT_CHARACTERS
WAIT_S: Final = 600.0  # that a sync waits for a child
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_CPU_SIGNALS: Final = (signal.SIGPROF, signal.SIGXCPU)
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from cloister.pods.extraction.child import main; main()"
)


class RawDocument(NamedTuple):
    """A document as its pod has it."""

    content: bytes
    media_type: str


class Extracted(NamedTuple):
    """What became of a document.

    Parameters
    ----------
    text
        Its words; empty where it failed.
    failure
        Why it could not be read; empty where it was.
    is_lasting
        Whether the same bytes would fail again: not where a deadline passed or no child was free.
    is_costly
        Whether it ended a child.
    used_s
        Time of a processor that its child used.
    """

    text: str = ""
    failure: str = ""
    is_lasting: bool = True
    is_costly: bool = False
    used_s: float = 0.0


class ExtractionPool:
    """Child processes that read documents; threads may share it.

    Parameters
    ----------
    n_children
        At most so many at a time, started when they are needed. A sync uses all but two, and a
        single pod a quarter of them in syncs and another in searches, at least one. Pods whose
        documents took long lately share one quarter among them.

    Examples
    --------
    >>> pool = ExtractionPool()
    >>> pool.extract(RawDocument(b"<p>dry cough</p>", "text/html")).split()
    ['dry', 'cough']
    >>> pool.close()
    """

    def __init__(self, n_children: int = 0) -> None:
        self.n_children = n_children or max(4, len(os.sched_getaffinity(0)))
        self.n_ended = 0  # children that a document ended
        self._free: list[_Child] = []
        self._changed = threading.Condition()
        self._n_used = 0
        self._n_syncing = 0
        self._used_by: Counter[str] = Counter()
        self._failures: OrderedDict[bytes, Extracted] = OrderedDict()
        self._costly_until: dict[str, float] = {}  # pods whose documents took long lately

    def extract(
        self, document: RawDocument, *, pod_id: str = "", deadline_s: float = SEARCH_DEADLINE_S
    ) -> str:
        """Return the words of one document that is to be shown, within a time.

        Raises
        ------
        DataError
            It cannot be read, or not quickly: the reason.
        StoreError
            The machine was too busy.
        """
        if deadline_s < LEAST_S:
            raise StoreError(TOO_LATE, where=document.media_type, remedy="try again later")
        (found,) = self._extracted([document], pod_id, deadline_s, syncing=False)
        note_child_time(found.used_s)
        if not found.failure:
            return found.text
        if found.is_lasting or found.used_s >= OWN_FAULT_S:
            raise DataError(found.failure, where=document.media_type)
        raise StoreError(found.failure, where=document.media_type, remedy="try again later")

    def extract_all(self, documents: Sequence[RawDocument], *, pod_id: str = "") -> list[Extracted]:
        """Read documents of one pod for the index, in the background."""
        return self._extracted(documents, pod_id, SYNC_DEADLINE_S, syncing=True)

    def close(self) -> None:
        """End the children that do nothing now."""
        with self._changed:
            free, self._free = self._free, []
        for child in free:
            child.end()

    def _extracted(
        self, documents: Sequence[RawDocument], pod_id: str, deadline_s: float, *, syncing: bool
    ) -> list[Extracted]:
        outcomes = [self._known_failure(document) for document in documents]
        left = [place for place, outcome in enumerate(outcomes) if outcome is None]
        for group in _groups(left, documents):
            lane = _Lane(self._key(pod_id, syncing), syncing, deadline_s, time.monotonic())
            while group:
                group = self._read_some(group, documents, outcomes, lane, pod_id)
                lane = lane.again()
        return [outcome or Extracted(failure="not read") for outcome in outcomes]

    def _read_some(
        self,
        group: list[int],
        documents: Sequence[RawDocument],
        outcomes: list[Extracted | None],
        lane: _Lane,
        pod_id: str,
    ) -> list[int]:
        """Read a group with one child; return what is left where a document ended it."""
        with self._child(lane) as child:
            if child is None:
                for place in group:
                    outcomes[place] = Extracted(failure=NO_CHILD, is_lasting=False)
                return []
            lane = lane.again()
            child.send([documents[place] for place in group], lane.until)
            for n_done, place in enumerate(group, 1):
                used_ms = child.used_ms
                outcome = child.receive(lane.until)
                document, used_s = documents[place], (child.used_ms - used_ms) / 1e3
                used_s = min(used_s, cpu_limit_s(len(document.content)))  # a child could lie
                outcome = outcome._replace(used_s=used_s)
                outcomes[place] = self._judged(outcome, document, lane.deadline_s)
                if used_s >= OWN_FAULT_S or outcome.is_costly:
                    self._note_costly(pod_id)
                if child.is_over:
                    return group[n_done:]
                lane = lane.again()
        return []

    def _key(self, pod_id: str, syncing: bool) -> str:
        """Return who shares a lane: in searches all pods that cost much lately are one."""
        if syncing:
            return f"sync {pod_id}"
        with self._changed:
            costs = self._costly_until.get(pod_id, -math.inf) > time.monotonic()
        return "costly" if costs else f"search {pod_id}"

    def _note_costly(self, pod_id: str) -> None:
        now = time.monotonic()
        with self._changed:
            known = {one: until for one, until in self._costly_until.items() if until > now}
            self._costly_until = known | {pod_id: now + COSTLY_S}

    def _judged(self, outcome: Extracted, document: RawDocument, deadline_s: float) -> Extracted:
        if outcome.is_costly:
            self.n_ended += 1
            limits = {"cpu_s": cpu_limit_s(len(document.content)), "deadline_s": deadline_s}
            outcome = outcome._replace(failure=outcome.failure.format_map(limits))
        if outcome.failure and outcome.is_lasting:
            with self._changed:
                self._failures[_digest(document)] = outcome
                while len(self._failures) > KEPT_FAILURES:
                    self._failures.popitem(last=False)
        return outcome

    def _known_failure(self, document: RawDocument) -> Extracted | None:
        if document.media_type not in KINDS:
            return Extracted(failure="not a text")
        with self._changed:
            known = self._failures
            found = known.get(_digest(document)) if known else None
        return None if found is None else found._replace(is_costly=False, used_s=0.0)

    @contextmanager
    def _child(self, lane: _Lane) -> Iterator[_Child | None]:
        """Give a child of one's own; None where none was free in time."""
        with self._changed:
            is_free = self._changed.wait_for(lambda: self._has_room(lane), lane.wait_s)
            if is_free:
                self._count(lane, 1)
                child = self._free.pop() if self._free else None
        if not is_free:
            yield None
            return
        try:
            if child is None or child.has_ended():
                child = _Child()
            try:
                yield child
            except BaseException:  # an interrupt in mid-exchange: what it would say is for others
                child.is_over = True
                raise
            finally:
                if child.is_over:
                    child.end()
                    child = None
        finally:
            with self._changed:
                self._count(lane, -1)
                if child is not None:
                    self._free.append(child)
                self._changed.notify_all()

    def _has_room(self, lane: _Lane) -> bool:
        if lane.syncing and self._n_syncing >= max(1, self.n_children - 2):
            return False
        share = max(1, self.n_children // 4)
        return self._n_used < self.n_children and self._used_by[lane.key] < share

    def _count(self, lane: _Lane, change: int) -> None:
        self._n_used += change
        self._n_syncing += change if lane.syncing else 0
        self._used_by[lane.key] += change
        if not self._used_by[lane.key]:
            del self._used_by[lane.key]


class _Lane(NamedTuple):
    """For what a child is wanted, and how long its next document may take from when on."""

    key: str
    syncing: bool
    deadline_s: float
    since: float

    def again(self) -> _Lane:
        """Return the lane for the next document: a sync gives each its time, a search all."""
        return self._replace(since=time.monotonic()) if self.syncing else self

    @property
    def until(self) -> float:
        return self.since + self.deadline_s

    @property
    def wait_s(self) -> float:
        return WAIT_S if self.syncing else self.until - time.monotonic()


class _Child:
    """One child process."""

    def __init__(self) -> None:
        self.is_over = False
        self.used_ms = 0  # of a processor
        ours, theirs = socket.socketpair()
        package = Path(cloister.__file__).parent.parent
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(package)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise StoreError(
                f"no child process can be started: {error.strerror}",
                where="reading documents",
                remedy="look at the machine's memory and its limit of processes",
            ) from None
        finally:
            theirs.close()
        self._stream = ours
        self._received = bytearray()
        self._await_ready()
        self._note_time()

    def has_ended(self) -> bool:
        """Say whether it ended by itself while it had nothing to do; then nothing is left of it."""
        if self._process.poll() is None:
            return False
        self.end()
        return True

    def send(self, documents: Sequence[RawDocument], until: float) -> None:
        """Send a group of documents; what goes wrong shows when the first answer is missing."""
        parts = [GROUP.pack(len(documents))]
        for content, media_type in documents:
            parts += REQUEST.pack(KINDS.index(media_type), len(content)), content
        with suppress(OSError):
            self._stream.settimeout(max(0.01, until - time.monotonic()))
            self._stream.sendall(b"".join(parts))

    def receive(self, until: float) -> Extracted:
        """Return what became of the next document; `is_over` where the child ended over it."""
        try:
            outcome, cpu_ms, n_bytes = REPLY.unpack(self._read(REPLY.size, until))
            if n_bytes > MAX_REPLY_BYTES:
                raise ConnectionError
            told = self._read(n_bytes, until).decode("utf-8")
        except TimeoutError:
            self._note_time()
            self.end()
            failure = "not read within {deadline_s:g} s"
            return Extracted(failure=failure, is_lasting=False, is_costly=True)
        except (OSError, UnicodeDecodeError):
            return self._why_ended()
        self.used_ms = max(self.used_ms, cpu_ms)
        self.is_over = cpu_ms > RETIRED_CPU_MS or outcome == NO_MEMORY
        if outcome == READ and len(told) <= MAX_TEXT_CHARACTERS:
            return Extracted(told)
        if outcome == NO_MEMORY:
            failure = f"needs more than {MEMORY_BYTES // 1_000_000} MB of memory"
            return Extracted(failure=failure, is_costly=True)
        return Extracted(failure=told if outcome == FAILED else "too long a text")

    def end(self) -> None:
        """End it now."""
        self.is_over = True
        self._stream.close()
        self._process.kill()
        self._process.wait()

    def _await_ready(self) -> None:
        until = time.monotonic() + START_S
        try:
            told = bytes(self._read(len(READY), until))
            if told == READY:
                return
            with suppress(OSError):
                while True:
                    told += self._read(1, until)
        except OSError:
            told = b"it did not start"
        self.end()
        raise StoreError(
            f"a child process cannot be confined: {told.decode(errors='replace').strip()}",
            where="reading documents",
            remedy="use Linux on x86-64 or ARM64, with seccomp filters allowed",
        )

    def _why_ended(self) -> Extracted:
        """End it, and say why it ended before that."""
        self._note_time()
        self.is_over = True
        self._stream.close()
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.end()
            return Extracted(failure="its reader sent no answer", is_costly=True)
        if -status in _CPU_SIGNALS:
            return Extracted(failure="took more than {cpu_s:.1f} s of CPU time", is_costly=True)
        failure = f"its reader ended with status {status}"
        return Extracted(failure=failure, is_lasting=status != -signal.SIGKILL, is_costly=True)

    def _note_time(self) -> None:
        """Note the time of a processor that it has used, whether or not it still runs."""
        with suppress(OSError):
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            n_ticks = int(fields[11]) + int(fields[12])  # in its own code and in the kernel
            self.used_ms = max(self.used_ms, 1000 * n_ticks // TICKS_A_SECOND)

    def _read(self, n_bytes: int, until: float) -> bytearray:
        """Return the next bytes, however they arrive, before a time."""
        while len(self._received) < n_bytes:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._stream.settimeout(left_s)
            more = self._stream.recv(1 << 18)
            if not more:
                raise ConnectionError
            self._received += more
        found = self._received[:n_bytes]
        del self._received[:n_bytes]
        return found


def extraction_pool() -> ExtractionPool:
    """Return the pool of this process; a process that was forked has its own."""
    global _pool
    with _pool_lock:
        if _pool is None or _pool[0] != os.getpid():
            _pool = (os.getpid(), ExtractionPool())
            atexit.register(_pool[1].close)
        return _pool[1]


_pool: tuple[int, ExtractionPool] | None = None
_pool_lock: Final = threading.Lock()


def _groups(places: Sequence[int], documents: Sequence[RawDocument]) -> Iterator[list[int]]:
    group: list[int] = []
    n_bytes = 0
    for place in places:
        size = len(documents[place].content)
        if group and (n_bytes + size > GROUP_BYTES or len(group) == GROUP_DOCUMENTS):
            yield group
            group, n_bytes = [], 0
        group.append(place)
        n_bytes += size
    if group:
        yield group


def _digest(document: RawDocument) -> bytes:
    hashed = hashlib.blake2b(document.content, digest_size=16)
    hashed.update(document.media_type.encode())
    return hashed.digest()
