from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloister.index.term_counts import count_terms
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import SimulatedNoise
from cloister.privacy.sealed.prekeys import Prekeys
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.relay import InMemoryRelay, RelayFull
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.document_owner import DocumentOwner
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.per_query_release import IndependentNoise, NoiseOnce, ReleasePolicy
from cloister.sketch.tf_exchange import MOST_ATTEMPTS, Post, SealedOwner, SealedQuerier
from cloister.sketch.tf_query import Querier
from cloister.store.database import Database

KEY, SHAPE = HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=64)
COUNTS = count_terms(["cough cough cough fever", "rash", "cough rash rash"])


class Watched(InMemoryRelay):
    """A relay that keeps all it sees, has no room for some, and delivers again when asked to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(clock=lambda: self.now_s)
        self.seen: list[bytes] = []
        self.full_for: set[str] = set()

    def send(self, recipient: str, envelope: bytes) -> None:
        if recipient in self.full_for:
            raise RelayFull("no room", where=recipient)
        self.seen.append(envelope)
        super().send(recipient, envelope)


class World:
    def __init__(self, folder: Path) -> None:
        self.relay = Watched()
        self.directory = Directory()
        self.databases: list[Database] = []
        self.ledger = Ledger.open(folder / "ledger.db")
        self.folder = folder
        self.clinic_post = self.post("clinic")
        self.clinic = self.make_clinic(IndependentNoise(width=2.5))
        self.lab = self.querier("lab")

    def make_clinic(self, policy: ReleasePolicy) -> SealedOwner:
        """Make the owner, or make it again as after a restart: nothing is remembered."""
        self.owner = DocumentOwner(
            "clinic",
            COUNTS,
            KEY,
            SHAPE,
            policy=policy,
            ledger=self.ledger,
            queriers=["lab", "ward"],
            source=SimulatedNoise(np.random.default_rng(1)),
        )
        return SealedOwner(self.owner, self.clinic_post)

    def post(self, name: str) -> Post:
        identity = SigningIdentity.generate()
        self.directory.add(name, identity.public)
        prekeys = Prekeys(name, identity)
        self.relay.publish(name, prekeys.current().to_bytes())
        database = Database.open(self.folder / f"{name}.db")
        database.migrate(Receiver.schema)
        self.databases.append(database)
        sender = Sender(name, identity, self.directory)
        return Post(sender, Receiver(prekeys, self.directory), self.relay, database)

    def querier(self, name: str) -> SealedQuerier:
        querier = Querier(
            KEY, SHAPE, n_true_rows=4, vocabulary=COUNTS.vocabulary, rng=np.random.default_rng(2)
        )
        return SealedQuerier(querier, self.post(name))

    def close(self) -> None:
        self.ledger.close()
        for database in self.databases:
            database.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_query_goes_there_and_its_answer_comes_back(world: World) -> None:
    query = world.lab.ask("clinic", ["cough"])
    assert world.clinic.serve() == 1
    (reply,) = world.lab.collect()
    assert reply.owner == "clinic"
    assert reply.query is query
    assert reply.estimates is not None
    assert np.abs(reply.estimates.total - [3, 0, 1]).max() < 10
    assert not world.ledger.pending()
    assert len(world.ledger.entries()) == 1


def test_the_relay_sees_neither_columns_nor_counters_and_equal_sizes(world: World) -> None:
    for term in ("cough", "fever", "cough"):
        query = world.lab.ask("clinic", [term])
    world.clinic.serve()
    queries, answers = world.relay.seen[:3], world.relay.seen[3:]
    assert len(answers) == 3
    for seen in (queries, answers):
        assert len({len(envelope) for envelope in seen}) == 1
        assert len(set(seen)) == 3  # also where the same was asked again
    written = query.to_bytes()
    for envelope in world.relay.seen:
        assert query.columns.astype("<u4").tobytes() not in envelope
        assert written[5:21] not in envelope
        assert b"tf-" not in envelope


def test_a_replayed_envelope_is_answered_once_and_a_repeat_costs_nothing(world: World) -> None:
    world.lab.ask("clinic", ["cough"])
    assert world.clinic.serve() == 1
    world.relay.send("clinic", world.relay.seen[0])
    assert world.clinic.serve() == 0
    world.lab.ask("clinic", ["cough"])
    assert world.clinic.serve() == 1
    assert len(world.ledger.entries()) == 1


def test_an_altered_envelope_is_dropped(world: World) -> None:
    world.lab.ask("clinic", ["cough"])
    (delivery,) = world.relay.receive("clinic")
    world.relay.acknowledge("clinic", delivery.delivery_id)
    world.relay.send("clinic", delivery.envelope[:-1] + bytes([delivery.envelope[-1] ^ 1]))
    assert world.clinic.serve() == 0
    assert not world.ledger.entries()


def test_a_stranger_learns_that_it_was_refused_and_no_more(world: World) -> None:
    press = world.querier("press")
    query = press.ask("clinic", ["cough"])
    assert world.clinic.serve() == 0
    (reply,) = press.collect()
    assert reply.query is query
    assert reply.estimates is None
    assert reply.refusal == "AccessDenied"


def test_over_the_limit_nothing_but_a_refusal_leaves(world: World) -> None:
    limit = Limit(epsilon=0.01, delta=1e-6, level=Level.TOKEN)
    world.ledger.set_limit("clinic", limit, purpose="pilot")
    world.lab.ask("clinic", ["cough"])
    assert world.clinic.serve() == 0
    (reply,) = world.lab.collect()
    assert reply.refusal == "BudgetExceeded"
    assert reply.estimates is None


def test_an_answer_of_somebody_else_is_dropped(world: World) -> None:
    query = world.lab.ask("clinic", ["cough"])
    answer = world.owner.answer(query.to_bytes(), querier="lab")
    world.post("other").send("lab", "tf-answer", answer)
    assert world.lab.collect() == []


def test_an_answer_that_could_not_be_sent_is_sent_later_and_paid_once(world: World) -> None:
    query = world.lab.ask("clinic", ["cough"])
    world.relay.full_for = {"lab"}
    assert world.clinic.serve() == 0
    assert len(world.ledger.pending()) == 1
    world.relay.full_for = set()
    world.clinic.serve()
    (reply,) = world.lab.collect()
    assert reply.query is query
    assert not world.ledger.pending()
    world.relay.now_s += 100  # the query itself comes again, or does not
    world.clinic.serve()
    assert world.lab.collect() == []
    assert len(world.ledger.entries()) == 1


def test_an_answer_that_could_not_be_sent_outlives_a_restart(world: World) -> None:
    query = world.lab.ask("clinic", ["cough"])
    world.relay.full_for = {"lab"}
    world.clinic.serve()
    world.relay.full_for = set()
    restarted = world.make_clinic(IndependentNoise(width=2.5))
    world.relay.now_s += 100
    restarted.serve()
    assert [reply.query for reply in world.lab.collect()] == [query]
    assert len(world.ledger.entries()) == 1
    assert not world.ledger.pending()


def test_a_free_answer_that_could_not_be_sent_is_sent_when_the_query_comes_again(
    world: World,
) -> None:
    clinic = world.make_clinic(NoiseOnce(IndependentNoise(width=2.5)))
    query = world.lab.ask("clinic", ["cough"])
    world.relay.full_for = {"lab"}
    assert clinic.serve() == 0
    world.relay.full_for = set()
    world.relay.now_s += 100
    assert clinic.serve() == 1
    assert [reply.query for reply in world.lab.collect()] == [query]


@pytest.mark.parametrize("name", ["ward", "press"])  # one may ask, one may not
def test_who_cannot_be_answered_keeps_nobody_else_from_an_answer(world: World, name: str) -> None:
    other = world.querier(name)
    other.ask("clinic", ["cough"])
    query = world.lab.ask("clinic", ["fever"])
    del world.relay._prekeys[name]
    assert world.clinic.serve() == 1
    assert [reply.query for reply in world.lab.collect()] == [query]


def test_a_crash_in_the_middle_loses_no_query(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [world.lab.ask("clinic", [term]) for term in ("cough", "fever", "rash")]
    answer, asked = world.owner.answer, []

    def crash_at_the_second(message: bytes, *, querier: str) -> bytes:
        asked.append(message)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return answer(message, querier=querier)

    monkeypatch.setattr(world.owner, "answer", crash_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        world.clinic.serve()
    restarted = world.make_clinic(IndependentNoise(width=2.5))
    world.relay.now_s += 100
    assert restarted.serve() == 2
    assert [reply.query for reply in world.lab.collect()] == queries
    assert len(world.ledger.entries()) == 3


def test_queries_of_who_can_never_be_answered_do_not_fill_the_queue_for_ever(world: World) -> None:
    world.querier("ward").ask("clinic", ["cough"])
    del world.relay._prekeys["ward"]
    for _ in range(MOST_ATTEMPTS):
        assert world.relay._queues["clinic"]
        world.clinic.serve()
        world.relay.now_s += 100
    assert not world.relay._queues["clinic"]
    assert len(world.ledger.pending()) == 1  # paid for: it is sent as soon as that can be done


def test_more_queries_than_a_relay_hands_out_at_once_are_all_answered(world: World) -> None:
    for i in range(130):
        world.lab.ask("clinic", [f"term{i}"], [0])
    assert world.clinic.serve() == 130


def test_the_size_of_a_query_shows_about_how_many_terms_it_has(world: World) -> None:
    for n in (1, 2, 60):
        world.lab.ask("clinic", [f"term{i}" for i in range(n)])
    one, two, many = map(len, world.relay.seen)
    assert one == two < many
