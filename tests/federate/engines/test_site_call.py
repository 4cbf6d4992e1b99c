"""Messages come back as they were sent; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import CloisterError, DataError
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.round_messages import RoundAnnouncement, SiteUpdate
from cloister.federate.engines.site_call import (
    MAX_CALL_BYTES,
    PROTOCOL_VERSION,
    SiteCall,
    SiteMethod,
    SiteReply,
    call_id_of,
)
from federate.engines.made_federation import A, Scene, agreed, secure

ROUNDS = st.integers(0, 2**32 - 1)
COUNTED = st.integers(-1, 9)
CALLS = st.builds(
    SiteCall, st.sampled_from(SiteMethod), ROUNDS, st.just(PROTOCOL_VERSION), st.binary(max_size=50)
)
NAMES = st.lists(st.text(max_size=8), max_size=3).map(tuple)
MODELS = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5).map(np.array)
ANNOUNCEMENTS = st.builds(
    RoundAnnouncement, st.text(), st.text(), ROUNDS, ROUNDS, COUNTED, NAMES, st.text(), MODELS
).filter(lambda told: told.last_counted < told.round_number)


@given(CALLS)
def test_a_call_comes_back_as_it_was_sent(call: SiteCall) -> None:
    assert SiteCall.from_bytes(call.to_bytes()) == call


@given(CALLS, CALLS)
def test_different_calls_have_different_ids(one: SiteCall, other: SiteCall) -> None:
    assert (call_id_of(one) == call_id_of(other)) == (one == other)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=50), st.sampled_from(["", "Fault"]))
def test_a_reply_comes_back_as_it_was_sent(call_id: bytes, payload: bytes, fault: str) -> None:
    reply = SiteReply(call_id, payload, fault)
    assert SiteReply.received(reply.to_bytes()) == reply


@given(ANNOUNCEMENTS)
def test_an_announcement_comes_back_as_it_was_sent(told: RoundAnnouncement) -> None:
    found = RoundAnnouncement.from_bytes(told.to_bytes())
    assert found[:-1] == told[:-1]
    np.testing.assert_array_equal(found.model, told.model)


def test_an_announcement_that_counts_a_round_to_come_is_refused() -> None:
    told = RoundAnnouncement("pilot", "", 3, 0, 3, (), "", np.zeros(2))
    with pytest.raises(DataError):
        RoundAnnouncement.from_bytes(told.to_bytes())


@given(ROUNDS, MODELS)
def test_an_update_comes_back_as_it_was_sent(n: int, difference: np.ndarray) -> None:
    content = SiteUpdate(n, difference).to_bytes()
    found = SiteUpdate.from_bytes(content, n_parameters=len(difference))
    assert found.n_interactions == n
    np.testing.assert_array_equal(found.difference, difference)
    with pytest.raises(DataError):
        SiteUpdate.from_bytes(content, n_parameters=len(difference) + 1)


@given(CALLS, st.data())
def test_a_call_that_is_cut_or_longer_is_refused(call: SiteCall, data: st.DataObject) -> None:
    content = call.to_bytes()
    cut = data.draw(st.integers(0, len(content) - 1))
    for wrong in (content[:cut], content + b"\0"):
        with pytest.raises(DataError):
            SiteCall.from_bytes(wrong)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_no_update(bad: float) -> None:
    with pytest.raises(DataError, match="finite"):
        SiteUpdate.from_bytes(SiteUpdate(1, np.array([bad])).to_bytes(), n_parameters=1)


@given(CALLS, st.binary(min_size=32, max_size=32), st.data())
def test_no_byte_can_change_on_the_way(call: SiteCall, call_id: bytes, data: st.DataObject) -> None:
    reply = SiteReply(call_id, call.payload)
    for kind, content in ((SiteCall, call.to_bytes()), (SiteReply, reply.to_bytes())):
        wrong = bytearray(content)
        wrong[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        with pytest.raises(DataError):
            kind.from_bytes(bytes(wrong))


def test_a_call_that_is_too_large_is_refused() -> None:
    call = SiteCall(SiteMethod.TRAIN, 0, PROTOCOL_VERSION, bytes(MAX_CALL_BYTES))
    with pytest.raises(DataError, match="more than"):
        SiteCall.from_bytes(call.to_bytes())


def test_a_call_of_another_version_is_refused() -> None:
    with pytest.raises(DataError, match="version 99"):
        SiteCall.from_bytes(SiteCall(SiteMethod.TRAIN, 0, 99, b"").to_bytes())


@pytest.mark.parametrize("agreement", [agreed(), secure()])
def test_a_site_answers_any_bytes_with_a_fault_and_releases_nothing(
    tmp_path: Path, agreement: FederationAgreement
) -> None:
    scene = Scene(tmp_path, agreement)
    try:
        _answers_with_faults(scene)
        assert scene.n_releases() == [0, 0, 0]
    finally:
        scene.close()


def _answers_with_faults(scene: Scene) -> None:
    others = CALLS.filter(lambda call: call.method is not SiteMethod.HELLO)  # which is answered

    @given(st.binary(max_size=60) | others.map(SiteCall.to_bytes))
    def check(content: bytes) -> None:
        reply = SiteReply.from_bytes(scene.sites[A].answer(content))
        assert reply.payload == b""
        assert reply.fault in {kind.__name__ for kind in _kinds(CloisterError)}

    check()


def _kinds(kind: type) -> list[type]:
    return [kind, *(found for below in kind.__subclasses__() for found in _kinds(below))]
