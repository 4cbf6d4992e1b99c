"""Changes who may read documents: at the pod first, then in the index.

Where the server has a pod of its own, tables of users who may lose a right are removed before
anything else, and made anew at the end. A pod of tables that does not answer keeps nobody from
taking a right back: it is named, and its tables stay as old as they are until the next sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from cloister.core.errors import AccessDenied, CloisterError, NotFound
from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId, checked_id
from cloister.core.rights import NOBODY, Rights
from cloister.pods.document_reading import rights_now, update_document
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.server_tables import ServerTables
from cloister.pods.table_keeping import TableKeeping

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
    for name in (*agents, *groups):
        checked_id(name)
    found = [(DocId(name), _pod_of(registry, name)) for name in documents]
    tables = _ConcernedTables(registry, everybody=public)
    for doc_id, pod in found:
        before = _named(_held(registry, doc_id, pod))
        losing = [*map(AgentId, agents), *(before if groups else ())]
        if not give:
            tables.forget(pod, losing)
        tables.concern(pod, [*losing, *before])
    told = []
    with registry.changing_rights(found):
        for doc_id, pod in found:
            rights = _changed(registry, doc_id, pod, agents, groups, public=public, give=give)
            tables.concern(pod, _named(rights))
            told.append(_told(doc_id, pod, rights))
    tables.refresh()
    return {"documents": told, "tables_failed": sorted(tables.failed)}


def _pod_of(registry: PodRegistry, name: str) -> RegisteredPod:
    """Return a document's pod; who runs this may see all ids, so a wrong one is called wrong."""
    try:
        return registry.owner_of(DocId(name))
    except AccessDenied:
        raise NotFound(
            "no such document in the index here",
            where=name,
            remedy="copy an id from `cloister search`, or run `cloister pods sync` first",
        ) from None


def _changed(
    registry: PodRegistry,
    doc_id: DocId,
    pod: RegisteredPod,
    agents: Sequence[str],
    groups: Sequence[str],
    *,
    public: bool,
    give: bool,
) -> Rights:
    """Change a document's rights at its pod, then in the index; return those of the index.

    Before others get to read it the index gets the document's text of now: the old one was never
    meant for them. What cannot be read as text any more is nobody's in the index.
    """
    store, shard = registry.datastore(pod), registry.shard(ServerId(pod.server_id))
    update = partial(
        update_document,
        store,
        shard,
        doc_id,
        index_in_pod=pod.index_in_pod,
        texts=registry.texts(pod),
    )
    if give:
        update()
    change = store.grant if give else store.revoke
    change(doc_id, *map(AgentId, agents), groups=map(GroupId, groups), public=public)
    etag = shard.etags(PodId(pod.pod_id)).get(doc_id, "")
    shard.set_rights({doc_id: rights_now(store, doc_id, etag) if etag else NOBODY})
    with suppress(AccessDenied):
        update()
    return _held(registry, doc_id, pod)


class _ConcernedTables:
    """The tables of users whose rights may change.

    Parameters
    ----------
    everybody
        Whether all users of a server are concerned.
    """

    def __init__(self, registry: PodRegistry, *, everybody: bool) -> None:
        self._tables = ServerTables(registry)
        self._everybody = everybody
        self._agents: dict[ServerId, set[AgentId]] = {}
        self.failed: set[ServerId] = set()

    def concern(self, pod: RegisteredPod, agents: Sequence[AgentId]) -> None:
        """Look at these users' tables, too."""
        self._agents.setdefault(ServerId(pod.server_id), set()).update(agents)

    def forget(self, pod: RegisteredPod, agents: Sequence[AgentId]) -> None:
        """Remove users' tables."""
        wanted = None if self._everybody else agents
        self._try(ServerId(pod.server_id), lambda keeping: keeping.forget(wanted))

    def refresh(self) -> None:
        """Make anew what changed."""
        for server_id, agents in self._agents.items():
            wanted = None if self._everybody else agents
            self._try(server_id, partial(TableKeeping.refresh, agents=wanted))

    def _try(self, server_id: ServerId, change: Callable[[TableKeeping], object]) -> None:
        try:
            keeping = self._tables.keeping(server_id)
            if keeping is not None:
                change(keeping)
        except CloisterError:
            self.failed.add(server_id)


def _held(registry: PodRegistry, doc_id: DocId, pod: RegisteredPod) -> Rights:
    """Return what the index has of a document's rights."""
    held = registry.shard(ServerId(pod.server_id)).rights(PodId(pod.pod_id))
    return held.get(doc_id, NOBODY)


def _named(rights: Rights) -> list[AgentId]:
    return [name for name in (rights.owner, *rights.agents) if name]


def _told(doc_id: DocId, pod: RegisteredPod, rights: Rights) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "pod": pod.pod_id,
        "owner": rights.owner,
        "agents": sorted(rights.agents - {rights.owner}),
        "groups": sorted(rights.groups),
        "public": rights.public,
        "authenticated": rights.authenticated,
    }
