from __future__ import annotations

import os
import pickle
import struct
import warnings
from array import array
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied, NotFound, SettingsError
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.sealed.envelope import Envelope, Kind, padded_size, seal_envelope
from cloister.privacy.sealed.handshake import hkdf_sha256, shared_secret
from cloister.privacy.sealed.padding import padme
from cloister.privacy.sealed.refusals import MessageRefused
from privacy.literal_sealed import literal_hkdf, literal_open
from privacy.sealed_parties import START_S, Pair, Party

TOPICS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)


def test_x25519_is_that_of_rfc_7748() -> None:
    ann = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob_public = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert shared_secret(ann, bob_public).hex() == secret


def test_hkdf_is_that_of_rfc_5869() -> None:
    salt, info = bytes(range(13)), bytes(range(0xF0, 0xFA))
    expected = (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    assert hkdf_sha256(b"\x0b" * 22, salt=salt, info=info, n_bytes=42).hex() == expected


@given(st.binary(), st.binary(), st.binary(), st.integers(1, 200))
def test_hkdf_agrees_with_hmac_by_hand(
    secret: bytes, salt: bytes, info: bytes, n_bytes: int
) -> None:
    expected = literal_hkdf(secret, salt, info, n_bytes)
    assert hkdf_sha256(secret, salt=salt, info=info, n_bytes=n_bytes) == expected


def test_low_order_public_key_is_refused() -> None:
    with pytest.raises(MessageRefused, match="X25519"):
        shared_secret(X25519PrivateKey.generate(), bytes(32))


@given(st.integers(0, 2**45))
def test_padme_grows_little_and_keeps_few_bits(size: int) -> None:
    padded = padme(size)
    assert size <= padded <= size * 1.12 + 1
    assert padme(padded) == padded
    if size > 1:  # the paper's bound: the mantissa is no longer than the exponent
        mantissa = padded >> ((padded & -padded).bit_length() - 1)
        exponent = padded.bit_length() - 1
        assert mantissa.bit_length() - 1 <= exponent.bit_length()


def test_padme_never_orders_sizes_otherwise() -> None:
    assert all(a <= b for a, b in pairwise(map(padme, range(5000))))


PAIR = Pair()


@given(TOPICS, st.binary(max_size=3000))
def test_what_is_sealed_is_opened_as_it_was(topic: str, content: bytes) -> None:
    message = PAIR.bob.receiver.open_without_replay_check(PAIR.sealed(content, topic))
    assert (message.sender, message.topic, message.content) == ("ann", topic, content)


@pytest.mark.parametrize("n_bytes", [2**17 - 100, 2**17, 2**17 + 1, 1_000_001])
def test_long_content_is_sealed_as_a_second_reading_says_and_opened_as_it_was(n_bytes: int) -> None:
    content = os.urandom(n_bytes)
    envelope = PAIR.sealed(content)
    private = PAIR.bob.prekeys.find(PAIR.bob.prekeys.numbers()[0])[1]
    opened = literal_open(envelope, private, PAIR.ann.identity.public, PAIR.bob.identity.public)
    assert opened == ("search", content)
    assert PAIR.opened(envelope) == content
    for position in (0, 70, 140, 200, n_bytes // 2, -17, -1):
        flipped = bytearray(envelope)
        flipped[position] ^= 1
        with pytest.raises(MessageRefused):
            PAIR.opened(bytes(flipped))


@given(TOPICS, st.binary(max_size=3000))
def test_wire_format_is_what_a_second_reading_of_it_says(topic: str, content: bytes) -> None:
    (number,) = PAIR.bob.prekeys.numbers()
    private = PAIR.bob.prekeys.find(number)[1]
    opened = literal_open(
        PAIR.sealed(content, topic), private, PAIR.ann.identity.public, PAIR.bob.identity.public
    )
    assert opened == (topic, content)


def test_sizes_are_those_of_padme_and_short_contents_all_look_alike() -> None:
    overhead = len(PAIR.sealed(b"")) - 256
    sizes = {n: len(PAIR.sealed(bytes(n))) - overhead for n in (0, 1, 200, 240, 241, 984, 100_000)}
    # topic and lengths take 16 bytes; 257 = 0b1_0000_0001 keeps its first 5 bits, and so on
    assert sizes == {0: 256, 1: 256, 200: 256, 240: 256, 241: 272, 984: 1024, 100_000: 100_352}


@given(st.integers(0, 5000))
def test_size_of_an_envelope_depends_on_the_padded_length_only(n_bytes: int) -> None:
    overhead = len(PAIR.sealed(b"")) - 256
    assert len(PAIR.sealed(bytes(n_bytes))) == overhead + padded_size(len("search"), n_bytes)


def test_every_flipped_bit_is_refused() -> None:
    pair = Pair()
    envelope = pair.sealed(b"the content")
    pair.opened(envelope)  # the session is in memory, as it would be for an attacker's second try
    for position in range(len(envelope) * 8):
        flipped = bytearray(envelope)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(MessageRefused) as caught:
            pair.opened(bytes(flipped))
        assert caught.value.what
        assert caught.value.where
        assert caught.value.remedy
    assert pair.opened(envelope) == b"the content"


def test_every_truncation_and_any_addition_is_refused() -> None:
    pair = Pair()
    envelope = pair.sealed()
    for n_bytes in range(len(envelope)):
        with pytest.raises(MessageRefused):
            pair.opened(envelope[:n_bytes])
    with pytest.raises(MessageRefused):
        pair.opened(envelope + b"\0")


@given(st.binary(max_size=700))
def test_any_bytes_are_refused(noise: bytes) -> None:
    for envelope in (noise, b"CLSE\x01" + noise):
        with pytest.raises(MessageRefused):
            PAIR.opened(envelope)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_object_that_holds_bytes_is_sealed_and_opened(kind: type[bytearray]) -> None:
    assert PAIR.opened(kind(PAIR.ann.sender.seal("bob", "t", kind(b"hi")))) == b"hi"
    wide = memoryview(array("I", b"12345678"))
    assert PAIR.opened(PAIR.ann.sender.seal("bob", "t", wide)) == b"12345678"  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["text", None, 5])
def test_what_holds_no_bytes_is_refused_before_a_number_is_spent(wrong: bytes) -> None:
    pair = Pair()
    first = Envelope.parse(pair.sealed()).number
    with pytest.raises(SettingsError, match="bytes are needed"):
        pair.ann.sender.seal("bob", "t", wrong)
    with pytest.raises(SettingsError, match="bytes are needed"):
        pair.opened(wrong)
    assert Envelope.parse(pair.sealed()).number == first + 1


def test_message_sent_back_to_its_author_is_refused() -> None:
    pair = Pair()
    with pytest.raises(MessageRefused, match="addressed to bob"):
        pair.ann.receiver.open_without_replay_check(pair.sealed())


def test_message_to_somebody_else_is_refused_though_the_names_are_changed() -> None:
    pair = Pair()
    eve = Party("eve", pair.directory, pair.clock, None)
    envelope = pair.sealed()
    with pytest.raises(MessageRefused, match="addressed to bob"):
        eve.receiver.open_without_replay_check(envelope)
    eve.prekeys.current()
    with pytest.raises(MessageRefused, match="signature"):
        eve.receiver.open_without_replay_check(envelope.replace(b"annbob", b"anneve"))


def test_message_in_the_name_of_another_sender_is_refused() -> None:
    pair = Pair()
    Party("eve", pair.directory, pair.clock, None)
    with pytest.raises(MessageRefused, match="signature"):
        pair.opened(pair.sealed().replace(b"annbob", b"evebob"))


def test_message_of_an_unknown_sender_is_refused_also_in_a_session_that_was_known() -> None:
    pair = Pair()
    envelope = pair.sealed()
    pair.opened(envelope)
    pair.directory.remove("ann")
    with pytest.raises(MessageRefused, match="no such identity"):
        pair.opened(envelope)
    pair.directory.add("ann", SigningIdentity.generate().public)
    with pytest.raises(MessageRefused, match="signature"):
        pair.opened(envelope)


def test_parts_of_two_sessions_do_not_fit_together() -> None:
    pair = Pair(session_messages=1)
    first, second = (Envelope.parse(pair.sealed(content)) for content in (b"one", b"two"))
    assert first.number == second.number == 0
    assert first.opening != second.opening
    with pytest.raises(MessageRefused, match="altered"):
        pair.opened(first.header + bytes(second.ciphertext))


def test_parts_of_two_messages_of_a_session_do_not_fit_together() -> None:
    pair = Pair()
    first, second = (Envelope.parse(pair.sealed(content)) for content in (b"one", b"two"))
    assert first.opening == second.opening
    with pytest.raises(MessageRefused, match="altered"):
        pair.opened(first.header + bytes(second.ciphertext))


@pytest.mark.parametrize("topic", [b"", b"two words", b"\xff"])
def test_topic_that_is_no_id_is_refused_also_from_a_known_sender(topic: bytes) -> None:
    pair = Pair()
    pair.sealed()
    session = pair.ann.sender._sessions["bob"]
    envelope = seal_envelope(
        session.keys.cipher, session.opening, Kind.MESSAGE, 99, topic, b"content"
    )
    with pytest.raises(MessageRefused, match="topic"):
        pair.opened(envelope)


def test_other_version_is_refused_by_its_number() -> None:
    envelope = bytearray(PAIR.sealed())
    envelope[4] = 2
    with pytest.raises(MessageRefused, match="version 2"):
        PAIR.opened(bytes(envelope))


def test_number_beyond_all_sessions_is_refused() -> None:
    envelope = Envelope.parse(PAIR.sealed())
    header = envelope.header[:-8] + struct.pack(">Q", 2**63)
    with pytest.raises(MessageRefused, match="too high"):
        PAIR.opened(header + bytes(envelope.ciphertext))


@pytest.mark.parametrize(
    ("fields", "n_sessions"),
    [
        ({"session_messages": 3}, 4),  # 10 messages in threes
        ({"session_bytes": 512}, 5),  # 10 messages of 256 bytes
        ({"session_age_s": 25.0}, 4),  # 10 messages, 10 s apart
        ({}, 1),
    ],
)
def test_sender_renews_a_session_before_it_is_worn_out(
    fields: dict[str, float], n_sessions: int
) -> None:
    pair = Pair(**fields)
    openings = Counter()
    for _ in range(10):
        openings[Envelope.parse(pair.sealed()).opening] += 1
        pair.clock.now_s += 10
    assert len(openings) == n_sessions


def test_number_is_never_used_twice_with_one_key_by_many_threads() -> None:
    pair = Pair(session_messages=50)
    with ThreadPoolExecutor(8) as pool:
        envelopes = list(pool.map(lambda i: pair.sealed(str(i).encode()), range(1000)))
        contents = sorted(pool.map(pair.opened, envelopes), key=int)
    parsed = [Envelope.parse(envelope) for envelope in envelopes]
    assert len({(envelope.opening, envelope.number) for envelope in parsed}) == 1000
    assert len({envelope.opening for envelope in parsed}) == 20
    assert contents == [str(i).encode() for i in range(1000)]


def test_forked_process_does_not_go_on_with_the_sessions_of_its_parent() -> None:
    pair = Pair()
    parent = Envelope.parse(pair.sealed()).opening
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Python warn of forks with threads
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, pair.sealed())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    envelope = os.read(reading, 4096)
    os.close(reading)
    os.close(writing)
    assert pair.opened(envelope) == b"content"
    assert Envelope.parse(envelope).opening != parent
    assert Envelope.parse(pair.sealed()).opening == parent


