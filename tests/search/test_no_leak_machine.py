"""Whatever happens on servers, each reader gets what servers without anything else would say.

Nodes and searchers live as long as the servers do, so that what they keep is tried too: views,
lists, tables, summaries. The oracle is an index that never held anything but what the reader may
read; whatever leaves a node or a searcher must be the same, bit for bit.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from cloister.core.errors import AccessDenied, NotFound
from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings
from cloister.index.merge_policy import MergePolicy
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.shard_settings import ShardSettings
from cloister.search.node import SubQuery, SummaryRequest, TableRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode
from cloister.search.table_settings import TableSettings

WORDS = ("cough", "fever", "rash", "asthma", "zürich", "1999")
AGENTS = ("alice", "bob")
GROUPS = ("nurses", "doctors")
SERVERS = (ServerId("s0"), ServerId("s1"))
SMALL = TableSettings(n_best=2, max_bytes=120, hash_bits=24)
ASKED = SearchSettings(n_servers=1, n_best=2)
KEPT = SearchSettings(summaries="kept", table=SMALL, table_age_s=0)
SETTINGS = ShardSettings(merging=MergePolicy(per_tier=2), buffer_chars=40, max_views=2)

texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
rights = st.builds(
    Rights,
    owner=st.sampled_from(("", *AGENTS)).map(AgentId),
    agents=st.frozensets(st.sampled_from(AGENTS).map(AgentId), max_size=1),
    groups=st.frozensets(st.sampled_from(GROUPS).map(GroupId), max_size=1),
    public=st.sampled_from((False, False, False, True)),
    authenticated=st.sampled_from((False, False, False, True)),
)
documents = st.builds(
    IndexedDocument,
    st.sampled_from([f"d{n}" for n in range(6)]).map(DocId),
    st.sampled_from(("p1", "p2")).map(PodId),
    texts,
    rights,
)
places = st.sampled_from(SERVERS)
ends = st.sampled_from(("commit", "commit", "merge", "purge", "go on", "crash", "roll back"))
Contents = dict[DocId, IndexedDocument]


class Questions(NamedTuple):
    """What a reader asks."""

    query: str
    model: ModelSettings
    k: int
    n_pods: int | None


questions = st.builds(
    Questions,
    st.lists(st.sampled_from((*WORDS, "absent")), min_size=1, max_size=3).map(" ".join),
    st.builds(ModelSettings, model=st.sampled_from(SPARSE_MODELS)),
    st.integers(1, 4),
    st.sampled_from((None, 1)),
)


class User:
    """A reader with nodes, and searchers over them."""

    def __init__(self, nodes: list[ShardNode]) -> None:
        self.nodes = nodes
        self.searchers = [Searcher(nodes, settings=one) for one in (ASKED, KEPT)]

    def hears(self, asked: Questions) -> list[Any]:
        """Return all that nodes and searchers say."""
        terms = tuple(asked.query.split())
        summary = SummaryRequest(terms, 2, with_pairs=True, all_terms=True)
        query = SubQuery(terms, asked.model, asked.k, asked.n_pods, explain=True, explain_pods=True)
        said: list[Any] = []
        for node in self.nodes:
            said += [node.summarise(summary), node.table(TableRequest(SMALL)), node.answer(query)]
        vectors = SearchSettings(model=asked.model, n_pods=asked.n_pods)
        searchers = [*self.searchers, Searcher(self.nodes, settings=vectors)]
        return said + [one.search(asked.query, k=asked.k, explain=True) for one in searchers]


class ServersMachine(RuleBasedStateMachine):
    """Drives two servers, their users, and a dict of what the servers hold."""

    @initialize(first=st.lists(st.tuples(places, documents), min_size=4, max_size=9))
    def start(self, first: list[tuple[ServerId, IndexedDocument]]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.no_sync = patch("os.fsync")
        self.no_sync.start()
        self.shards = {name: self.opened(name) for name in SERVERS}
        self.committed: dict[ServerId, Contents] = {name: {} for name in SERVERS}
        self.pending: dict[ServerId, Contents] = {name: {} for name in SERVERS}
        self.groups: dict[str, frozenset[GroupId]] = {}
        self.users: dict[Reader, User] = {}
        self.asked = Questions("cough fever", ModelSettings(), 2, None)
        for name in SERVERS:
            self.add_or_change(name, [one for place, one in first if place == name], "commit")

    def opened(self, name: ServerId) -> Shard:
        return Shard.open(self.folder / name, server_id=name, settings=SETTINGS)

    def teardown(self) -> None:
        if hasattr(self, "shards"):
            for shard in self.shards.values():
                shard.close()
            self.no_sync.stop()
            shutil.rmtree(self.folder)

    @rule(name=places, several=st.lists(documents, max_size=4), then=ends)
    def add_or_change(self, name: ServerId, several: list[IndexedDocument], then: str) -> None:
        self.shards[name].add(several)
        self.pending[name].update({one.doc_id: one for one in several})
        self.end(name, then)

    @rule(name=places, data=st.data(), then=ends)
    def delete(self, name: ServerId, data: st.DataObject, then: str) -> None:
        if self.pending[name]:
            doc_id = data.draw(st.sampled_from(sorted(self.pending[name])))
            self.shards[name].delete([doc_id])
            del self.pending[name][doc_id]
        self.end(name, then)

    @rule(name=places, data=st.data(), new=rights)
    def change_rights(self, name: ServerId, data: st.DataObject, new: Rights) -> None:
        if self.committed[name]:
            doc_id = data.draw(st.sampled_from(sorted(self.committed[name])))
            self.set_rights(name, {doc_id: new})

    @rule(agent=st.sampled_from(AGENTS), how=st.sampled_from(("grant", "revoke")))
    def grant_or_revoke(self, agent: str, how: str) -> None:
        for name in SERVERS:
            held = {**self.committed[name], **self.pending[name]}
            self.set_rights(name, {i: getattr(one.rights, how)(agent) for i, one in held.items()})

    def set_rights(self, name: ServerId, changes: dict[DocId, Rights]) -> None:
        self.shards[name].set_rights(changes)
        for held in (self.committed[name], self.pending[name]):
            for doc_id in changes.keys() & held.keys():
                held[doc_id] = held[doc_id]._replace(rights=changes[doc_id])

    @rule(agent=st.sampled_from(AGENTS), groups=st.frozensets(st.sampled_from(GROUPS).map(GroupId)))
    def change_groups(self, agent: str, groups: frozenset[GroupId]) -> None:
        self.groups[agent] = groups

    @rule(asked=questions)
    def ask_otherwise(self, asked: Questions) -> None:
        self.asked = asked

    def end(self, name: ServerId, then: str) -> None:
        if then in ("commit", "merge", "purge"):
            getattr(self.shards[name], then)()
            self.committed[name] = dict(self.pending[name])
        elif then == "crash":
            self.shards[name]._files.unlock()  # which the death of the process would do
            self.shards[name] = self.opened(name)
        elif then == "roll back":
            self.shards[name].rollback()
        if then != "go on":
            self.pending[name] = dict(self.committed[name])

    @invariant()
    def nobody_hears_of_what_they_may_not_read(self) -> None:
        if not hasattr(self, "shards"):
            return
        known = [Reader(AgentId(name), self.groups.get(name, frozenset())) for name in AGENTS]
        for reader in (*known, STRANGER):
            user = self.users.setdefault(reader, self.user(reader))
            with tempfile.TemporaryDirectory() as folder:
                alone = {name: self.alone(Path(folder), name, reader) for name in SERVERS}
                wanted = User([self.node(name, reader, alone) for name in SERVERS])
                assert user.hears(self.asked) == wanted.hears(self.asked)
                for shard in alone.values():
                    shard.close()

    def user(self, reader: Reader) -> User:
        return User([self.node(name, reader, self.shards) for name in SERVERS])

    def node(self, name: ServerId, reader: Reader, shards: dict[ServerId, Shard]) -> ShardNode:
        return ShardNode(name, lambda: shards[name].view(reader), self.reading(name, reader))

    def reading(self, name: ServerId, reader: Reader) -> Callable[[DocId], str]:
        def read(doc_id: DocId) -> str:
            found = self.committed[name].get(doc_id)
            if found is None:
                raise NotFound("not allowed, or no such resource")
            if not found.rights.allow(reader):
                raise AccessDenied("not allowed, or no such resource")
            return found.text

        return read

    def alone(self, folder: Path, name: ServerId, reader: Reader) -> Shard:
        """Return an index that never held anything but what the reader may read, for them alone."""
        held = [one for one in self.committed[name].values() if one.rights.allow(reader)]
        seen["hidden"] += 0 < len(held) < len(self.committed[name])
        shard = Shard.open(folder / name, server_id=name)
        shard.add(one._replace(rights=Rights(public=True)) for one in reversed(held))
        shard.commit()
        return shard


seen: Counter[str] = Counter()  # how often there was something to hide


def test_nothing_that_leaves_a_server_tells_of_what_its_reader_may_not_read() -> None:
    seen.clear()
    how = settings(max_examples=12, stateful_step_count=12, deadline=None)
    run_state_machine_as_test(ServersMachine, settings=how)
    assert seen["hidden"] > 100
