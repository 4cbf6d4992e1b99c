"""Agreeing on a hash key: all have the same, the relay has none, and a cheat is named."""

from __future__ import annotations

import copy
import hmac
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied, SettingsError
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.prekeys import Prekeys
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.privacy.sealed.relay import InMemoryRelay
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.key_agreement import KeyAgreement, KeyAgreementFailed, Outgoing
from cloister.sketch.key_roster import KeyRoster
from cloister.sketch.sealed_key_agreement import SealedKeyAgreement, agree_in_process

Letter = tuple[str, Outgoing]


def roster_of(n_parties: int, epoch: int = 1) -> KeyRoster:
    return KeyRoster(
        "clinics", {f"clinic-{i}": bytes([i + 1]) * 32 for i in range(n_parties)}, epoch
    )


def sides_of(roster: KeyRoster) -> dict[str, KeyAgreement]:
    return {name: KeyAgreement(roster, name) for name in roster.parties}


def begun(sides: dict[str, KeyAgreement]) -> list[Letter]:
    return [(name, message) for name, side in sides.items() for message in side.begin()]


def carried(
    sides: dict[str, KeyAgreement],
    letters: list[Letter],
    *,
    change: Callable[[str, Outgoing], Outgoing | None] = lambda sender, message: message,
    place: Callable[[int], int] = lambda n: 0,
) -> list[Letter]:
    """Deliver all letters, which ``change`` may alter or drop; return them as delivered."""
    delivered = []
    while letters:
        sender, message = letters.pop(place(len(letters)))
        changed = change(sender, message)
        if changed is not None:
            delivered.append((sender, changed))
            answers = sides[changed.recipient].accept(sender, changed.topic, changed.content)
            letters += [(changed.recipient, answer) for answer in answers]
    return delivered


