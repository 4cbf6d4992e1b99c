"""Whatever happens to a shard, each reader finds what a dict of texts and rights would give."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle, product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.entity_view import LEVELS, Level
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings
from cloister.index.merge_policy import MergePolicy
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.shard_settings import ShardSettings
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from index.literal_entities import Entry, LiteralEntities

ANALYSIS = TextAnalysis()
WORDS = ("cough", "fever", "rash", "asthma", "zürich", "x9", "the")
AGENTS = ("alice", "bob", "carol")
GROUPS = ("nurses", "doctors")
DOC_IDS = tuple(f"d{n}" for n in range(8))
SERVER = ServerId("s1")

texts = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
rights = st.builds(
    Rights,
    owner=st.sampled_from(("", *AGENTS)).map(AgentId),
    agents=st.frozensets(st.sampled_from(AGENTS).map(AgentId), max_size=2),
    groups=st.frozensets(st.sampled_from(GROUPS).map(GroupId), max_size=1),
    public=st.sampled_from((False, False, False, True)),
    authenticated=st.sampled_from((False, False, False, True)),
)
documents = st.builds(
    IndexedDocument,
    st.sampled_from(DOC_IDS).map(DocId),
    st.sampled_from(("p1", "p2", "p3")).map(PodId),
    texts,
    rights,
    st.sampled_from(("", "e1", "e2")),
)
ends = st.sampled_from(
    (
        "commit",
        "go on",
        "merge",
        "commit",
        "purge",
        "go on",
        "commit",
        "reopen",
        "crash",
        "roll back",
    )
)
queries = st.lists(st.sampled_from([*WORDS[:6], "absent"]), min_size=1, max_size=4)
models = st.builds(
    ModelSettings,
    model=st.sampled_from(SPARSE_MODELS),
    idf=st.sampled_from(("non_negative", "printed")),
)
TURNS = [
    (level, ModelSettings(model=model), k)
    for model, level, k in product(SPARSE_MODELS, LEVELS, (1, 2, 3))
]
shard_settings = st.builds(
    ShardSettings,
    merging=st.sampled_from((MergePolicy(per_tier=2), MergePolicy(kind="never"), MergePolicy())),
    buffer_chars=st.sampled_from((1, 60, 10_000)),
    max_views=st.sampled_from((1, 3)),
    view_bytes=st.sampled_from((0, 10_000)),
)


class ShardMachine(RuleBasedStateMachine):
    """Drives a shard and a dict side by side."""

    @initialize(how=shard_settings, first=st.lists(documents, min_size=3, max_size=8))
    def start(self, how: ShardSettings, first: list[IndexedDocument]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.no_sync = patch("os.fsync")  # a disk that is slow to obey changes nothing here
        self.no_sync.start()
        self.how = how
        self.members: dict[str, frozenset[GroupId]] = {}
        self.versions: dict[frozenset[tuple[str, str, str]], int] = {}
        self.committed: dict[str, Entry] = {}
        self.pending: dict[str, Entry] = {}
        self.turns = cycle(TURNS)
        self.shard = self.opened()
        self.add_or_change(first, "commit")

    def opened(self) -> Shard:
        return Shard.open(self.folder / "shard", server_id=SERVER, settings=self.how)

    def teardown(self) -> None:
        if hasattr(self, "shard"):
            self.shard.close()
            self.no_sync.stop()
            shutil.rmtree(self.folder)

    def readers(self) -> list[Reader]:
        known = [Reader(AgentId(name), self.members.get(name, frozenset())) for name in AGENTS]
        return [*known, STRANGER]

    @rule(several=st.lists(documents, min_size=1, max_size=5), then=ends)
    def add_or_change(self, several: list[IndexedDocument], then: str) -> None:
        self.shard.add(several)
        for one in several:
            terms = tuple(ANALYSIS.terms(one.text))
            self.pending[one.doc_id] = Entry(one.pod_id, terms, one.rights, one.etag, one.text)
        seen["change"] += 1
        self.end(then)

    @rule(doc_ids=st.sets(st.sampled_from(DOC_IDS), min_size=1, max_size=3), then=ends)
    def delete(self, doc_ids: set[str], then: str) -> None:
        n = self.shard.delete(DocId(doc_id) for doc_id in sorted(doc_ids))
        assert n == len(doc_ids & self.pending.keys())
        for doc_id in doc_ids:
            self.pending.pop(doc_id, None)
        self.end(then)

    @rule(doc_id=st.sampled_from(DOC_IDS), new=rights)
    def set_rights(self, doc_id: str, new: Rights) -> None:
        there = [one for one in (self.committed, self.pending) if doc_id in one]
        if there:
            before = self.shard.version
            assert self.shard.set_rights({DocId(doc_id): new}) > before
            for one in there:
                one[doc_id] = one[doc_id]._replace(rights=new)

    @rule(agent=st.sampled_from(AGENTS), how=st.sampled_from(("grant", "revoke")))
    def grant_or_revoke(self, agent: str, how: str) -> None:
        changes = {
            DocId(doc_id): getattr(entry.rights, how)(agent)
            for doc_id, entry in {**self.committed, **self.pending}.items()
        }
        self.shard.set_rights(changes)
        for one in (self.committed, self.pending):
            for doc_id in one:
                one[doc_id] = one[doc_id]._replace(rights=changes[DocId(doc_id)])

    @rule(agent=st.sampled_from(AGENTS), groups=st.frozensets(st.sampled_from(GROUPS).map(GroupId)))
    def change_groups(self, agent: str, groups: frozenset[GroupId]) -> None:
        self.members[agent] = groups

    @rule(doc_id=st.sampled_from(DOC_IDS), etag=st.sampled_from(("", "e3")))
    def set_etag(self, doc_id: str, etag: str) -> None:
        if doc_id in self.pending:
            self.shard.set_etags({DocId(doc_id): etag})
            self.pending[doc_id] = self.pending[doc_id]._replace(etag=etag)

    @rule(then=ends)
    def end(self, then: str) -> None:
        """Commit in one of three ways, drop what was not committed in one of three, or neither."""
        if then in ("commit", "merge", "purge"):
            getattr(self.shard, then)()
            self.committed = dict(self.pending)
            self.check_files(then)
        elif then == "roll back":
            self.shard.rollback()
        elif then == "reopen":
            self.shard.close()
            self.shard = self.opened()
        elif then == "crash":
            self.shard._files.unlock()  # which the death of the process would do
            self.shard = self.opened()
        if then != "go on":
            self.pending = dict(self.committed)

    def check_files(self, then: str) -> None:
        states = self.shard._last.known.segments
        named = {state.stored.name for state in states}
        found = {path.name for path in (self.folder / "shard").glob("segment-*")}
        assert named <= found
        if then != "commit":  # without changes that does nothing, and so sweeps nothing
            assert named == found
        if then == "merge":
            assert len(named) <= 1
        if then == "purge":
            assert not any(state.dead_share for state in states)

    @rule(
        who=st.integers(0, 3),
        level=st.sampled_from(LEVELS),
        terms=queries,
        model=models,
        k=st.integers(1, 4),
    )
    def search(
        self, who: int, level: Level, terms: list[str], model: ModelSettings, k: int
    ) -> None:
        self.check_search(self.readers()[who], level, terms, model, k)

    def check_search(
        self, reader: Reader, level: Level, terms: Sequence[str], model: ModelSettings, k: int
    ) -> None:
        found = self.shard.view(reader).level(level)
        wanted = LiteralEntities(self.committed, reader, level).scores(terms, model)
        seen["search with hits" if wanted else "search without"] += 1
        every = found.top(terms, len(wanted) + 1, model)
        assert_scores(every, wanted, model)
        assert every == sorted(every, key=lambda one: (-one[1], one[0]))
        assert found.top(terms, k, model) == every[:k]
        alone = only_readable(self.committed, reader).level(level)
        assert [one[:2] for one in alone.top(terms, k, model)] == [one[:2] for one in every[:k]]

    @invariant()
    def statistics_are_those_of_what_each_reader_may_read(self) -> None:
        if not hasattr(self, "shard"):
            return
        for reader in self.readers():
            view = self.shard.view(reader)
            for level in LEVELS:
                found, wanted = view.level(level), LiteralEntities(self.committed, reader, level)
                assert found.n_entities == wanted.n_entities
                assert found.mean_length == wanted.mean_length
                assert found.n_pairs == wanted.n_pairs
                assert found.frequencies(WORDS).tolist() == [*map(wanted.frequency, WORDS)]
                assert found.occurrences(WORDS).tolist() == [*map(wanted.occurrences, WORDS)]
            assert view.vocabulary() == wanted.vocabulary
            seen["hidden"] += len(self.committed) > view.level("document").n_entities > 0
            shown = frozenset(
                (name, one.pod_id, one.text)
                for name, one in self.committed.items()
                if one.rights.allow(reader)
            )
            assert self.versions.setdefault(shown, view.version) == view.version
        assert len(set(self.versions.values())) == len(self.versions)

    @invariant()
    def each_reader_finds_what_they_may_read(self) -> None:
        if not hasattr(self, "shard"):
            return
        for reader in self.readers():
            level, model, k = next(self.turns)
            self.check_search(reader, level, WORDS[k : k + 3], model, k)

    @invariant()
    def the_next_commit_is_known_pod_by_pod(self) -> None:
        if not hasattr(self, "shard"):
            return
        for pod_id in ("p1", "p2", "p3", "p4"):
            here = {name: one for name, one in self.pending.items() if one.pod_id == pod_id}
            assert self.shard.etags(PodId(pod_id)) == {n: one.etag for n, one in here.items()}
            assert self.shard.rights(PodId(pod_id)) == {n: one.rights for n, one in here.items()}


def only_readable(index: Mapping[str, Entry], reader: Reader) -> ReaderView:
    """Return the view of an index that never held anything else than what the reader may read."""
    kept = sorted((name, one) for name, one in index.items() if one.rights.allow(reader))
    counts = count_terms((" ".join(one.terms) for _, one in kept), ANALYSIS)
    pods = sorted({one.pod_id for _, one in kept})
    n = len(kept)
    segment = Segment(
        Postings.build(counts),
        [DocId(name) for name, _ in kept],
        np.array([pods.index(one.pod_id) for _, one in kept], np.int32),
        np.ones(n, np.bool_),
        np.zeros(n, np.int32),
    )
    return ReaderView(
        Snapshot(1, (segment,), tuple(map(PodId, pods)), (Rights(public=True),)), reader
    )


def assert_scores(
    found: list[tuple[str, float, int]], wanted: Mapping[str, float], model: ModelSettings
) -> None:
    assert {name for name, _, _ in found} == wanted.keys()
    for name, score, _ in found:
        if model.model == "tfidf-euclidean":  # a root makes small errors large
            assert math.isclose(score**2, wanted[name] ** 2, rel_tol=1e-12, abs_tol=1e-11)
        else:
            assert math.isclose(score, wanted[name], rel_tol=1e-12, abs_tol=1e-12)


seen: Counter[str] = Counter()  # how often the machine did what it is for


def test_a_shard_answers_as_a_dict_of_texts_and_rights_would() -> None:
    seen.clear()
    how = settings(max_examples=20, stateful_step_count=20)
    run_state_machine_as_test(ShardMachine, settings=how)
    assert seen["search with hits"] > 100
    assert seen["hidden"] > 100
    assert seen["change"] > 10
