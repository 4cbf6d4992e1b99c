from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cloister.core.errors import NotFound, SettingsError
from cloister.privacy.sealed.prekeys import SignedPrekey
from cloister.privacy.sealed.receiver import Message
from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.privacy.sealed.relay import InMemoryRelay, Relay, RelayFull
from privacy.sealed_parties import Clock, Pair, open_database


def test_envelope_comes_again_until_it_is_acknowledged() -> None:
    clock = Clock()
    relay = InMemoryRelay(lease_s=30, clock=clock)
    relay.send("bob", b"one")
    relay.send("bob", b"two")
    relay.send("ann", b"three")
    first, second = relay.receive("bob")
    assert [first.envelope, second.envelope] == [b"one", b"two"]
    assert relay.receive("bob") == []
    relay.acknowledge("bob", first.delivery_id)
    relay.acknowledge("bob", first.delivery_id)
    clock.now_s += 30
    assert relay.receive("bob") == [second]
    relay.acknowledge("ann", second.delivery_id)  # not theirs: changes nothing
    clock.now_s += 30
    assert relay.receive("bob") == [second]
    assert [delivery.envelope for delivery in relay.receive("ann")] == [b"three"]
    assert relay.receive("eve") == []


def test_queue_is_bounded_in_messages_and_bytes_for_each_recipient() -> None:
    relay = InMemoryRelay(max_messages=2, max_bytes=10)
    relay.send("bob", b"12345678")
    with pytest.raises(RelayFull, match="send it again"):
        relay.send("bob", b"123")
    relay.send("bob", b"12")
    with pytest.raises(RelayFull):
        relay.send("bob", b"")
    relay.send("ann", b"12345678")
    (first, _) = relay.receive("bob")
    relay.acknowledge("bob", first.delivery_id)
    relay.send("bob", b"12345678")
    assert len(relay.receive("ann", limit=0)) == 0


def test_relay_refuses_bad_names_and_knows_only_published_prekeys() -> None:
    relay = InMemoryRelay()
    with pytest.raises(SettingsError):
        relay.send("two words", b"")
    with pytest.raises(NotFound):
        relay.prekey("bob")


def test_messages_travel_both_ways_through_a_relay_that_repeats_and_is_shared(
    tmp_path: Path,
) -> None:
    clock = Clock()
    relay: Relay = InMemoryRelay(lease_s=0, clock=clock)  # everything is delivered again and again
    pair = Pair(session_messages=7)
    for party in (pair.ann, pair.bob):
        relay.publish(party.party_id, party.prekeys.current().to_bytes())
    pair.ann.sender.learn(SignedPrekey.from_bytes(relay.prekey("bob")))
    pair.bob.sender.learn(SignedPrekey.from_bytes(relay.prekey("ann")))

    def send(number: int) -> None:
        relay.send("bob", pair.ann.sender.seal("bob", "search", b"%d" % number))
        relay.send("ann", pair.bob.sender.seal("ann", "search", b"%d" % -number))

    accepted: dict[str, list[Message]] = {"ann": [], "bob": []}

    def fetch(name: str) -> None:
        receiver = (pair.ann if name == "ann" else pair.bob).receiver
        for delivery in relay.receive(name, limit=10):
            try:
                message = database.run(
                    lambda c, envelope=delivery.envelope: receiver.open(c, envelope)
                )
                accepted[name].append(message)
            except Replayed:
                pass
            relay.acknowledge(name, delivery.delivery_id)

    with open_database(tmp_path / "bob.db") as database, ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(40)))
        list(pool.map(fetch, ["ann", "bob"] * 10))
    assert sorted(int(m.content) for m in accepted["bob"]) == list(range(40))
    assert sorted(-int(m.content) for m in accepted["ann"]) == list(range(40))
    assert {m.sender for m in accepted["ann"]} == {"bob"}


def test_relay_cannot_put_its_own_prekey_in_place_of_a_party_s() -> None:
    pair = Pair()
    mallory = Pair()  # the same names, other keys
    relay = InMemoryRelay()
    relay.publish("bob", mallory.bob.prekeys.current().to_bytes())
    with pytest.raises(Exception, match="signature does not fit"):
        pair.ann.sender.learn(SignedPrekey.from_bytes(relay.prekey("bob")))
    with pytest.raises(MessageRefused):
        pair.bob.receiver.open_without_replay_check(mallory.sealed())
