"""Sealed requests and answers: a broker reads, alters and exchanges none of them."""

from __future__ import annotations

import pytest

from cloister.core.errors import AccessDenied, CloisterError, DataError
from cloister.core.ids import ServerId
from cloister.pods.overlay.sealing import NodeSeal, SearcherSeal
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.settings import SealedSettings

HERE, THERE = ServerId("clinic-a"), ServerId("clinic-b")
IDENTITIES = {HERE: SigningIdentity.generate(), THERE: SigningIdentity.generate()}


def _directory() -> Directory:
    return Directory({name: one.public for name, one in IDENTITIES.items()})


def _pair() -> tuple[SearcherSeal, NodeSeal]:
    searcher, node = SearcherSeal(_directory()), NodeSeal(HERE, IDENTITIES[HERE])
    searcher.learn(HERE, node.prekey())
    return searcher, node


def test_requests_and_answers_arrive_and_show_nothing_on_the_way() -> None:
    searcher, node = _pair()
    message = searcher.seal(HERE, b"huntington")
    opened = node.open(message)
    envelope = node.seal(opened, searcher.return_prekey(), b"a document")
    assert (opened.content, searcher.open(HERE, envelope)) == (b"huntington", b"a document")
    assert b"huntington" not in message
    assert b"document" not in envelope


def test_short_requests_all_have_one_length() -> None:
    searcher, _ = _pair()
    assert len({len(searcher.seal(HERE, b"x" * n)) for n in range(1, 200)}) == 1


@pytest.mark.parametrize("place", [0, 31, 32, 60, 150, -300, -17, -1])
def test_an_altered_request_is_refused(place: int) -> None:
    searcher, node = _pair()
    message = bytearray(searcher.seal(HERE, b"cough"))
    message[place] ^= 1
    with pytest.raises(AccessDenied, match=r"^not allowed, or no such resource"):
        node.open(bytes(message))


@pytest.mark.parametrize("message", [b"", b"x" * 31, b"x" * 32, b"x" * 2_000])
def test_bytes_that_are_no_request_are_refused(message: bytes) -> None:
    _, node = _pair()
    with pytest.raises(AccessDenied, match=r"^not allowed, or no such resource"):
        node.open(message)


def test_a_request_under_the_name_of_another_searcher_is_refused() -> None:
    searcher, node = _pair()
    other = SearcherSeal(_directory())
    message = searcher.seal(HERE, b"cough")
    with pytest.raises(AccessDenied):
        node.open(other._public + message[32:])


def test_an_answer_of_another_node_is_refused() -> None:
    searcher, _ = _pair()
    other = NodeSeal(THERE, IDENTITIES[THERE])
    searcher.learn(THERE, other.prekey())
    opened = other.open(searcher.seal(THERE, b"cough"))
    envelope = other.seal(opened, searcher.return_prekey(), b"mine")
    assert searcher.open(THERE, envelope) == b"mine"
    with pytest.raises(AccessDenied, match="not an answer of this node"):
        searcher.open(HERE, envelope)


def test_an_answer_is_sealed_for_nobody_but_who_asked() -> None:
    searcher, node = _pair()
    other = SearcherSeal(_directory())
    opened = node.open(searcher.seal(HERE, b"cough"))
    with pytest.raises(AccessDenied):
        node.seal(opened, other.return_prekey(), b"a document")
    with pytest.raises(DataError):
        node.seal(opened, b"", b"a document")


def test_a_prekey_that_the_node_did_not_sign_is_refused() -> None:
    searcher = SearcherSeal(_directory())
    false = NodeSeal(HERE, SigningIdentity.generate())
    with pytest.raises(AccessDenied):
        searcher.learn(HERE, false.prekey())
    with pytest.raises(AccessDenied, match="another node"):
        searcher.learn(HERE, NodeSeal(THERE, IDENTITIES[THERE]).prekey())
    assert not searcher.knows(HERE)


def test_a_node_keeps_nothing_of_a_sender_it_has_not_answered() -> None:
    searcher, node = _pair()
    opened = node.open(searcher.seal(HERE, b"cough"))
    assert len(node._peers) == 0
    node.seal(opened, searcher.return_prekey(), b"a document")
    assert len(node._peers) == 1


def test_old_prekeys_are_destroyed_and_requests_for_them_refused() -> None:
    now_s = [1_000_000.0]
    settings = SealedSettings(prekey_lifetime_s=100, prekey_grace_s=10, clock_skew_s=1)
    node = NodeSeal(HERE, IDENTITIES[HERE], settings=settings, clock=lambda: now_s[0])
    searcher = SearcherSeal(_directory(), settings=settings, clock=lambda: now_s[0])
    searcher.learn(HERE, node.prekey())
    message = searcher.seal(HERE, b"cough")
    node.seal(node.open(message), searcher.return_prekey(), b"a document")
    now_s[0] += 200
    assert not searcher.knows(HERE)
    node.prekey()
    assert len(node._peers) == 0
    with pytest.raises(CloisterError):
        node.open(message)
