"""Tables that are kept: the same outcome, fewer servers asked, and nothing old for too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_weights import ModelSettings
from cloister.index.reader_view import ReaderView
from cloister.search.adaptive_stop import StopSettings
from cloister.search.asking import ask_in_turn
from cloister.search.known_tables import RETRY_S, KnownTables
from cloister.search.node import (
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.selector_table import SelectorTable
from cloister.search.shard_node import ShardNode
from cloister.search.table_settings import TableSettings
from search.small_world import ALICE, ANALYSIS, Note, nodes, queries, reading, snapshot, worlds
from search.test_no_leak import pairs_of_worlds

EXACT = TableSettings(hash_bits=24)  # none of the words here is taken for another
MAX_AGE_S = 60.0
S0, S1, S2 = (ServerId(f"s{i}") for i in range(3))
NOTES = [
    Note("d1", "p1", "s0", "asthma cough"),
    Note("d2", "p2", "s1", "asthma fever fever"),
    Note("d3", "p3", "s2", "rash rash night"),
]


class Server:
    """A server whose notes can be exchanged, who remembers what it was asked and can fail."""

    def __init__(self, notes: Sequence[Note], name: ServerId = S0) -> None:
        self.server_id = name
        self.calls: list[Any] = []
        self.fails: tuple[type, ...] = ()
        self.altered: Callable[[ServerTable], Any] = lambda table: table
        self.commit(notes)

    def commit(self, notes: Sequence[Note]) -> None:
        mine = [note for note in notes if note.server_id == self.server_id]
        self._view = ReaderView(snapshot(mine), ALICE)
        self._node = ShardNode(self.server_id, lambda: self._view, reading(mine), analysis=ANALYSIS)

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        self._asked(request)
        return self._node.summarise(request)

    def table(self, request: TableRequest) -> ServerTable:
        self._asked(request)
        return self.altered(self._node.table(request))

    def answer(self, query: SubQuery) -> SubAnswer:
        self._asked(query)
        return self._node.answer(query)

    def taken(self) -> list[str]:
        """Return the kinds of requests since it was asked last."""
        kinds = [type(one).__name__ for one in self.calls]
        self.calls.clear()
        return kinds

    def _asked(self, request: Any) -> None:
        self.calls.append(request)
        if isinstance(request, self.fails):
            raise TimeoutError("the secret note d99 took too long")


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def servers_of(notes: Sequence[Note]) -> list[Server]:
    return [Server(notes, ServerId(name)) for name in sorted({note.server_id for note in notes})]


def searcher_of(servers: Sequence[Any], clock: Clock, **fields: Any) -> Searcher:
    made = Searcher(servers, ANALYSIS, SearchSettings(summaries="kept", table=EXACT, **fields))
    made._known._clock = clock  # type: ignore[union-attr]
    return made


def known_of(server: Any, clock: Clock, **options: Any) -> KnownTables:
    return KnownTables([server], ask_in_turn, EXACT, MAX_AGE_S, clock=clock, **options)


def documents_of(known: KnownTables, term: str = "asthma") -> list[int]:
    return [one.terms[term].n_documents for one in known.gather([term]).summaries]


# What a search finds.

kept_settings = st.builds(
    lambda stop, statistics, **fields: SearchSettings(
        stop=StopSettings(form="never" if statistics == "own" else stop),
        statistics=statistics,
        table=EXACT.model_copy(update={"n_best": fields["n_best"]}),
        **fields,
    ),
    model=st.builds(ModelSettings, model=st.sampled_from(["bm25", "lm"])),
    statistics=st.sampled_from(["user", "own"]),
    selection=st.sampled_from(["entity", "best-impact"]),
    n_servers=st.one_of(st.none(), st.integers(1, 3)),
    n_pods=st.one_of(st.none(), st.integers(1, 2)),
    n_best=st.integers(1, 3),
    stop=st.sampled_from(["never", "strict", "probable"]),
)


def kept(asked: SearchSettings) -> SearchSettings:
    return asked.model_copy(update={"summaries": "kept"})


@settings(max_examples=60)
@given(worlds(), st.lists(queries, min_size=1, max_size=2), kept_settings, st.integers(1, 6))
def test_kept_tables_give_the_outcome_of_asking_every_server(notes, texts, asked, k):
    one = Searcher(nodes(notes), ANALYSIS, asked)
    other = Searcher(nodes(notes), ANALYSIS, kept(asked))
    for text in texts:
        wanted = one.search(text, k=k, explain=True)
        assert other.search(text, k=k, explain=True) == wanted


@settings(max_examples=40)
@given(pairs_of_worlds(), queries, kept_settings, st.integers(1, 6), st.integers(0, 200))
def test_hidden_documents_change_nothing_with_kept_tables(pair, query, asked, k, max_bytes):
    plain, full, sizes = pair
    short = asked.table.model_copy(update={"max_bytes": max_bytes, "hash_bits": 4})
    how = kept(asked).model_copy(update={"table": short})
    wanted = Searcher(nodes(plain), ANALYSIS, how).search(query, k=k, explain=True)
    found = Searcher(nodes(full, sizes), ANALYSIS, how).search(query, k=k, explain=True)
    assert found == wanted


# Who is asked, and when.


def test_after_the_first_query_only_chosen_servers_are_asked_until_tables_are_old():
    servers, clock = servers_of(NOTES), Clock()
    searcher = searcher_of(servers, clock, n_servers=1)
    searcher.search("rash")
    assert [one.taken() for one in servers] == [
        ["TableRequest"],
        ["TableRequest"],
        ["TableRequest", "SubQuery"],
    ]
    for text, chosen in (("cough", 0), ("fever", 1), ("rash asthma night", 2), ("unknown", None)):
        clock.now_s += MAX_AGE_S / 5
        outcome = searcher.search(text)
        assert outcome.servers_asked == (() if chosen is None else (servers[chosen].server_id,))
        expected = [["SubQuery"] if i == chosen else [] for i in range(3)]
        assert [one.taken() for one in servers] == expected
    clock.now_s += MAX_AGE_S / 5
    searcher.search("unknown")  # now only the versions are asked for
    for server in servers:
        assert server.calls == [SummaryRequest(())]
    clock.now_s += MAX_AGE_S / 2
    assert searcher.search("cough").servers_asked == (S0,)
    assert Counter(kind for one in servers for kind in one.taken()) == {
        "SummaryRequest": 3,
        "SubQuery": 1,
    }


@given(
    st.integers(1, 3),
    st.lists(st.tuples(queries, st.floats(0, 30)), min_size=2, max_size=8),
)
def test_no_query_contacts_more_than_s_servers_while_tables_hold(n_servers, drawn):
    servers, clock = servers_of(NOTES), Clock()
    searcher = searcher_of(servers, clock, n_servers=n_servers)
    searcher.search("asthma")
    begun_s = clock.now_s
    for text, pause_s in drawn:
        for server in servers:
            server.taken()
        clock.now_s += pause_s
        if clock.now_s - begun_s >= MAX_AGE_S:
            return
        searcher.search(text)
        assert sum(bool(server.calls) for server in servers) <= n_servers


def test_a_server_that_changed_is_asked_for_its_new_table_once_the_old_one_may_be_old():
    server, clock = Server(NOTES), Clock()
    known = known_of(server, clock)
    assert documents_of(known) == [1]
    server.commit([*NOTES, Note("d4", "p1", "s0", "asthma")])
    clock.now_s += MAX_AGE_S - 1
    assert documents_of(known) == [1]
    assert server.taken() == ["TableRequest"]
    clock.now_s += 1
    assert documents_of(known) == [2]
    assert server.taken() == ["SummaryRequest", "TableRequest"]


def test_an_age_of_zero_asks_for_the_version_each_time():
    server, clock = Server(NOTES), Clock()
    known = KnownTables([server], ask_in_turn, EXACT, 0.0, clock=clock)
    documents_of(known)
    for _ in range(2):
        clock.now_s += 1e-3
        assert documents_of(known) == [1]
    assert server.taken() == ["TableRequest", "SummaryRequest", "SummaryRequest"]


def test_a_clock_that_was_set_back_makes_tables_old():
    server, clock = Server(NOTES), Clock()
    known = known_of(server, clock)
    documents_of(known)
    clock.now_s -= 10 * MAX_AGE_S
    assert documents_of(known) == [1]
    assert server.taken() == ["TableRequest", "SummaryRequest"]


def test_an_answer_with_another_version_brings_a_new_table():
    servers, clock = servers_of(NOTES), Clock()
    searcher = searcher_of(servers, clock, n_servers=1)
    assert searcher.search("cough").statistics.n_entities == 3
    servers[0].commit([note._replace(readable=False) for note in NOTES])
    outcome = searcher.search("cough")  # chosen by the old table; the document is not shown
    assert (outcome.results, outcome.servers_asked) == ((), (S0,))
    for server in servers:
        server.taken()
    outcome = searcher.search("cough")
    assert [one.taken() for one in servers] == [["TableRequest"], [], []]
    assert (outcome.servers_asked, outcome.missing) == ((), ())
    assert outcome.statistics.n_entities == 2


# Servers that fail or lie.


def test_a_server_without_a_table_is_missing_and_asked_again_after_a_while():
    server, clock = Server(NOTES), Clock()
    server.fails = (TableRequest,)
    known = known_of(server, clock)
    for _ in range(3):
        assert known.gather(["asthma"]) == ([], (S0,))
    assert server.taken() == ["TableRequest"]
    server.fails = ()
    clock.now_s += RETRY_S
    assert documents_of(known) == [1]


def test_a_server_whose_table_may_be_old_is_missing_until_it_says_its_version():
    server, clock = Server(NOTES), Clock()
    known = known_of(server, clock)
    documents_of(known)
    server.fails = (SummaryRequest,)
    clock.now_s += MAX_AGE_S
    assert known.gather(["asthma"]) == ([], (S0,))
    server.fails = ()
    clock.now_s += RETRY_S
    assert documents_of(known) == [1]
    assert server.taken() == ["TableRequest", "SummaryRequest", "SummaryRequest"]


def test_a_table_that_is_known_to_be_old_is_not_used_where_no_new_one_comes():
    server, clock = Server(NOTES), Clock()
    known = known_of(server, clock)
    documents_of(known)
    server.fails = (TableRequest,)
    known.noticed(S0, -1)
    assert known.gather(["asthma"]) == ([], (S0,))


def _altered(place: int) -> Callable[[ServerTable], ServerTable]:
    def alter(table: ServerTable) -> ServerTable:
        content = bytearray(table.content)
        content[place % len(content)] ^= 1
        return table._replace(content=bytes(content))

    return alter


@pytest.mark.parametrize(
    "alter",
    [
        _altered(0),
        _altered(-1),
        lambda table: table._replace(content=b""),
        lambda table: table._replace(content=table.content[:-1]),
        lambda table: table._replace(version=table.version + 1),
        lambda table: table._replace(server_id=S1),
        lambda table: Server(NOTES, S1)._node.table(TableRequest(EXACT)),
        lambda table: Server(NOTES, S1)._node.table(TableRequest(EXACT))._replace(server_id=S0),
        lambda table: SubAnswer(S0, table.version, ()),
        lambda table: None,
    ],
    ids=["head", "end", "empty", "cut", "version", "name", "other", "forged", "answer", "none"],
)
def test_a_damaged_or_wrong_table_makes_its_server_missing(alter):
    servers, clock = servers_of(NOTES), Clock()
    servers[0].altered = alter
    outcome = searcher_of(servers, clock).search("asthma")
    assert outcome.missing == (S0,)
    assert [result.doc_id for result in outcome.results] == ["d2"]


def _table_that_says(**changes: Any) -> Any:
    """Stand for a table whose checksum is right and whose numbers are not."""
    whole = Server(NOTES)._node.summarise(SummaryRequest(("asthma",), 2, with_pairs=True))
    return SimpleNamespace(
        server_id=S0, version=whole.version, summary=lambda terms: whole._replace(**changes)
    )


def _raising(terms: Sequence[str]) -> ServerSummary:
    raise IndexError("out of range")


@pytest.mark.parametrize(
    "table",
    [
        _table_that_says(n_tokens=0),
        _table_that_says(server_id=S1),
        _table_that_says(terms={}),
        _table_that_says(version=-1),
        SimpleNamespace(server_id=S0, version=1, summary=_raising),
        SimpleNamespace(server_id=S1, version=1, summary=_raising),
    ],
)
def test_numbers_that_cannot_be_true_make_the_server_missing(table):
    server, clock = Server(NOTES), Clock()
    assert documents_of(known_of(server, clock, source=lambda name: _table_that_says())) == [1]
    known = known_of(server, clock, source=lambda name: table)
    assert known.gather(["asthma"]) == ([], (S0,))


def test_what_a_failing_server_raises_is_not_told():
    servers, clock = servers_of(NOTES), Clock()
    servers[0].fails = (TableRequest,)
    assert "secret" not in repr(searcher_of(servers, clock).search("asthma"))


# Tables from elsewhere.


def test_tables_from_a_source_ask_no_node():
    server, clock = Server(NOTES), Clock()
    table = SelectorTable.from_bytes(server._node.table(TableRequest(EXACT)).content)
    looked = []

    def source(name: ServerId) -> SelectorTable:
        looked.append(name)
        return table

    known = known_of(server, clock, source=source)
    assert documents_of(known) == documents_of(known) == [1]
    assert (looked, server.calls) == ([S0], [])
    clock.now_s += MAX_AGE_S
    assert documents_of(known) == [1]
    assert (looked, server.calls) == ([S0, S0], [])


def test_a_source_that_is_behind_is_looked_at_once_for_each_version():
    server, clock, looked = Server(NOTES), Clock(), []
    behind = SelectorTable.from_bytes(server._node.table(TableRequest(EXACT)).content)

    def source(name: ServerId) -> SelectorTable:
        looked.append(name)
        return behind

    known = known_of(server, clock, source=source)
    for version in (behind.version, 7, 7, 8, 8):
        assert documents_of(known) == [1]
        known.noticed(S0, version)
        known.noticed(S1, version)  # a server that nobody knows
    documents_of(known)
    assert len(looked) == 3


def _failing_source(name: ServerId) -> SelectorTable:
    raise PermissionError("the pod of eve")


@pytest.mark.parametrize("source", [lambda name: None, _failing_source])
def test_a_server_that_a_source_has_no_table_of_is_missing(source):
    server = Server(NOTES)
    assert known_of(server, Clock(), source=source).gather(["asthma"]) == ([], (S0,))
    assert server.calls == []


def test_a_searcher_takes_tables_from_a_source():
    servers = servers_of(NOTES)
    tables = {
        one.server_id: SelectorTable.from_bytes(one._node.table(TableRequest(EXACT)).content)
        for one in servers
    }
    how = SearchSettings(summaries="kept", table=EXACT, n_servers=1)
    outcome = Searcher(servers, ANALYSIS, how, tables=tables.get).search("fever")
    assert [result.doc_id for result in outcome.results] == ["d2"]
    assert [one.taken() for one in servers] == [[], ["SubQuery"], []]


# What cannot be had.


@pytest.mark.parametrize(
    "fields",
    [
        {"model": ModelSettings(model="tfidf-cosine")},
        {"model": ModelSettings(model="tfidf-euclidean")},
        {"vector_model": "w2v-cosine", "selection": "entity"},
    ],
)
def test_models_of_vectors_need_asked_summaries(fields):
    SearchSettings(**fields)
    with pytest.raises(SettingsError, match="kept tables hold no vectors"):
        SearchSettings(summaries="kept", **fields)


def test_tables_do_not_say_which_terms_there_are():
    with pytest.raises(SettingsError, match="does not hold the terms"):
        known_of(Server(NOTES), Clock()).gather(["asthma"], all_terms=True)


def test_a_source_of_tables_is_refused_where_summaries_are_asked_for():
    with pytest.raises(SettingsError, match="tables"):
        Searcher(servers_of(NOTES), tables=_failing_source)


# The server's side.


def test_a_node_keeps_its_table_until_the_view_or_the_settings_change():
    server = Server([*NOTES, Note("d9", "p9", "s0", "rash", readable=False)])
    node = server._node
    first = node.table(TableRequest(EXACT))
    assert node.table(TableRequest(EXACT)) is first
    shorter = node.table(TableRequest(TableSettings(max_bytes=0)))
    assert len(shorter.content) < len(first.content)
    kept_table = node.table(TableRequest(EXACT))
    assert kept_table == first
    server._view = ReaderView(snapshot(NOTES[:1]), ALICE)  # without what Alice may not read
    assert node.table(TableRequest(EXACT)) is kept_table
    server._view = ReaderView(snapshot([NOTES[0]._replace(text="rash")]), ALICE)
    changed = node.table(TableRequest(EXACT))
    assert changed.version != first.version
    assert SelectorTable.from_bytes(changed.content).summary(["asthma"]).terms["asthma"] == (
        0, 0, 0, (),
    )  # fmt: skip
