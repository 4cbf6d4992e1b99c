"""Slow nodes and brokers hold up nobody; nodes are chosen, and others are added."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_drawing import ServedRanker
from cloister.index.entity_weights import ModelSettings
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods.overlay import https_overlay
from cloister.pods.overlay.fan_out import ask_within
from cloister.pods.overlay.https_overlay import HttpsOverlay
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.search_server import SearchServer
from cloister.rank.ranker import RankerSettings
from cloister.search.node import (
    Hit,
    LevelScore,
    LevelSummary,
    ScoreRest,
    ServerSummary,
    SubAnswer,
    SubQuery,
    SummaryRequest,
    TermPart,
    TermSummary,
)
from cloister.search.page_features import PAGE_FEATURES
from cloister.search.shard_node import ShardNode
from cloister.services.first_ranker import first_ranker
from cloister.services.node.at_once import AtOnce
from cloister.services.node.broker_link import AWAY_S, BrokerLink
from cloister.services.node.user_search import PageKeeping, Reach, UserSearch
from cloister.services.service_file import NodeSearchSettings
from cloister.store.database import Database
from cloister.web.refusals import PeerUnreachable, TooMany

HOME, B, C, D = (ServerId(f"clinic-{letter}") for letter in "abcd")
ANN = Reader(AgentId("clinic-a:ann"))
CREDENTIAL = Credential("token", new_holder_key())
QUERY = SubQuery(("cough",), ModelSettings(), 5)


class Peer:
    """A node that answers, or hangs until it is let go."""

    def __init__(self, answer: Callable[[], SubAnswer]) -> None:
        self._answer = answer
        self.goes = threading.Event()
        self.goes.set()
        self.n_calls = 0

    def post_bytes(self, path: str, content: bytes, timeout_s: float) -> bytes:
        self.n_calls += 1
        if not self.goes.wait(timeout_s):
            raise PeerUnreachable("no answer in time")
        return content

    def close(self) -> None:
        self.goes.set()


@pytest.fixture(autouse=True)
def _plain_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let peers answer without proofs: what carries and who waits is tested here."""

    def read(content: bytes, nonce: str) -> Any:
        return https_overlay.ReplyFrame(https_overlay.ReplyKind.ANSWER, nonce, content)

    monkeypatch.setattr(https_overlay.ReplyFrame, "from_bytes", staticmethod(read))
    monkeypatch.setattr(
        https_overlay, "decode_answer", lambda content, request: SubAnswer(B, 1, ())
    )


def peers(*names: ServerId) -> dict[ServerId, Peer]:
    return {name: Peer(lambda name=name: SubAnswer(name, 1, ())) for name in names}  # type: ignore[misc]


