"""Pods are synced at once: one that is slow keeps no other one waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.pods import pod_syncing
from cloister.pods.folder_pod import FolderPod
from cloister.pods.pod_syncing import N_AT_ONCE, PodSyncing
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.sync import CutSync, SyncCounts
from cloister.pods.sync_times import SyncTime

SERVER = ServerId("clinic-a")


class Scene:
    """Pods whose syncs last as long as a test wants."""

    def __init__(self, registry: PodRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registry = registry
        self.go_on = threading.Event()
        self.slow: set[str] = set()
        self.running: list[str] = []
        monkeypatch.setattr(registry, "sync", self.sync)

    def pods(self, kind: str, *names: str) -> list[RegisteredPod]:
        """Return pods that were quick the last time."""
        made = []
        for name in names:
            self.registry.sync_times.note(PodId(name), SyncTime(time.time(), 0.1))
            fields = {"pod_id": name, "owner": "ann", "server_id": SERVER, "kind": kind}
            made.append(RegisteredPod(**fields, address=f"/{name}"))
        return made

    def sync(self, pod: RegisteredPod) -> SyncCounts:
        if pod.pod_id in self.slow:
            self.running.append(pod.pod_id)
            self.go_on.wait(10.0)
        return SyncCounts()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with PodRegistry(tmp_path / "home") as registry:
        made = Scene(registry, monkeypatch)
        yield made
        made.go_on.set()


@pytest.mark.parametrize("kind", ["folder", "solid"])
def test_pods_that_were_quick_and_become_slow_keep_no_quick_one_waiting(
    scene: Scene, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_syncing, "QUICK_S", 0.3)
    names = [f"m{n}" for n in range(N_AT_ONCE[kind] + 3)]
    scene.slow.update(names)
    syncing = PodSyncing(scene.registry)
    slow = syncing.begin(scene.pods(kind, *names))
    (honest,) = syncing.begin(scene.pods(kind, "bob"))
    assert honest.result(5.0).error is None
    assert not any(one.done() for one in slow)
    scene.go_on.set()
    assert all(one.result(5.0).error is None for one in slow)
    again = syncing.begin(scene.pods(kind, "bob", *names))
    assert all(one.result(5.0).error is None for one in again)


def test_slow_folders_keep_no_quick_one_waiting(scene: Scene) -> None:
    names = [f"m{n}" for n in range(8)]
    scene.slow.update(names)
    syncing = PodSyncing(scene.registry)
    made = scene.pods("folder", *names)
    scene.registry.sync_times.flush(forget=map(PodId, names))  # they are new
    slow = syncing.begin(made)
    (honest,) = syncing.begin(scene.pods("folder", "bob"))
    assert honest.result(5.0).error is None
    time.sleep(0.3)
    assert len(scene.running) == N_AT_ONCE["slow folder"]
    assert not any(one.done() for one in slow)


def test_a_folder_of_many_files_is_read_for_no_longer_than_a_sync_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PodRegistry(tmp_path / "home", most_sync_s=0.5) as registry:
        pod = FolderPod.create(tmp_path / "ann", PodId("ann"), AgentId("ann"))
        doc_ids = [pod.write(f"{n}.txt", "cough") for n in range(40)]
        registered = RegisteredPod(
            pod_id="ann", owner="ann", server_id=SERVER, kind="folder", address=f"{tmp_path}/ann"
        )
        registry.add(registered)
        store = registry.datastore(registered)
        content = store.content

        def slow(doc_id: DocId) -> object:
            time.sleep(0.05)
            return content(doc_id)

        monkeypatch.setattr(store, "content", slow)
        with pytest.raises(CutSync):
            registry.sync(registered)
        n_indexed = len(registry.shard(SERVER).etags(PodId("ann")))
        assert 0 < n_indexed < len(doc_ids)