def literal_hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, for one block."""
    pseudorandom = hmac.digest(salt, secret, "sha256")
    return hmac.digest(pseudorandom, info + b"\x01", "sha256")


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_all_parties_have_one_key_which_is_the_formula_s(n_parties: int) -> None:
    roster = roster_of(n_parties)
    sides = sides_of(roster)
    letters = carried(sides, begun(sides))
    keys = {side.key() for side in sides.values()}
    assert len(keys) == 1
    assert len(letters) == 3 * n_parties * (n_parties - 1)
    revealed = {s: m.content[32:64] for s, m in letters if m.topic == "key-reveal"}
    together = b"".join(revealed[name] for name in sorted(revealed))
    expected = literal_hkdf(together, roster.digest(), b"cloister sketch hash key 1")
    assert keys.pop().secret_bytes() == expected
    assert all(side.missing() == () for side in sides.values())


@given(st.data())
def test_the_order_in_which_messages_come_does_not_matter(data: st.DataObject) -> None:
    sides = sides_of(roster_of(3))
    carried(sides, begun(sides), place=lambda n: data.draw(st.integers(0, n - 1)))
    assert len({side.key() for side in sides.values()}) == 1


def test_nobody_reveals_before_all_have_committed() -> None:
    sides = sides_of(roster_of(4))
    letters = begun(sides)
    held_back = letters.pop()
    delivered = carried(sides, letters)
    revealed = {sender for sender, message in delivered if message.topic == "key-reveal"}
    assert held_back[1].recipient not in revealed
    assert sides[held_back[1].recipient].missing() == (held_back[0],)


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_parties_agree_through_a_relay_that_sees_neither_key_nor_contributions(
    n_parties: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic: list[bytes] = []
    contents: list[bytes] = []

    class Listening(InMemoryRelay):
        def send(self, recipient: str, envelope: bytes) -> None:
            traffic.append(envelope)
            super().send(recipient, envelope)

        def publish(self, party_id: str, prekey: bytes) -> None:
            traffic.append(prekey)
            super().publish(party_id, prekey)

    seal = Sender.seal

    def noting(self: Sender, recipient: str, topic: str, content: bytes) -> bytes:
        contents.append(content)
        return seal(self, recipient, topic, content)

    monkeypatch.setattr(Sender, "seal", noting)
    identities = {f"clinic-{i}": SigningIdentity.generate() for i in range(n_parties)}
    keys = agree_in_process("clinics", identities, relay=Listening())
    assert len({key.secret_bytes() for key in keys.values()}) == 1
    assert len(contents) == 3 * n_parties * (n_parties - 1)
    seen = b"".join(traffic)
    secrets = [keys["clinic-0"].secret_bytes()]
    secrets += [
        content[place : place + 32] for content in contents for place in range(32, len(content), 32)
    ]
    for secret in secrets:
        assert secret not in seen
        assert secret.hex().encode() not in seen
    assert keys["clinic-0"].fingerprint.encode() not in seen


def test_each_agreement_gives_another_key() -> None:
    identities = {name: SigningIdentity.generate() for name in ("a", "b")}
    fingerprints = {agree_in_process("f", identities)["a"].fingerprint for _ in range(3)}
    assert len(fingerprints) == 3


class Lossy(InMemoryRelay):
    """Loses, repeats or alters the envelope with one number."""

    def __init__(self, number: int, change: Callable[[bytes], list[bytes]]) -> None:
        super().__init__()
        self._numbers: Iterator[int] = iter(range(1000))
        self._at, self._change = number, change

    def send(self, recipient: str, envelope: bytes) -> None:
        changed = self._change(envelope) if next(self._numbers) == self._at else [envelope]
        for one in changed:
            super().send(recipient, one)


IDENTITIES = {f"clinic-{i}": SigningIdentity.generate() for i in range(3)}
N_ENVELOPES = 18


@pytest.mark.parametrize("number", range(N_ENVELOPES))
def test_a_lost_envelope_is_an_error_that_names_its_sender(number: int) -> None:
    with pytest.raises(KeyAgreementFailed, match="still waits for its message") as caught:
        agree_in_process("f", IDENTITIES, relay=Lossy(number, lambda envelope: []))
    assert caught.value.where in IDENTITIES


@pytest.mark.parametrize("number", range(N_ENVELOPES))
def test_an_envelope_that_comes_twice_changes_nothing(number: int) -> None:
    keys = agree_in_process("f", IDENTITIES, relay=Lossy(number, lambda envelope: [envelope] * 2))
    assert len({key.fingerprint for key in keys.values()}) == 1


@settings(max_examples=30)
@given(st.integers(0, N_ENVELOPES - 1), st.integers(0), st.integers(0, 7))
def test_an_altered_envelope_is_refused(number: int, place: int, bit: int) -> None:
    def flipped(envelope: bytes) -> list[bytes]:
        content = bytearray(envelope)
        content[place % len(content)] ^= 1 << bit
        return [bytes(content)]

    with pytest.raises(AccessDenied):
        agree_in_process("f", IDENTITIES, relay=Lossy(number, flipped))


@pytest.mark.parametrize(
    "other",
    [
        KeyRoster("others", roster_of(3).parties),
        roster_of(3, epoch=2),
        roster_of(4),
        KeyRoster("clinics", {**roster_of(3).parties, "clinic-2": b"\xee" * 32}),
    ],
    ids=["name", "epoch", "one more", "identity key"],
)
def test_a_party_with_another_roster_is_refused_by_name(other: KeyRoster) -> None:
    side = KeyAgreement(roster_of(3), "clinic-0")
    side.begin()
    for message in KeyAgreement(other, "clinic-1").begin():
        with pytest.raises(MessageRefused, match="clinic-1: its message is of another federation"):
            side.accept("clinic-1", message.topic, message.content)
    assert side.missing() == ("clinic-1", "clinic-2")
    with pytest.raises(KeyAgreementFailed, match="clinic-1, clinic-2"):
        side.key()


def test_messages_of_an_earlier_epoch_are_refused_later() -> None:
    sides = sides_of(roster_of(2))
    old = carried(sides, begun(sides))
    now = sides_of(roster_of(2).next_epoch())
    letters = begun(now)
    for sender, message in old:
        with pytest.raises(MessageRefused, match="another federation, epoch"):
            now[message.recipient].accept(sender, message.topic, message.content)
    carried(now, letters)
    assert now["clinic-0"].key() == now["clinic-1"].key() != sides["clinic-0"].key()


def test_a_message_that_comes_again_is_known_as_such() -> None:
    sides = sides_of(roster_of(3))
    for sender, message in carried(sides, begun(sides)):
        with pytest.raises(Replayed, match="accepted before"):
            sides[message.recipient].accept(sender, message.topic, message.content)
    assert len({side.key() for side in sides.values()}) == 1


def test_two_different_messages_of_one_stage_end_the_agreement() -> None:
    side = KeyAgreement(roster_of(2), "clinic-0")
    side.begin()
    first, second = (KeyAgreement(roster_of(2), "clinic-1").begin()[0] for _ in range(2))
    side.accept("clinic-1", first.topic, first.content)
    for _ in range(2):
        with pytest.raises(KeyAgreementFailed, match="clinic-1: sent two different"):
            side.accept("clinic-1", second.topic, second.content)
    with pytest.raises(KeyAgreementFailed, match="clinic-1"):
        side.key()


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("topic", "place", "reason"),
    [
        ("key-reveal", 32, "clinic-1: revealed something else"),
        ("key-reveal", 64, "clinic-0: its commitment is one to clinic-2 and another to clinic-1"),
        ("key-reveal", 96, "clinic-1: its commitment is one to"),
        ("key-reveal", 159, "clinic-2: its commitment is one to"),
        ("key-commit", 32, "clinic-1: (revealed|its commitment)"),
        ("key-confirm", 32, "clinic-1: confirms another key"),
    ],
)
def test_a_party_that_cheats_is_named(topic: str, place: int, reason: str) -> None:
    def change(sender: str, message: Outgoing) -> Outgoing:
        if (sender, message.recipient, message.topic) == ("clinic-1", "clinic-2", topic):
            return message._replace(content=_flipped(message.content, place))
        return message

    sides = sides_of(roster_of(3))
    with pytest.raises(KeyAgreementFailed, match=reason):
        carried(sides, begun(sides), change=change)
    with pytest.raises(KeyAgreementFailed):
        sides["clinic-2"].key()


def test_the_last_to_reveal_cannot_choose() -> None:
    """It knows all other contributions, and each other one that it reveals is refused."""
    roster = roster_of(2)
    honest, last = KeyAgreement(roster, "clinic-0"), KeyAgreement(roster, "clinic-1")
    (commit,) = honest.begin()
    (own_commit,) = last.begin()
    (reveal,) = honest.accept("clinic-1", own_commit.topic, own_commit.content)
    last.accept("clinic-0", commit.topic, commit.content)
    commitments = reveal.content[64:]
    wanted = roster.digest() + b"\x42" * 32 + commitments
    with pytest.raises(KeyAgreementFailed, match="clinic-1: revealed something else"):
        honest.accept("clinic-1", "key-reveal", wanted)


@pytest.mark.parametrize(
    ("sender", "topic", "n_bytes", "reason"),
    [
        ("stranger", "key-commit", 32, "not another party"),
        ("clinic-0", "key-commit", 32, "not another party"),
        ("clinic-1", "search", 32, "no message of a key agreement"),
        ("clinic-1", "key-commit", 31, "wrong length"),
        ("clinic-1", "key-commit", 64, "wrong length"),
        ("clinic-1", "key-reveal", 32, "wrong length"),
        ("clinic-1", "key-confirm", 0, "wrong length"),
    ],
)
def test_what_does_not_belong_here_is_refused_and_changes_nothing(
    sender: str, topic: str, n_bytes: int, reason: str
) -> None:
    sides = sides_of(roster_of(2))
    letters = begun(sides)
    with pytest.raises(MessageRefused, match=reason):
        sides["clinic-0"].accept(sender, topic, roster_of(2).digest() + bytes(n_bytes))
    carried(sides, letters)
    assert sides["clinic-0"].key() == sides["clinic-1"].key()


def test_a_new_party_comes_in_with_a_new_epoch_and_a_new_key() -> None:
    before = {name: IDENTITIES[name] for name in ("clinic-0", "clinic-1")}
    old = agree_in_process("clinics", before, epoch=1)
    new = agree_in_process("clinics", IDENTITIES, epoch=2)
    assert set(new) == set(IDENTITIES)
    assert new["clinic-0"].fingerprint != old["clinic-0"].fingerprint
    roster = KeyRoster("clinics", {name: key.public for name, key in before.items()})
    grown = roster.next_epoch({name: key.public for name, key in IDENTITIES.items()})
    assert (grown.epoch, len(grown.parties), grown.federation) == (2, 3, "clinics")
    assert roster.next_epoch().parties == roster.parties


def test_rosters_have_one_digest_for_each_content() -> None:
    parties = dict(roster_of(3).parties)
    base = KeyRoster("f", parties)
    assert KeyRoster("f", dict(reversed(parties.items()))).digest() == base.digest()
    others = [
        KeyRoster("g", parties),
        KeyRoster("f", parties, 2),
        KeyRoster("f", {**parties, "clinic-9": b"\x99" * 32}),
        KeyRoster("f", {**parties, "clinic-0": b"\x99" * 32}),
        KeyRoster("f", {name + "x": key for name, key in parties.items()}),
    ]
    digests = [base.digest(), *(other.digest() for other in others)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("parties", "epoch"),
    [
        ({"a": bytes(32)}, 1),
        ({"a": bytes(32), "b": bytes(31)}, 1),
        ({"a": bytes(32), "b": bytes(32)}, 1),
        ({"a": bytes(32), "b c": b"\x01" * 32}, 1),
        ({"a": bytes(32), "b": b"\x01" * 32}, 0),
    ],
)
def test_a_roster_that_cannot_be_is_refused(parties: dict[str, bytes], epoch: int) -> None:
    with pytest.raises(SettingsError):
        KeyRoster("f", parties, epoch)


def test_a_side_must_be_in_its_roster_and_begins_once() -> None:
    with pytest.raises(SettingsError, match="stranger"):
        KeyAgreement(roster_of(2), "stranger")
    side = KeyAgreement(roster_of(2), "clinic-0")
    side.begin()
    with pytest.raises(SettingsError, match="has begun"):
        side.begin()


def test_a_roster_with_another_key_than_the_directory_is_refused() -> None:
    identity, other = SigningIdentity.generate(), SigningIdentity.generate()
    directory = Directory({"a": identity.public, "b": other.public})
    roster = KeyRoster("f", {"a": identity.public, "b": b"\x01" * 32})
    sender, receiver = Sender("a", identity, directory), Receiver(Prekeys("a", identity), directory)
    with pytest.raises(SettingsError, match="b: the roster has another identity key"):
        SealedKeyAgreement(KeyAgreement(roster, "a"), sender, receiver, directory)


def test_secrets_are_neither_shown_nor_pickled_nor_copied() -> None:
    sides = sides_of(roster_of(2))
    letters = carried(sides, begun(sides))
    revealed = [message for _, message in letters if message.topic == "key-reveal"]
    shown = repr(sides) + repr(letters)
    for message in revealed:
        assert message.content[32:64].hex() not in shown
        assert repr(message.content[32:64])[2:10] not in shown
    for take in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="not pickled"):
            take(sides["clinic-0"])


def test_contributions_are_fresh_and_hidden_by_their_commitments() -> None:
    commits = [KeyAgreement(roster_of(2), "clinic-0").begin()[0].content[32:] for _ in range(50)]
    assert len(set(commits)) == 50
    for first, second in pairwise(commits):
        differing = (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_count()
        assert 60 < differing < 196  # 128 expected, deviation 8
