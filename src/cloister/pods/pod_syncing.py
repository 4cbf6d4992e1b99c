"""Syncs many pods at once: no pod waits for another one that is slow or hostile.

Folders and pods on servers have threads of their own, and of both those that were quick the last
time, and those that were slow, failed or are new. A sync that takes too long for a quick one gives
its place to another while it runs. So pods that are slow delay each other alone. Quick folders are
synced one after the other, since they share a disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, wait
from functools import partial
from typing import Final, NamedTuple

from cloister.core.errors import CloisterError
from cloister.core.ids import PodId
from cloister.core.own_thread import in_own_thread
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.sync import SyncCounts

__all__ = ["PodSyncing", "SyncOutcome"]

N_AT_ONCE: Final = {"folder": 1, "solid": 12, "slow folder": 4, "slow solid": 4}
QUICK_S: Final = 30.0


class SyncOutcome(NamedTuple):
    """What became of one pod's sync: counts, or the error where it failed."""

    pod: RegisteredPod
    counts: SyncCounts | None
    error: CloisterError | None = None


class PodSyncing:
    """Syncs pods of a home, each in one thread at a time. Threads may share it.

    Parameters
    ----------
    registry
        The home.
    told
        Is told of each sync that ended, in its thread.
    """

    def __init__(
        self, registry: PodRegistry, told: Callable[[SyncOutcome], None] = lambda _: None
    ) -> None:
        self._registry = registry
        self._told = told
        self._lock = threading.Lock()
        self._stopped = False
        self._under_way: dict[PodId, Future[SyncOutcome]] = {}
        self._waiting: dict[str, list[RegisteredPod]] = {lane: [] for lane in N_AT_ONCE}
        self._n_busy = dict.fromkeys(N_AT_ONCE, 0)
        self._failed: set[PodId] = set()
        self._begun: dict[PodId, float] = {}
        self._lanes: dict[PodId, str] = {}  # of the syncs that run

    def sync(
        self, pods: Iterable[RegisteredPod], timeout_s: float | None = None
    ) -> list[SyncOutcome]:
        """Sync pods and wait for them; return what ended in time, in their order."""
        begun = self.begin(pods)
        done, _ = wait(begun, timeout_s)
        self._registry.sync_times.flush()
        return [future.result() for future in begun if future in done]

    def begin(self, pods: Iterable[RegisteredPod]) -> list[Future[SyncOutcome]]:
        """Begin to sync pods; one whose sync is under way is not begun again."""
        futures = []
        with self._lock:
            for pod in pods:
                pod_id = PodId(pod.pod_id)
                if pod_id not in self._under_way:
                    self._under_way[pod_id] = Future()
                    self._waiting[self._lane(pod)].append(pod)
                futures.append(self._under_way[pod_id])
            for lane in N_AT_ONCE:
                self._fill(lane)
        return futures

    def due(self, pods: Iterable[RegisteredPod], interval_s: float) -> list[RegisteredPod]:
        """Return the pods whose sync was not begun for so long."""
        now = time.monotonic()
        with self._lock:
            return [
                pod
                for pod in pods
                if now - self._begun.get(PodId(pod.pod_id), -interval_s) >= interval_s
                and PodId(pod.pod_id) not in self._under_way
            ]

    def stop(self) -> None:
        """Begin no more syncs; exchanges with servers that are under way fail at once."""
        with self._lock:
            self._stopped = True
        self._registry.let_go_of_pods()

    @property
    def failed(self) -> Collection[PodId]:
        """The pods whose last sync failed."""
        return frozenset(self._failed)

    def _lane(self, pod: RegisteredPod) -> str:
        last = self._registry.sync_times.all().get(PodId(pod.pod_id))
        quick = last is not None and last.took_s < QUICK_S
        return pod.kind if quick and PodId(pod.pod_id) not in self._failed else f"slow {pod.kind}"

    def _fill(self, lane: str) -> None:
        while self._waiting[lane] and self._n_busy[lane] < N_AT_ONCE[lane]:
            self._n_busy[lane] += 1
            in_own_thread(partial(self._work, lane), "pod-sync")

    def _work(self, lane: str) -> None:
        """Sync pods of a lane until none waits, or the lane has threads enough."""
        while True:
            with self._lock:
                too_many = self._n_busy[lane] > N_AT_ONCE[lane]
                if self._stopped or too_many or not self._waiting[lane]:
                    self._n_busy[lane] -= 1
                    return
                pod = self._waiting[lane].pop(0)
                pod_id = PodId(pod.pod_id)
                self._begun[pod_id] = time.monotonic()
                self._lanes[pod_id] = lane
            timer = threading.Timer(QUICK_S, self._make_way, [pod_id])
            timer.daemon = True
            timer.start()
            outcome = self._outcome(pod)
            timer.cancel()
            with self._lock:
                lane = self._lanes.pop(pod_id)
                future = self._under_way.pop(pod_id)
                (self._failed.discard if outcome.error is None else self._failed.add)(pod_id)
            self._told(outcome)
            future.set_result(outcome)

    def _make_way(self, pod_id: PodId) -> None:
        """Count a sync that takes long among the slow ones, and begin another in its place."""
        with self._lock:
            lane = self._lanes.get(pod_id, "slow")
            if not lane.startswith("slow"):
                self._lanes[pod_id] = f"slow {lane}"
                self._n_busy[lane] -= 1
                self._n_busy[f"slow {lane}"] += 1
                self._fill(lane)

    def _outcome(self, pod: RegisteredPod) -> SyncOutcome:
        try:
            return SyncOutcome(pod, self._registry.sync(pod))
        except CloisterError as error:
            return SyncOutcome(pod, None, error)
        except Exception as error:  # what a hostile pod makes a library raise
            why = CloisterError(f"the sync failed ({type(error).__name__})", where=pod.pod_id)
            return SyncOutcome(pod, None, why)
