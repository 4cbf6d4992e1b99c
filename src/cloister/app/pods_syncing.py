"""Brings indexes up to date with their pods, and then the tables in the servers' own pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloister.app.pods_adding import made_pod
from cloister.core.errors import CloisterError
from cloister.core.ids import PodId, ServerId
from cloister.pods.pod_index import remove_index_resources
from cloister.pods.pod_syncing import PodSyncing
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.server_tables import ServerTables
from cloister.pods.sync import CutSync

__all__ = ["added", "refreshed_tables", "removed", "synced"]


def synced(registry: PodRegistry, pods: Sequence[RegisteredPod]) -> dict[str, Any]:
    """Sync pods at once; one that fails or is slow does not keep the others from it."""
    done = _synced(registry, pods)
    kept = registry.server_pods.keys() - set(registry.server_ids())  # whose last pod was removed
    servers = sorted({ServerId(pod.server_id) for pod in pods} | kept)
    return done | refreshed_tables(registry, servers)


def _synced(
    registry: PodRegistry, pods: Sequence[RegisteredPod], *, enough: bool = False
) -> dict[str, Any]:
    """Sync pods; raise where all failed, unless some documents of one are ``enough``."""
    done, failed, n_indexed = [], [], 0
    for pod, counts, error in PodSyncing(registry).sync(pods):
        if counts is not None:
            named = [one._asdict() for one in counts.left_out_files]
            done.append({"pod": pod.pod_id} | counts._asdict() | {"left_out_files": named})
        elif error is not None:
            failed.append({"pod": pod.pod_id, "error": error.message, "remedy": error.remedy})
            n_indexed += error.n_indexed if isinstance(error, CutSync) else 0
    registry.erase_old_texts()
    if failed and not done and not (enough and n_indexed):
        raise CloisterError(failed[0]["error"], where=failed[0]["pod"], remedy=failed[0]["remedy"])
    return {"synced": done, "failed": failed}


def added(registry: PodRegistry, pod: RegisteredPod) -> dict[str, Any]:
    """Add a pod and index it; one of which nothing could be indexed is not added.

    Where the pod stops to answer half-way, it keeps what is indexed, and is told among the failed.
    """
    with registry.adding(pod), made_pod(pod):
        done = _synced(registry, [pod], enough=True)
    return done | refreshed_tables(registry, [ServerId(pod.server_id)])


def removed(registry: PodRegistry, pod_id: str) -> dict[str, Any]:
    """Take a pod out of its server's index, and its index resources out of the pod.

    Where the pod refuses or does not answer, they stay there: nobody brings their rules up to date
    any more, which is told.
    """
    pod = registry.pod(pod_id)
    registry.shard(ServerId(pod.server_id))  # one that is damaged fails before the change
    index_left = False
    if pod.index_in_pod:
        try:
            remove_index_resources(registry.datastore(pod))
        except CloisterError:
            index_left = True
    n_documents = registry.remove(PodId(pod_id))
    told = {"pod": pod_id, "removed": n_documents, "index_left": index_left}
    return told | refreshed_tables(registry, [ServerId(pod.server_id)])


def refreshed_tables(registry: PodRegistry, servers: Sequence[ServerId]) -> dict[str, Any]:
    """Make tables anew where a server has its own pod; a pod that fails keeps what it has."""
    done, failed = [], []
    for server_id in servers:
        try:
            keeping = ServerTables(registry).keeping(server_id)
            if keeping is not None:
                done.append({"server": server_id} | keeping.refresh()._asdict())
        except CloisterError as error:
            failed.append({"server": server_id, "error": error.message, "remedy": error.remedy})
    return {"tables": done, "tables_failed": failed}