def test_clock_of_the_sender_may_differ_only_so_far() -> None:
    pair = Pair(clock_skew_s=300, session_age_s=1)
    for ahead_s, fits in ((299, True), (-299, True), (301, False)):
        pair.clock.now_s = START_S + ahead_s
        envelope = pair.sealed()
        pair.clock.now_s = START_S
        if fits:
            assert pair.opened(envelope) == b"content"
        else:
            with pytest.raises(MessageRefused, match="later than now"):
                pair.opened(envelope)
    pair.clock.now_s = START_S - 301
    with pytest.raises(AccessDenied, match="not valid now"):
        pair.sealed()


def test_recipient_that_was_removed_gets_nothing_more() -> None:
    pair = Pair()
    pair.sealed()
    pair.directory.remove("bob")
    with pytest.raises(AccessDenied, match="no such identity"):
        pair.sealed()
    pair.directory.add("bob", SigningIdentity.generate().public)
    with pytest.raises(AccessDenied, match="signature"):
        pair.sealed()


def test_unknown_recipient_long_content_and_bad_topic_are_errors_that_say_what_to_do() -> None:
    pair = Pair(message_bytes=100)
    with pytest.raises(NotFound, match="learn"):
        pair.ann.sender.seal("eve", "search", b"")
    with pytest.raises(SettingsError, match="seal_stream"):
        pair.sealed(bytes(101))
    with pytest.raises(SettingsError, match="an id"):
        pair.sealed(topic="two words")
    with pytest.raises(SettingsError, match="Unicode"):
        pair.sealed(topic="\ud800")


