"""Nodes in one process: the same rights, partial answers, and the time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError
from cloister.core.ids import AgentId, ServerId
from cloister.core.rights import STRANGER, Reader
from cloister.index.entity_weights import ModelSettings
from cloister.pods.overlay.fan_out import ask_all, ask_within
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.tokens import TokenVerifier
from cloister.pods.search_server import RequestLimits, SearchServer
from cloister.search.node import (
    SearchNode,
    ServerSummary,
    ServerTable,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TableRequest,
)
from cloister.search.searcher import Searcher
from cloister.search.selector_table import SelectorTable
from cloister.search.table_settings import TableSettings
from pods.overlay.overlay_scene import (
    ALICE,
    BOB,
    NURSES,
    SmallIndex,
    compile_kernels,
    credential,
    new_issuer,
    small_server,
    trusted,
)

QUERY = SubQuery(("fever", "cough"), ModelSettings(), 10)
ISSUER = new_issuer()


class _Broken(SearchNode):
    """A node that fails or sleeps."""

    def __init__(self, name: str, wait: threading.Event | None = None) -> None:
        self._name = ServerId(name)
        self._wait = wait

    @property
    def server_id(self) -> ServerId:
        return self._name

    def summarise(self, request: SummaryRequest) -> ServerSummary:
        if self._wait is not None:
            self._wait.wait(10)
        raise RuntimeError("the secret document huntington")

    def answer(self, query: SubQuery) -> SubAnswer:
        self.summarise(SummaryRequest(()))
        raise AssertionError

    def table(self, request: TableRequest) -> ServerTable:
        self.summarise(SummaryRequest(()))
        raise AssertionError


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


@pytest.fixture
def overlay() -> Iterator[InProcessOverlay]:
    servers = [small_server(name) for name in ("a", "b", "c")]
    with InProcessOverlay(servers, TokenVerifier([trusted(ISSUER)])) as one:
        yield one


def _documents(found: dict[ServerId, SubAnswer]) -> set[str]:
    return {hit.doc_id for answer in found.values() for hit in answer.hits}


@pytest.mark.parametrize(
    ("agent", "groups", "numbers"),
    [
        (ALICE, (), {0, 2}),
        (BOB, (), {1, 2}),
        (AgentId("https://id.example/eve"), (), {2}),
        (AgentId("https://id.example/eve"), (NURSES,), {2, 4}),
    ],
)
def test_each_holder_of_a_token_gets_what_they_may_read(
    overlay: InProcessOverlay, agent: AgentId, groups: tuple[str, ...], numbers: set[int]
) -> None:
    nodes = overlay.nodes(credential(ISSUER, agent, groups=groups).token)
    found = ask_all(nodes, QUERY, 10.0)
    assert found.missing == ()
    assert _documents(found.answers) == {f"{name}/{i}" for name in "abc" for i in numbers}
    one = nodes[0].answer(QUERY)
    assert one == found.answers[ServerId("a")]
    summary = nodes[0].summarise(SummaryRequest(("huntington",)))
    assert summary.terms["huntington"].n_documents == (1 if agent == BOB else 0)
    table = nodes[0].table(TableRequest())
    assert ask_all(nodes, TableRequest(), 10.0).answers[ServerId("a")] == table
    read = SelectorTable.from_bytes(table.content).summary(["huntington"])
    assert read.terms["huntington"].n_documents == (1 if agent == BOB else 0)
    assert (read.version, read.documents.n_entities) == (
        summary.version,
        summary.documents.n_entities,
    )


def test_a_wrong_or_ended_token_opens_no_node(overlay: InProcessOverlay) -> None:
    stranger = credential(new_issuer())  # the same name, another key
    with pytest.raises(AccessDenied, match=r"^not allowed, or no such resource"):
        overlay.nodes(stranger.token)
    with InProcessOverlay([small_server("a")]) as trusting_nobody, pytest.raises(AccessDenied):
        trusting_nobody.nodes(credential(ISSUER).token)


def test_a_token_that_ends_between_two_requests_is_refused() -> None:
    now_s = [1_800_000_000.0]
    issuer = new_issuer(clock=lambda: now_s[0])
    tokens = TokenVerifier([trusted(issuer)], clock=lambda: now_s[0])
    with InProcessOverlay([small_server("a")], tokens) as overlay:
        nodes = overlay.nodes(credential(issuer, lifetime_s=60).token)
        assert nodes[0].answer(QUERY).hits
        now_s[0] += 61
        with pytest.raises(AccessDenied):
            nodes[0].answer(QUERY)
        assert ask_all(nodes, QUERY, 10.0).missing == ("a",)


def test_a_revoked_reader_sees_nothing_at_the_next_query() -> None:
    index = SmallIndex(name="a")
    with InProcessOverlay([small_server("a", index)]) as overlay:
        (node,) = overlay.nodes_for_trusted(Reader(ALICE))
        assert _documents({node.server_id: node.answer(QUERY)}) == {"a/0", "a/2"}
        index.set_rights(0, 1)
        assert _documents({node.server_id: node.answer(QUERY)}) == {"a/2"}


def test_failing_and_slow_nodes_are_named_and_the_rest_answers() -> None:
    gate = threading.Event()
    broken = SearchServer(ServerId("x"), lambda reader: _Broken("x"))
    slow = SearchServer(ServerId("y"), lambda reader: _Broken("y", gate))
    with InProcessOverlay([small_server("a"), broken, slow], timeout_s=1.0) as overlay:
        nodes = overlay.nodes_for_trusted(STRANGER)
        begin = time.perf_counter()
        found = ask_all(nodes, QUERY, 1.5)
        assert time.perf_counter() - begin < 5
        assert (set(found.answers), found.missing) == ({"a"}, ("x", "y"))
        with pytest.raises(AccessDenied) as refusal:
            nodes[1].answer(QUERY)
        assert "huntington" not in f"{refusal.value} {refusal.value.__cause__}"
        with pytest.raises(NotFound, match="no answer in time"):
            nodes[2].answer(QUERY)
        assert ask_all(nodes, TableRequest(), 1.5).missing == ("x", "y")
        gate.set()


def test_nodes_of_several_carriers_and_of_none_are_asked_together(
    overlay: InProcessOverlay,
) -> None:
    with InProcessOverlay([small_server("d")]) as other:
        nodes: list[SearchNode] = [*overlay.nodes_for_trusted(STRANGER)]
        nodes += [*other.nodes_for_trusted(STRANGER), _Broken("e")]
        found = ask_all(nodes, SummaryRequest(("cough",)), 10.0)
    assert list(found.answers) == ["a", "b", "c", "d"]
    assert found.missing == ("e",)
    assert ask_all([], QUERY, 1.0).answers == {}
    with pytest.raises(SettingsError, match="twice"):
        ask_all([_Broken("e"), _Broken("e")], QUERY, 1.0)


def test_a_searcher_searches_through_the_overlay(overlay: InProcessOverlay) -> None:
    nodes = overlay.nodes(credential(ISSUER, ALICE).token)
    outcome = Searcher(nodes, ask=ask_within(10.0)).search("cough in the night", k=20)
    assert {result.doc_id for result in outcome.results} >= {"a/0", "b/0", "c/0"}
    assert not any(result.doc_id.endswith(("/1", "/3")) for result in outcome.results)
    assert outcome.missing == ()


@pytest.mark.parametrize(
    "request_",
    [
        SummaryRequest(("a", "b", "c")),
        SummaryRequest(("x" * 11,)),
        SummaryRequest((), n_best=6),
        SummaryRequest((), n_best=-1),
        SummaryRequest((), all_terms=True),
        QUERY._replace(k=0),
        QUERY._replace(k=11),
        QUERY._replace(n_pods=0),
        TableRequest(TableSettings(n_best=6, max_bytes=1_000)),
        TableRequest(TableSettings(n_best=5, max_bytes=1_001)),
    ],
)
def test_a_request_for_too_much_is_refused(
    request_: SummaryRequest | SubQuery | TableRequest,
) -> None:
    limits = RequestLimits(
        n_terms=2, term_characters=10, k=10, n_best=5, all_terms=False, table_bytes=1_000
    )
    server = small_server("a", limits=limits)
    assert server.ask(STRANGER, QUERY).server_id == "a"
    assert server.ask(STRANGER, TableRequest(TableSettings(n_best=5, max_bytes=1_000)))
    with pytest.raises(DataError):
        server.ask(STRANGER, request_)


def test_a_server_may_give_no_tables() -> None:
    server = small_server("a", limits=RequestLimits(table_bytes=0))
    with pytest.raises(DataError, match="no tables"):
        server.ask(STRANGER, TableRequest(TableSettings(max_bytes=0)))


def test_a_node_of_another_server_is_not_asked() -> None:
    server = SearchServer(ServerId("x"), lambda reader: _Broken("y"))
    with pytest.raises(AccessDenied):
        server.ask(STRANGER, QUERY)
