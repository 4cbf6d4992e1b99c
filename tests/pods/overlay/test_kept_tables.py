"""Grants and revocations, searched with kept tables over nodes in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Rights
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.tokens import TokenVerifier
from cloister.pods.search_server import SearchServer
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode
from cloister.search.table_settings import TableSettings
from pods.overlay.overlay_scene import ALICE, BOB, compile_kernels, credential, new_issuer, trusted

ISSUER = new_issuer()
SERVERS = tuple(ServerId(f"clinic-{i}") for i in range(3))
TEXTS = ("asthma and cough", "fever fever cough", "rash at night", "asthma asthma attack")
SHARED = Rights(owner=BOB, agents=frozenset({ALICE}))
CLOSED = Rights(owner=BOB)
KEPT = SearchSettings(
    summaries="kept", n_servers=2, table=TableSettings(hash_bits=24), table_age_s=60.0
)


class Clinics:
    """Three servers with the same texts; Bob owns all, and shares what he likes with Alice."""

    def __init__(self, folder: Path) -> None:
        self._open = ExitStack()
        self.now_s = 1_000.0
        self.shards: dict[ServerId, Shard] = {}
        self.shared: set[DocId] = set()
        for name in SERVERS:
            shard = Shard.open(folder / name, server_id=name)
            self.shards[name] = self._open.enter_context(shard)
            self.write(name, [0, 1, 2])
        servers = [SearchServer(name, self._opener(name), version=self._version(name))
                   for name in SERVERS]  # fmt: skip
        overlay = InProcessOverlay(servers, TokenVerifier([trusted(ISSUER)]))
        self.overlay = self._open.enter_context(overlay)

    def __enter__(self) -> Clinics:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def write(self, name: ServerId, numbers: list[int]) -> None:
        """Write documents that nobody but Bob may read."""
        ids = [DocId(f"{name}/{number}") for number in numbers]
        self.shards[name].add(
            IndexedDocument(doc_id, PodId(f"{name}/pod"), TEXTS[number], CLOSED)
            for doc_id, number in zip(ids, numbers, strict=True)
        )
        self.shards[name].commit()
        self.shared.difference_update(ids)

    def change(self, name: ServerId, number: int, rights: Rights) -> None:
        doc_id = DocId(f"{name}/{number}")
        self.shards[name].set_rights({doc_id: rights})
        self.shards[name].commit()
        (self.shared.add if rights is SHARED else self.shared.discard)(doc_id)

    def searcher(self, settings: SearchSettings = KEPT, agent: AgentId = ALICE) -> Searcher:
        nodes = self.overlay.nodes(credential(ISSUER, agent).token)
        made = Searcher(nodes, settings=settings, ask=ask_within(30.0))
        if settings.summaries == "kept":
            made._known._clock = lambda: self.now_s  # type: ignore[union-attr]
        return made

    def _opener(self, name: ServerId):
        shard = self.shards[name]
        return lambda reader: ShardNode(name, lambda: shard.view(reader))

    def _version(self, name: ServerId):
        return lambda reader: self.shards[name].view(reader).version


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


@pytest.fixture
def clinics(tmp_path: Path) -> Iterator[Clinics]:
    with Clinics(tmp_path) as made:
        yield made


def _found(outcome: SearchOutcome) -> set[DocId]:
    return {result.doc_id for result in outcome.results}


def test_a_grant_shows_when_tables_are_made_anew_and_a_revocation_at_once(clinics: Clinics) -> None:
    first = SERVERS[0]
    searcher = clinics.searcher()
    outcome = searcher.search("cough")
    assert (_found(outcome), outcome.servers_asked, outcome.missing) == (set(), (), ())
    clinics.change(first, 0, SHARED)
    assert _found(searcher.search("cough")) == set()  # nobody has told the searcher yet
    clinics.now_s += 60
    assert _found(searcher.search("cough")) == {f"{first}/0"}

    clinics.change(first, 0, CLOSED)
    outcome = searcher.search("cough")
    assert (_found(outcome), outcome.servers_asked) == (set(), (first,))  # by the old table
    outcome = searcher.search("cough")
    assert (_found(outcome), outcome.servers_asked) == (set(), ())  # its answer told of the change
    assert outcome.statistics is not None
    assert outcome.statistics.n_entities == 0
    assert outcome.missing == ()


def test_an_answer_with_another_version_brings_what_is_new_there(clinics: Clinics) -> None:
    first = SERVERS[0]
    clinics.change(first, 0, SHARED)
    searcher = clinics.searcher()
    before = searcher.search("asthma").statistics
    clinics.change(first, 1, SHARED)
    searcher.search("asthma")
    after = searcher.search("asthma").statistics
    assert (before.n_entities, after.n_entities) == (1, 2)
    assert _found(searcher.search("fever")) == {f"{first}/1"}


def test_tables_of_one_user_say_nothing_to_another(clinics: Clinics) -> None:
    assert len(_found(clinics.searcher(agent=BOB).search("cough"))) == 4  # two of three servers
    stranger = clinics.searcher(agent=AgentId("https://id.example/eve")).search("cough")
    assert (stranger.results, stranger.servers_asked, stranger.missing) == ((), (), ())
    assert stranger.statistics.table == {"cough": 0.0}


servers = st.sampled_from(SERVERS)
numbers = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("share"), servers, numbers),
        st.tuples(st.just("close"), servers, numbers),
        st.tuples(st.just("write"), servers, numbers),
        st.tuples(
            st.just("search"), st.sampled_from(["cough", "asthma fever", "night"]), st.none()
        ),
        st.tuples(st.just("wait"), st.floats(0, 70), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=12, deadline=None)
@given(steps)
def test_whatever_changes_nothing_shows_that_may_not_be_read_and_old_tables_end(drawn) -> None:
    with tempfile.TemporaryDirectory() as folder, Clinics(Path(folder)) as clinics:
        searcher = clinics.searcher()
        for kind, where, number in drawn:
            if kind == "search":
                outcome = searcher.search(where, k=20)
                assert _found(outcome) <= clinics.shared
                assert (len(outcome.servers_asked) <= 2, outcome.missing) == (True, ())
            elif kind == "wait":
                clinics.now_s += where
            elif kind == "write":
                clinics.write(where, [number])
            elif DocId(f"{where}/{number}") in clinics.shards[where].rights(PodId(f"{where}/pod")):
                clinics.change(where, number, SHARED if kind == "share" else CLOSED)
        clinics.now_s += 60
        asked = KEPT.model_copy(update={"summaries": "asked"})
        for text in ("cough", "asthma fever night"):
            wanted = clinics.searcher(asked).search(text, k=20, explain=True)
            assert searcher.search(text, k=20, explain=True) == wanted
