"""Whatever is hidden changes nothing: the same answers as in a world without it, bit for bit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import ServerId
from cloister.index.entity_weights import SPARSE_MODELS, ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.search.adaptive_stop import StopSettings
from cloister.search.node import SubQuery, SummaryRequest
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode
from search.small_world import (
    ALICE,
    ANALYSIS,
    Note,
    node,
    nodes,
    queries,
    reading,
    segment,
    snapshot,
    texts,
    worlds,
)

hidden_notes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), texts), min_size=1, max_size=8
)


@st.composite
def pairs_of_worlds(draw: st.DrawFn) -> tuple[list[Note], list[Note], list[int]]:
    """Draw what Alice may read, the same with hidden notes anywhere, and sizes of segments."""
    plain = [note._replace(readable=True) for note in draw(worlds())]
    servers = sorted({note.server_id for note in plain})
    full = list(plain)
    for number, (server, pod, text) in enumerate(draw(hidden_notes)):
        name = servers[server % len(servers)]
        # Names before, between and after those that Alice may read.
        doc_id = draw(st.sampled_from(["a", "d05x", "z"])) + str(number)
        place = draw(st.integers(0, len(full)))
        full.insert(place, Note(doc_id, f"{name}-p{pod}", name, text, readable=False))
    return plain, full, draw(st.lists(st.integers(0, 4), max_size=3))


settings_of_a_search = st.one_of(
    st.builds(
        SearchSettings,
        model=st.builds(
            ModelSettings,
            model=st.sampled_from(SPARSE_MODELS),
            idf=st.sampled_from(["non_negative", "printed"]),
        ),
        statistics=st.sampled_from(["user", "own"]),
        selection=st.sampled_from(["entity", "best-impact"]),
        n_servers=st.one_of(st.none(), st.integers(1, 3)),
        n_pods=st.one_of(st.none(), st.integers(1, 2)),
        n_best=st.integers(1, 3),
    ),
    st.builds(
        SearchSettings,
        model=st.builds(ModelSettings, model=st.sampled_from(["bm25", "lm"])),
        n_best=st.integers(1, 3),
        stop=st.builds(StopSettings, form=st.sampled_from(["strict", "probable"])),
    ),
)


@given(pairs_of_worlds(), queries, settings_of_a_search, st.integers(1, 6), st.booleans())
def test_hidden_documents_change_nothing_in_an_outcome(pair, query, settings, k, levels):
    plain, full, sizes = pair
    wanted, found = (
        Searcher(servers, ANALYSIS, settings).search(
            query, k=k, explain=True, explain_levels=levels
        )
        for servers in (nodes(plain), nodes(full, sizes))
    )
    assert found == wanted
    assert [one.text() for one in found.explanations] == [one.text() for one in wanted.explanations]


@given(pairs_of_worlds(), queries, st.integers(0, 3), st.booleans(), st.booleans())
def test_hidden_documents_change_nothing_in_a_summary(pair, query, n_best, with_pairs, all_terms):
    plain, full, sizes = pair
    request = SummaryRequest(tuple(ANALYSIS.terms(query)), n_best, with_pairs, all_terms)
    for name in {note.server_id for note in plain}:
        assert node(full, name, sizes).summarise(request) == node(plain, name).summarise(request)


class _Changing:
    """A server whose index changes between two requests."""

    def __init__(self, notes: list[Note]) -> None:
        self.notes = notes
        self.commits = 1
        self.node = ShardNode(ServerId("s"), self._view, lambda doc_id: reading(self.notes)(doc_id))

    def _view(self) -> ReaderView:
        return ReaderView(snapshot(self.notes, self.commits), ALICE)

    def commit(self, notes: list[Note]) -> None:
        self.notes, self.commits = notes, self.commits + 1


SUMMARY = SummaryRequest(("asthma", "secret"), 3, True, True)
QUERY = SubQuery(("asthma", "secret"), ModelSettings(), 5, explain=True, explain_pods=True)
SEEN = Note("d1", "p1", "s", "asthma at night")
SECRET = Note("d0", "p0", "s", "asthma secret secret", readable=False)


def _all_of(server: _Changing) -> tuple[Any, ...]:
    return server.node.summarise(SUMMARY), server.node.answer(QUERY)


def test_a_commit_of_something_hidden_does_not_show_even_in_the_version():
    server = _Changing([SEEN])
    before = _all_of(server)
    server.commit([SECRET, SEEN])
    assert _all_of(server) == before
    server.commit([SECRET._replace(text="other words"), SEEN])
    assert _all_of(server) == before


def test_a_grant_and_a_revocation_show_at_the_next_request():
    server = _Changing([SECRET, SEEN])
    before = _all_of(server)
    server.commit([SECRET._replace(readable=True), SEEN])
    summary, answer = _all_of(server)
    assert summary.version != before[0].version
    assert summary.terms["secret"].n_documents == 1
    assert [hit.doc_id for hit in answer.hits] == ["d0", "d1"]
    server.commit([SECRET, SEEN])
    assert _all_of(server) == before


def test_a_searcher_forgets_what_was_revoked():
    server = _Changing([SECRET._replace(readable=True), SEEN])
    searcher = Searcher([server.node], ANALYSIS)
    assert searcher.search("secret asthma").statistics.table == {"secret": 1, "asthma": 2}
    server.commit([SECRET, SEEN])
    outcome = searcher.search("secret asthma")
    assert outcome.statistics.table == {"secret": 0, "asthma": 1}
    assert outcome == Searcher([_Changing([SEEN]).node], ANALYSIS).search("secret asthma")


def test_a_document_that_its_pod_refuses_is_not_shown():
    """The index was not synchronised yet; the pod's own rights decide."""
    late = [SECRET._replace(readable=True), SEEN]
    view = ReaderView(snapshot(late), ALICE)
    asked = ShardNode(ServerId("s"), lambda: view, reading([SECRET, SEEN]), analysis=ANALYSIS)
    answer = asked.answer(QUERY._replace(k=1))
    assert [hit.doc_id for hit in answer.hits] == ["d1"]


def test_numbers_of_listed_documents_depend_on_names_alone():
    first = node([SEEN], "s").summarise(SummaryRequest(("asthma",), 1))
    second = node([SECRET, Note("d", "p9", "s", ""), SEEN], "s").summarise(
        SummaryRequest(("asthma",), 1)
    )
    assert first.terms == second.terms


def test_segments_without_a_readable_document_leave_no_trace():
    pods = ("p1", "p0")
    one = segment([SEEN], pods)
    two = segment([SECRET], pods)
    whole = snapshot([SEEN, SECRET])
    apart = whole._replace(segments=(two, one, two))
    views = [ReaderView(state, ALICE) for state in (whole, apart)]
    found = [ShardNode(ServerId("s"), lambda view=view: view).summarise(SUMMARY) for view in views]
    assert found[0] == found[1]
