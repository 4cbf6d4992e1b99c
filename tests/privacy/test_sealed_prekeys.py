from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cloister.core.errors import AccessDenied, DataError
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.sealed.envelope import Envelope
from cloister.privacy.sealed.prekeys import Prekeys, SignedPrekey
from cloister.privacy.sealed.refusals import MessageRefused
from cloister.privacy.sealed.settings import SealedSettings
from privacy.sealed_parties import START_S, Pair, open_database

DAY_S = 86_400


def test_published_prekey_comes_back_and_every_flipped_bit_is_refused() -> None:
    pair = Pair()
    published = pair.bob.prekeys.current().to_bytes()
    assert SignedPrekey.from_bytes(published) == pair.bob.prekeys.current()
    for position in range(len(published) * 8):
        flipped = bytearray(published)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises((AccessDenied, DataError)):
            pair.ann.sender.learn(SignedPrekey.from_bytes(bytes(flipped)))
    for n_bytes in range(len(published)):
        with pytest.raises((AccessDenied, DataError)):
            pair.ann.sender.learn(SignedPrekey.from_bytes(published[:n_bytes]))


def test_prekey_is_renewed_at_half_its_lifetime_and_the_old_one_still_works() -> None:
    pair = Pair()
    first = pair.bob.prekeys.current()
    old = pair.sealed(b"old")
    pair.clock.now_s += DAY_S / 2 - 1
    assert pair.bob.prekeys.current() == first
    pair.clock.now_s += 1
    second = pair.bob.prekeys.current()
    assert second.number > first.number
    assert second.public != first.public
    pair.ann.knows(pair.bob)
    new = pair.sealed(b"new")
    assert Envelope.parse(new).opening != Envelope.parse(old).opening
    assert [pair.opened(old), pair.opened(new)] == [b"old", b"new"]


def test_sender_learns_no_older_prekey_than_it_knows() -> None:
    pair = Pair()
    first = pair.bob.prekeys.current()
    second = pair.bob.prekeys.rotate()
    pair.ann.sender.learn(second)
    pair.ann.sender.learn(second)
    with pytest.raises(AccessDenied, match="older"):
        pair.ann.sender.learn(first)


@pytest.mark.parametrize("session_age_s", [3600.0, 1e9])
def test_sender_uses_no_expired_prekey(session_age_s: float) -> None:
    pair = Pair(session_age_s=session_age_s)
    pair.sealed()
    old = pair.bob.prekeys.current()
    pair.clock.now_s += DAY_S + 1
    with pytest.raises(AccessDenied, match="not valid now"):
        pair.sealed()
    with pytest.raises(AccessDenied, match="not valid now"):
        pair.ann.sender.learn(old)
    pair.ann.knows(pair.bob)
    assert pair.opened(pair.sealed(b"again")) == b"again"


def test_message_is_readable_within_the_grace_of_its_prekey_and_not_after() -> None:
    pair = Pair(prekey_grace_s=100)
    envelope = pair.sealed()
    pair.clock.now_s = START_S + DAY_S + 100
    assert pair.opened(envelope) == b"content"
    pair.clock.now_s += 1
    with pytest.raises(MessageRefused, match="no longer"):  # though its keys are in memory
        pair.opened(envelope)


def test_destroyed_prekey_leaves_nothing_that_opens_its_messages(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    envelope = pair.sealed()
    private = pair.bob.prekeys.find(pair.bob.prekeys.numbers()[0])[1].private_bytes_raw()
    folder = tmp_path / "bob-keys"
    assert any(private in path.read_bytes() for path in folder.glob("prekey-*"))
    assert pair.opened(envelope) == b"content"
    pair.clock.now_s += 3 * DAY_S
    with open_database(tmp_path / "bob.db") as database, database.transaction() as connection:
        pair.bob.receiver.forget_old(connection)
    assert not list(folder.glob("prekey-*"))
    assert not pair.bob.receiver._sessions
    pair.clock.now_s = START_S  # a clock that is set back does not bring it back
    for _ in range(2):
        with pytest.raises(MessageRefused, match="no longer"):
            pair.opened(envelope)
        pair.bob.restart()


def test_prekeys_survive_a_restart_in_private_files(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    envelopes = [pair.sealed(b"one")]
    pair.bob.prekeys.rotate()
    pair.ann.knows(pair.bob)
    envelopes.append(pair.sealed(b"two"))
    before = pair.bob.prekeys.numbers()
    pair.bob.restart()
    assert pair.bob.prekeys.numbers() == before
    assert len(before) == 2
    assert [pair.opened(envelope) for envelope in envelopes] == [b"one", b"two"]
    for path in (tmp_path / "bob-keys").glob("prekey-*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_prekeys_of_another_identity_are_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    with pytest.raises(AccessDenied, match="belong together"):
        Prekeys("bob", SigningIdentity.generate(), folder=tmp_path / "bob-keys")
    with pytest.raises(AccessDenied, match="belong together"):
        Prekeys("eve", pair.bob.identity, folder=tmp_path / "bob-keys")


def test_numbers_grow_also_when_the_clock_stands_or_all_prekeys_are_destroyed() -> None:
    clock_s = [1000.0]
    settings = SealedSettings(prekey_lifetime_s=10, prekey_grace_s=0)
    prekeys = Prekeys(
        "bob", SigningIdentity.generate(), settings=settings, clock=lambda: clock_s[0]
    )
    numbers = [prekeys.rotate().number for _ in range(3)]
    clock_s[0] += 11
    assert prekeys.destroy_expired() == numbers
    numbers.append(prekeys.current().number)
    assert numbers == sorted(set(numbers))
