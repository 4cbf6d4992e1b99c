"""Changes who may read documents: at the pod first, then in the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cloister.core.ids import DocId, ServerId
from cloister.core.rights import Rights
from cloister.pods.datastore import refused
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
        resource = store.resource(doc_id)
        if resource is None:
            raise refused()
        store.set_rights(doc_id, _changed(resource.rights, agents, groups, public, give))
        now = store.resource(doc_id)
        rights = now.rights if now is not None else Rights()
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


def _changed(
    rights: Rights, agents: Sequence[str], groups: Sequence[str], public: bool, give: bool
) -> Rights:
    if give:
        rights = rights.grant(*agents).grant_group(*groups)
    else:
        rights = rights.revoke(*agents).revoke_group(*groups)
    return replace(rights, public=give) if public else rights
