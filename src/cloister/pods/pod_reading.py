"""Asks pods whether a reader may read some documents now, each pod apart from the others.

Folders are read in the calling thread. A pod on a server gets threads of its own: a server that
hangs keeps nobody waiting but those who asked for its documents, and these only until the deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Final, NamedTuple, Protocol

from cloister.core.deadline import time_left, within
from cloister.core.errors import AccessDenied, DataError, NotFound, StoreError
from cloister.core.ids import DocId, PodId
from cloister.core.own_thread import in_own_thread
from cloister.pods.pod_gate import PodGate
from cloister.search.shard_node import PodReading, TextsRead

__all__ = ["CONFIRM_S", "GuardedReading", "ReadablePod"]

CONFIRM_S: Final = 1.0  # for all pods of one answer together
LONGEST_S: Final = 3600.0
N_THREADS: Final = 4  # for one pod and one answer


class ReadablePod(NamedTuple):
    """A pod as it is read: its gate where it lies on a server, None for a folder."""

    read: Callable[[DocId], str]
    gate: PodGate | None


class PodFinding(Protocol):
    """Finds pods for one reader; the registry does."""

    def pod(self, pod_id: PodId) -> ReadablePod | None:
        """Return a pod; None where there is none."""

    def away(self) -> frozenset[PodId]:
        """Return the pods that are not asked at the moment."""

    def distrust(self, pod_id: PodId) -> None:
        """Ask a pod no more until it is synced again."""


class GuardedReading(PodReading):
    """Reads texts as one reader.

    Parameters
    ----------
    pods
        Where documents lie.
    timeout_s
        For all pods of an answer together.
    """

    def __init__(self, pods: PodFinding, timeout_s: float = CONFIRM_S) -> None:
        self._pods = pods
        self._timeout_s = timeout_s

    @property
    def timeout_s(self) -> float:
        """How long the pods may take for one answer, all together."""
        return self._timeout_s

    def away(self) -> frozenset[PodId]:
        """Return the pods that are not asked at the moment."""
        return self._pods.away()

    def distrust(self, pod_id: PodId) -> None:
        """Ask a pod no more until it is synced again."""
        self._pods.distrust(pod_id)

    def read(self, documents: Sequence[tuple[DocId, PodId]]) -> TextsRead:
        """Ask for texts, all pods at once."""
        by_pod: dict[PodId, list[DocId]] = {}
        for doc_id, pod_id in documents:
            by_pod.setdefault(pod_id, []).append(doc_id)
        found = {pod_id: self._pods.pod(pod_id) for pod_id in by_pod}
        asked = {
            pod_id: _Asked(pod.read, pod.gate, by_pod[pod_id])
            for pod_id, pod in found.items()
            if pod is not None and pod.gate is not None and pod.gate.begin_search()
        }
        texts: dict[DocId, str] = {}
        for pod_id, pod in found.items():
            if pod is not None and pod.gate is None:  # meanwhile servers answer
                _read_into(texts, pod.read, by_pod[pod_id])
        left_alone = {
            pod_id
            for pod_id, pod in found.items()
            if pod is not None and pod.gate is not None and pod_id not in asked
        }
        away = {pod_id for pod_id, one in asked.items() if not one.wait_for(texts)} | left_alone
        return TextsRead(texts, frozenset(away))


class _Asked:
    """One pod's server, asked for some documents in threads of its own."""

    def __init__(
        self, read: Callable[[DocId], str], gate: PodGate, documents: Sequence[DocId]
    ) -> None:
        self._gate = gate
        self._texts: dict[DocId, str] = {}
        self._lock = threading.Lock()
        self._used_s = 0.0
        left_s, n_threads = time_left(), min(N_THREADS, len(documents))
        self._n_left = n_threads
        self._futures = [
            in_own_thread(partial(self._read, read, documents[first::n_threads], left_s), "pod")
            for first in range(n_threads)
        ]

    def wait_for(self, texts: dict[DocId, str]) -> bool:
        """Take over what came in time; say whether the pod answered for all."""
        _, late = wait(self._futures, min(time_left(), LONGEST_S))
        texts |= dict(self._texts)
        if late:
            self._gate.complain()
        return not late and all(future.result() for future in self._futures)

    def _read(
        self, read: Callable[[DocId], str], documents: Sequence[DocId], left_s: float
    ) -> bool:
        try:
            with within(left_s):
                return _read_into(self._texts, read, documents)
        finally:
            with self._lock:
                self._used_s += time.thread_time()
                self._n_left -= 1
                is_last = not self._n_left
            if is_last:
                self._gate.end_search(self._used_s)


def _read_into(
    texts: dict[DocId, str], read: Callable[[DocId], str], documents: Sequence[DocId]
) -> bool:
    """Read texts; leave out what is refused, and say whether the pod answered."""
    for doc_id in documents:
        try:
            texts[doc_id] = read(doc_id)
        except (AccessDenied, NotFound, DataError):
            continue
        except StoreError:
            return False
    return True