def test_relay_learns_neither_topic_nor_content_and_ciphertext_looks_uniform() -> None:
    """Chi-square over byte values, with 255 degrees of freedom."""
    pair = Pair()
    content = b"fever and cough " * 60
    counts: Counter[int] = Counter()
    counts_of_plain: Counter[int] = Counter(content)
    n_bytes = 0
    for _ in range(400):
        envelope = pair.sealed(content, "diagnosis-topic")
        assert b"cough" not in envelope
        assert b"diagnosis" not in envelope
        ciphertext = bytes(Envelope.parse(envelope).ciphertext)
        counts.update(ciphertext)
        n_bytes += len(ciphertext)

    def chi_square(found: Counter[int], n: int) -> float:
        return sum((found[value] - n / 256) ** 2 for value in range(256)) / (n / 256)

    assert chi_square(counts, n_bytes) < 432  # uniform bytes exceed it with probability 1e-11
    assert chi_square(counts_of_plain, len(content)) > 432  # the test can fail


def test_same_content_never_gives_the_same_ciphertext() -> None:
    pair = Pair(session_messages=2)
    ciphertexts = {bytes(Envelope.parse(pair.sealed()).ciphertext) for _ in range(100)}
    assert len(ciphertexts) == 100


def test_nothing_shows_keys_or_content() -> None:
    pair = Pair()
    message = pair.bob.receiver.open_without_replay_check(pair.sealed(b"the diagnosis"))
    session = pair.ann.sender._sessions["bob"]
    (number,) = pair.bob.prekeys.numbers()
    secrets = (
        session.keys._stream_secret,
        pair.bob.prekeys.find(number)[1].private_bytes_raw(),
        pair.bob.identity.private_bytes(),
        b"the diagnosis",
    )
    things = (
        message,
        session,
        session.keys,
        pair.ann.sender,
        pair.bob.receiver,
        pair.bob.prekeys,
        pair.bob.receiver._sessions,
        pair.bob.prekeys._held,
    )
    for thing in things:
        for secret in secrets:
            assert secret.hex() not in repr(thing)
            assert repr(secret)[2:-1] not in repr(thing)
    for thing in (pair.ann.sender, pair.bob.receiver, pair.bob.prekeys):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(thing)