def test_a_node_that_hangs_holds_up_nobody_elses_answers_and_is_left_alone() -> None:
    ways = peers(B, C)
    ways[C].goes.clear()
    with HttpsOverlay(ways, n_threads=2) as overlay:  # type: ignore[arg-type]
        found: list[set[ServerId]] = []

        def search() -> None:
            nodes = overlay.nodes(CREDENTIAL)
            found.append(set(overlay.gather(nodes, QUERY, 0.3)))

        threads = [threading.Thread(target=search) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [{B}] * 20
        n_before, began = ways[C].n_calls, time.monotonic()
        search()
        assert time.monotonic() - began < 0.2  # it is not waited for again
        assert ways[C].n_calls == n_before


@pytest.mark.parametrize("_", range(3))
def test_the_first_search_after_a_node_hangs_loses_that_node_alone(
    own: InProcessOverlay, _: int
) -> None:
    ways = peers(B, C)
    ways[C].goes.clear()
    with HttpsOverlay(ways) as others:  # type: ignore[arg-type]
        (home,) = own.nodes_for_trusted(ANN)
        home.ask_directly(QUERY)  # kernels are compiled
        found = ask_within(0.5)([home, *others.nodes(CREDENTIAL)], QUERY)
    assert (list(found[0]), found[1]) == ([HOME, B], (C,))


def test_a_node_that_was_silent_is_asked_again_after_a_while() -> None:
    now = [0.0]
    ways = peers(B)
    ways[B].goes.clear()
    with HttpsOverlay(ways, clock=lambda: now[0]) as overlay:  # type: ignore[arg-type]
        ask = ask_within(0.1)
        assert ask(overlay.nodes(CREDENTIAL), QUERY)[1] == (B,)
        ways[B].goes.set()
        assert ask(overlay.nodes(CREDENTIAL), QUERY)[1] == (B,)
        now[0] = https_overlay.AWAY_S
        assert ask(overlay.nodes(CREDENTIAL), QUERY)[1] == ()


class Silent:
    """A broker that does not answer."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    def post_json(self, path: str, body: object, *, timeout_s: float) -> Any:
        self.asked_s.append(timeout_s)
        raise PeerUnreachable("no answer")


def test_a_broker_that_is_away_is_asked_for_a_moment_and_then_left_alone() -> None:
    now, silent = [100.0], Silent()
    link = BrokerLink(silent, timeout_s=0.5, clock=lambda: now[0])  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(PeerUnreachable):
            link.chosen(["cough"], 2)
    assert silent.asked_s == [0.5]
    now[0] += AWAY_S
    with pytest.raises(PeerUnreachable):
        link.chosen(["cough"], 2)
    assert len(silent.asked_s) == 2


class Choosing:
    """A broker that chooses what it is told to."""

    def __init__(self, *names: ServerId) -> None:
        self.names = names

    def chosen(self, terms: Sequence[str], n_nodes: int) -> list[ServerId]:
        return list(self.names[:n_nodes])


class Asked(HttpsOverlay):
    """Notes which nodes are asked; none answers."""

    def __init__(self, *names: ServerId) -> None:
        super().__init__(peers(*names))  # type: ignore[arg-type]
        self.names: set[ServerId] = set()

    def gather(self, nodes: Any, request: Any, timeout_s: float) -> dict[ServerId, Any]:
        self.names |= {node.server_id for node in nodes}
        return {}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[InProcessOverlay]:
    with Shard.open(tmp_path / "index", server_id=HOME) as shard:
        rights = Rights(owner=ANN.agent_id)
        shard.add([IndexedDocument(DocId("d"), PodId("p"), "a dry cough", rights)])
        shard.commit()

        def node(reader: Reader) -> ShardNode:
            return ShardNode(HOME, lambda: shard.view(reader), lambda doc: "a dry cough")

        with InProcessOverlay([SearchServer(HOME, node)]) as overlay:
            yield overlay


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ClickLog]:
    with Database.open(tmp_path / "state.db") as database:
        yield ClickLog(database)


@pytest.mark.parametrize(
    ("n_servers", "chosen", "asked"),
    [
        (None, (C,), {B, C, D}),
        (1, (C, B), {C}),
        (1, (HOME, C), {C}),  # the node itself takes nobody's place
        (2, (HOME, C, B), {B, C}),
        (2, (), {B, C, D}),  # nobody has published the term: all are asked
        (3, (C,), {B, C, D}),
    ],
)
def test_the_nodes_that_the_broker_chose_are_asked(
    own: InProcessOverlay,
    log: ClickLog,
    n_servers: int | None,
    chosen: tuple[ServerId, ...],
    asked: set[ServerId],
) -> None:
    found = searched(own, log, n_servers, chosen)
    assert found == asked


def test_where_the_broker_chose_fewer_others_are_added_by_chance(
    own: InProcessOverlay, log: ClickLog
) -> None:
    several = {frozenset(searched(own, log, 2, (C,))) for _ in range(30)}
    assert several == {frozenset({C, B}), frozenset({C, D})}


def searched(
    own: InProcessOverlay, log: ClickLog, n_servers: int | None, chosen: tuple[ServerId, ...]
) -> set[ServerId]:
    ranker = first_ranker(RankerSettings(n_features=len(PAGE_FEATURES)))
    with Asked(B, C, D) as others:
        reach = Reach(HOME, own, others, lambda reader: CREDENTIAL, Choosing(*chosen))  # type: ignore[arg-type]
        keeping = PageKeeping(lambda: ServedRanker("0" * 64, ranker), log)
        settings = NodeSearchSettings(n_servers=n_servers, timeout_s=1.0)
        page = UserSearch(reach, keeping, settings).search(ANN, "cough")
        assert [one.hit.doc_id for one in page.shown] == ["d"]
        assert set(page.missing) == others.names
        return others.names


def test_searches_run_so_many_at_a_time_some_wait_and_the_rest_is_refused() -> None:
    go, running, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def work() -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        go.wait(5)
        with lock:
            running[0] -= 1
        return 1

    async def main() -> list[int | None]:
        searches, found = AtOnce(2, 3), list[int | None]()

        async def one() -> None:
            try:
                found.append(await searches.run(work))
            except TooMany:
                found.append(None)

        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(one)
            await anyio.sleep(0.1)
            go.set()
        return found

    found = anyio.run(main)
    assert most == [2]
    assert sorted(str(one) for one in found) == ["1"] * 5 + ["None"] * 4


class Lying(Asked):
    """A node that answers with what it likes."""

    hit: Hit

    def gather(self, nodes: Any, request: Any, timeout_s: float) -> dict[ServerId, Any]:
        if isinstance(request, SubQuery):
            return {B: SubAnswer(B, 1, (self.hit,))}
        return super().gather(nodes, request, timeout_s)


class Answering(Lying):
    """A node that says that it has nothing, and then has something."""

    def gather(self, nodes: Any, request: Any, timeout_s: float) -> dict[ServerId, Any]:
        if isinstance(request, SummaryRequest):
            nothing = dict.fromkeys(request.terms, TermSummary(0, 0, 0))
            size = LevelSummary(0, 0)
            return {B: ServerSummary(B, 1, 0, size, size, 0, nothing)}
        return super().gather(nodes, request, timeout_s)


@pytest.mark.parametrize(
    ("score", "weight"), [(1e308, 1.0), (-1e308, 1.0), (float("nan"), 1.0), (1.0, 1e30)]
)
def test_an_answer_with_numbers_that_no_model_gives_is_left_out(
    own: InProcessOverlay, log: ClickLog, score: float, weight: float
) -> None:
    part = TermPart("cough", weight, 1, 1, 1)
    ranker = first_ranker(RankerSettings(n_features=len(PAGE_FEATURES)))
    keeping = PageKeeping(lambda: ServedRanker("0" * 64, ranker), log)
    with Lying(B) as others:
        others.hit = Hit(DocId("x"), PodId("x"), score, parts=(part,), rest=ScoreRest("bm25"))
        reach = Reach(HOME, own, others, lambda reader: CREDENTIAL, None)
        page = UserSearch(reach, keeping, NodeSearchSettings(timeout_s=1.0)).search(ANN, "cough")
    assert [one.hit.doc_id for one in page.shown] == ["d"]
    assert page.missing == (B,)


@pytest.mark.parametrize("number", [1e308, float("nan"), 1.0, None])
def test_what_a_node_says_of_a_pod_is_looked_at_before_it_is_shown(
    own: InProcessOverlay, log: ClickLog, number: float | None
) -> None:
    part, rest = TermPart("cough", 1.0, 1, 1, 1), ScoreRest("bm25")
    pod = None if number is None else LevelScore(number, 1, 1, 1, (part,), rest)
    ranker = first_ranker(RankerSettings(n_features=len(PAGE_FEATURES)))
    keeping = PageKeeping(lambda: ServedRanker("0" * 64, ranker), log)
    with Answering(B) as others:
        others.hit = Hit(DocId("x"), PodId("x"), 1.0, parts=(part,), rest=rest, pod=pod)
        reach = Reach(HOME, own, others, lambda reader: CREDENTIAL, None)
        search = UserSearch(reach, keeping, NodeSearchSettings(timeout_s=1.0))
        page = search.search(ANN, "cough", with_explanations=True)
    whys = {one.hit.doc_id: why for one, why in zip(page.shown, page.whys, strict=True)}
    assert whys["d"].pod is not None
    if number in (1.0, None):
        assert (whys["x"].pod is None) == (number is None)
        assert whys["x"].server is None  # it had said that it has nothing
        assert page.missing == ()
    else:
        assert set(whys) == {"d"}
        assert page.missing == (B,)
