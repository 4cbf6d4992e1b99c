"""What the engine believes, and what a site answers: nodes that lie, pass on, and are away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from cloister.core.errors import AccessDenied, CloisterError
from cloister.federate.engines.engine import ask_sites
from cloister.federate.engines.flower.flower_engine import FlowerEngine
from cloister.federate.engines.flower.signed_messages import COORDINATOR, SignedCall, SignedReply
from cloister.federate.engines.flower.site_desk import SiteDesk, content_of, with_content
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteMethod
from cloister.federate.engines.watching_engine import HELLO
from cloister.privacy.identity import Directory, SigningIdentity
from federate.engines.made_federation import SITES, A, B, C, Scene, secure

Node = Callable[[Message], Message | None]
NODES = {11: A, 22: B, 33: C}
SHORT_S = 0.3


class MemoryGrid:
    """Carries Flower's messages to functions, by the number of the node."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self._replies: dict[str, Message] = {}
        self.n_messages = 0

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            self.n_messages += 1
            number = str(self.n_messages)
            message.metadata.__dict__["_message_id"] = number
            numbers.append(number)
            reply = self.nodes[message.metadata.dst_node_id](message)
            if reply is not None:
                self._replies[number] = reply
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(one) for one in message_ids if one in self._replies]


class Desks:
    """A coordinator's key, and the sites of a scene behind Flower's apps."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.coordinator = SigningIdentity.generate()
        self.known = Directory({COORDINATOR: self.coordinator.public})
        self.desks = {
            site: SiteDesk(scene.sites[site], scene.identities[site], self.known) for site in SITES
        }
        self.grid = MemoryGrid({node: self.node(node, site) for node, site in NODES.items()})
        self.engine = FlowerEngine(self.grid, self.coordinator, scene.directory)  # type: ignore[arg-type]

    def node(self, number: int, site: SiteId) -> Node:
        """Return a SuperNode that brings messages to a site's app."""
        app = self.desks[site].client_app()
        return lambda message: answered(app, message, number)


def answered(app: ClientApp, message: Message, node: int) -> Message:
    context = Context(1, node, {}, RecordDict(), {})
    try:
        return app(message, context)
    except CloisterError as error:
        return Message(Error(1, type(error).__name__), reply_to=message)


@pytest.fixture
def desks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desks]:
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    scene = Scene(tmp_path, secure())
    yield Desks(scene)
    scene.close()


def heard(engine: FlowerEngine, *sites: SiteId) -> tuple[set[SiteId], set[SiteId]]:
    """Say hello; return who answered, and who was silent."""
    replies = engine.call(dict.fromkeys(sites or SITES, HELLO), SHORT_S)
    return set(replies), set(sites or SITES) - set(replies)


def test_the_engine_finds_out_which_node_is_whose_and_asks_only_once(desks: Desks) -> None:
    assert desks.engine.sites() == SITES
    assert heard(desks.engine) == ({A, B, C}, set())
    n_messages = desks.grid.n_messages
    assert heard(desks.engine) == ({A, B, C}, set())
    assert desks.grid.n_messages == n_messages + len(SITES)
    assert desks.engine.meet(3, SHORT_S) == SITES


def test_a_refusal_of_a_site_is_a_fault_and_not_silence(desks: Desks) -> None:
    asked = ask_sites(desks.engine, SiteMethod.TRAIN, 0, {A: b"", B: b""}, timeout_s=SHORT_S)
    assert asked.faults == {A: "DataError", B: "DataError"}
    assert asked.silent == ()


def test_a_node_that_is_away_fails_or_answers_rubbish_is_a_silent_site(desks: Desks) -> None:
    right = desks.grid.nodes[11]
    desks.grid.nodes[22] = lambda message: None
    desks.grid.nodes[33] = lambda message: Message(with_content(b"rubbish"), reply_to=message)
    assert heard(desks.engine) == ({A}, {B, C})
    desks.grid.nodes[33] = lambda message: Message(Error(1, "away"), reply_to=message)
    del desks.grid.nodes[22]
    assert heard(desks.engine) == ({A}, {B, C})
    desks.grid.nodes = {44: desks.node(44, B), 11: right}  # made known anew, by another number
    assert heard(desks.engine) == ({A, B}, {C})


def test_a_node_cannot_speak_in_another_sites_name(desks: Desks) -> None:
    def forged(message: Message) -> Message:
        """Say that C is B, with C's own key."""
        call = SignedCall.from_bytes(content_of(message))
        reply = desks.scene.sites[C].answer(call.content)
        signed = SignedReply.made(desks.scene.identities[C], 33, B, call, reply)
        return Message(with_content(signed.to_bytes()), reply_to=message)

    del desks.grid.nodes[22]
    desks.grid.nodes[33] = forged
    assert heard(desks.engine) == ({A}, {B, C})


def test_a_node_that_passes_messages_on_to_another_site_gets_no_answer_for_it(
    desks: Desks,
) -> None:
    brought: list[Message] = []

    def passed_on(message: Message) -> Message:
        brought.append(answered(desks.desks[B].client_app(), message, 22))
        return brought[-1]

    del desks.grid.nodes[22]
    desks.grid.nodes[33] = passed_on
    assert heard(desks.engine) == ({A}, {B, C})
    assert all(one.has_error() and one.error.reason == "AccessDenied" for one in brought)
    assert brought


def test_an_answer_that_was_heard_before_answers_no_other_call(desks: Desks) -> None:
    kept: list[Message] = []
    right = desks.grid.nodes[22]

    def replayed(message: Message) -> Message:
        kept.append(right(message))  # type: ignore[arg-type]
        first = content_of(kept[0])
        return Message(with_content(first), reply_to=message)

    assert heard(desks.engine) == ({A, B, C}, set())
    desks.grid.nodes[22] = replayed
    assert heard(desks.engine, B) == ({B}, set())
    assert heard(desks.engine, B) == (set(), {B})


def test_a_site_answers_nobody_but_the_coordinator_and_no_call_to_another_site(
    desks: Desks,
) -> None:
    train = SiteCall(SiteMethod.TRAIN, 0, 1, b"").to_bytes()
    desk = desks.desks[A]
    stranger = SigningIdentity.generate()
    for call in (
        SignedCall.made(stranger, 11, A, train),
        SignedCall.made(desks.scene.identities[B], 11, A, train),
        SignedCall.made(desks.coordinator, 22, A, train),
        SignedCall.made(desks.coordinator, 11, B, train),
        SignedCall.made(desks.coordinator, 11, "", train),
        SignedCall.made(desks.coordinator, 11, A, HELLO.to_bytes())._replace(content=train),
    ):
        with pytest.raises(AccessDenied):
            desk.answer(call.to_bytes(), 11)
    assert desk.answer(SignedCall.made(desks.coordinator, 11, A, train).to_bytes(), 11)
