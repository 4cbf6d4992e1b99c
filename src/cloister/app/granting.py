"""Changes who may read documents: at the pod first, then in the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloister.core.ids import AgentId, DocId, GroupId, ServerId
from cloister.core.rights import NOBODY
from cloister.pods.registry import PodRegistry

__all__ = ["change_rights"]


def change_rights(
    registry: PodRegistry,
    documents: Sequence[str],
    agents: Sequence[str],
    groups: Sequence[str],
    *,
    public: bool,
    give: bool,
) -> dict[str, Any]:
    """Give or take agents, groups or everybody the right to read; return who may read now.

    All documents are looked up before any is changed.
    """
    found = [(DocId(name), registry.owner_of(DocId(name))) for name in documents]
    told = []
    for doc_id, pod in found:
        store, shard = registry.datastore(pod), registry.shard(ServerId(pod.server_id))
        change = store.grant if give else store.revoke
        change(doc_id, *map(AgentId, agents), groups=map(GroupId, groups), public=public)
        now = store.resource(doc_id)
        rights = NOBODY if now is None else now.rights
        shard.set_rights({doc_id: rights})
        told.append(
            {
                "doc_id": doc_id,
                "pod": pod.pod_id,
                "owner": rights.owner,
                "agents": sorted(rights.agents - {rights.owner}),
                "groups": sorted(rights.groups),
                "public": rights.public,
            }
        )
    return {"documents": told}
