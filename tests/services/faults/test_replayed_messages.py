"""Calls and replies of rounds, between a coordinator and real nodes: replayed, corrupted, swapped.

The test holds the coordinator's certificate and records what it says to the nodes, so that it can
do what somebody could who got hold of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import CloisterError, NotFound
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.https_engine import ROUND_PATH, HttpsEngine
from cloister.federate.engines.site_call import SiteCall, SiteId, SiteMethod, SiteReply
from cloister.store.database import Database
from cloister.web.callers import Role
from cloister.web.client import PeerClient
from services.faults.training import Training, made_training
from services.processes import NODES, Processes

A, B, C = (SiteId(node) for node in NODES)
N_BROKEN = 60


class RecordingEngine:
    """Carries calls over HTTPS, keeps them, and may change what comes back."""

    def __init__(self, engine: HttpsEngine) -> None:
        self._engine = engine
        self.heard: list[tuple[SiteId, SiteCall, SiteReply]] = []
        self.change: Callable[[dict[SiteId, SiteReply], SiteMethod], None] | None = None

    def sites(self) -> tuple[SiteId, ...]:
        return self._engine.sites()

    def call(self, calls: Mapping[SiteId, SiteCall], timeout_s: float) -> dict[SiteId, SiteReply]:
        replies = self._engine.call(calls, timeout_s)
        self.heard += [(site, calls[site], reply) for site, reply in replies.items()]
        if self.change is not None:
            self.change(replies, next(iter(calls.values())).method)
        return replies


class Recorded:
    """Three nodes as processes, and a coordinator inside the test."""

    def __init__(self, training: Training, engine: RecordingEngine, database: Database) -> None:
        roster = training.folder.roster
        self.training, self.engine = training, engine
        self.federation = SiteFederation(
            engine, database, roster.agreement, directory=roster.directory(), timeout_s=20
        )

    def released(self) -> list[int]:
        return [len(self.training.purposes(node)) for node in NODES]

    def step(self) -> tuple[SiteId, ...]:
        """Run a round; see that its model is the mean of the sites that it says are in it."""
        before, number = self.federation.model, self.federation.n_rounds
        done = self.federation.step()
        lessons = [self.training.trainers[s].train(before, round=number) for s in done.sites]
        n = sum(lesson.n_interactions for lesson in lessons)
        wanted = before + sum(lesson.weighted for lesson in lessons) / n
        np.testing.assert_allclose(self.federation.model, wanted, rtol=0, atol=2**-28)
        return done.sites


def client(training: Training, node: str, holder: str) -> PeerClient:
    return training.folder.client(node, holder=holder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = made_training(tmp_path_factory.mktemp("replayed") / "f")
    tls = folder.tls("coordinator")
    clients = {
        SiteId(one.name): PeerClient(
            one.url, tls, federation=folder.roster.name, role=Role.NODE, name=one.name
        )
        for one in folder.roster.members
    }
    path = Path(folder.folder / "coordinator" / "state.db")
    with Processes(folder) as processes, Database.open(path) as database:
        processes.start(*NODES)
        with HttpsEngine(clients) as engine:
            yield Recorded(Training(folder, processes), RecordingEngine(engine), database)


def test_equal_calls_get_equal_answers_and_release_nothing_again(recorded: Recorded) -> None:
    recorded.engine.heard.clear()
    assert recorded.step() == (A, B, C)
    released = recorded.released()
    for site, call, reply in recorded.engine.heard:
        with client(recorded.training, site, "coordinator") as again:
            answer = again.post_bytes(ROUND_PATH, call.to_bytes())
        assert answer == reply.to_bytes()
    assert recorded.released() == released


def test_calls_of_rounds_that_are_over_are_refused(recorded: Recorded) -> None:
    recorded.engine.heard.clear()
    recorded.step()
    old = list(recorded.engine.heard)
    recorded.step()
    released = recorded.released()
    for site, call, _ in old:
        with client(recorded.training, site, "coordinator") as again:
            answer = SiteReply.from_bytes(again.post_bytes(ROUND_PATH, call.to_bytes()))
        assert answer.fault in ("Conflict", "AggregationFailed")
        assert answer.payload == b""
    assert recorded.released() == released
    assert recorded.step() == (A, B, C)  # and nothing that is under way was disturbed


def test_no_call_of_one_node_means_anything_to_another(recorded: Recorded) -> None:
    recorded.engine.heard.clear()
    recorded.step()
    released = recorded.released()
    masked = [one for one in recorded.engine.heard if one[1].method is SiteMethod.MASK_INPUT]
    for site, call, _ in masked:
        other = next(node for node in NODES if node != site)
        with client(recorded.training, other, "coordinator") as wrong:
            answer = SiteReply.from_bytes(wrong.post_bytes(ROUND_PATH, call.to_bytes()))
        assert answer.fault
    assert recorded.released() == released


@pytest.mark.parametrize("holder", ["clinic-b", "broker", "operator", "officer"])
def test_nobody_else_can_replay_a_call(recorded: Recorded, holder: str) -> None:
    if not recorded.engine.heard:
        recorded.step()
    site, call, _ = next(one for one in recorded.engine.heard if one[0] == A)
    with client(recorded.training, site, holder) as other, pytest.raises(NotFound):
        other.post_bytes(ROUND_PATH, call.to_bytes())


def broken(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with some of them flipped, cut off or put on."""
    kind = rng.integers(3)
    if kind == 0:
        return content[: int(rng.integers(len(content)))]
    if kind == 1:
        return content + rng.bytes(int(rng.integers(1, 20)))
    changed = bytearray(content)
    changed[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
    return bytes(changed)


def test_corrupted_calls_release_nothing(recorded: Recorded) -> None:
    recorded.engine.heard.clear()
    recorded.step()
    rng = np.random.default_rng(4)
    released = recorded.released()
    calls = list(recorded.engine.heard)
    for _ in range(N_BROKEN):
        site, call, _reply = calls[int(rng.integers(len(calls)))]
        wrong = broken(call.to_bytes(), rng)
        with client(recorded.training, site, "coordinator") as sender:
            try:
                answer = SiteReply.from_bytes(sender.post_bytes(ROUND_PATH, wrong))
            except CloisterError:
                continue  # refused before it came to the site
        assert answer.fault
    assert recorded.released() == released
    assert recorded.step() == (A, B, C)


@pytest.mark.parametrize("method", [SiteMethod.ADVERTISE_KEYS, SiteMethod.MASK_INPUT])
def test_a_node_whose_replies_are_corrupted_is_left_out_and_the_others_count(
    recorded: Recorded, method: SiteMethod
) -> None:
    rng = np.random.default_rng(5)

    def corrupt(replies: dict[SiteId, SiteReply], now: SiteMethod) -> None:
        if now is method and B in replies:
            wrong = broken(replies[B].to_bytes(), rng)
            replies[B] = SiteReply.received(wrong)

    recorded.engine.change = corrupt
    for _ in range(3):
        assert recorded.step() == (A, C)
    recorded.engine.change = None
    assert recorded.step() == (A, B, C)


def test_a_reply_in_the_name_of_another_node_is_not_counted(recorded: Recorded) -> None:
    def swap(replies: dict[SiteId, SiteReply], now: SiteMethod) -> None:
        if now is SiteMethod.MASK_INPUT:
            replies[B] = replies[A]

    recorded.engine.change = swap
    assert recorded.step() == (A, C)
    recorded.engine.change = None
    assert recorded.step() == (A, B, C)
