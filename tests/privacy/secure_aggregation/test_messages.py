from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.privacy.secure_aggregation.messages import MaskedInput, Message
from cloister.privacy.secure_aggregation.shamir import PRIME, SHARE_BYTES
from privacy.secure_aggregation.parties import Party


def _all_messages() -> list[Message]:
    party = Party(4, 3)
    messages: list[Message] = []
    advertised = [client.advertise_keys() for client in party.clients.values()]
    for message in advertised:
        party.server.add_keys(message)
    roster = party.server.close_keys()
    shared = [client.share_keys(roster) for client in party.clients.values()]
    for share in shared:
        party.server.add_shares(share)
    delivered = party.server.close_shares()
    for place, (name, client) in enumerate(party.clients.items()):
        client.receive_shares(delivered[name])
        masked = client.mask_input(party.vector(place))
        if place:
            party.server.add_input(masked)
    told = party.server.close_inputs()
    for place in (1, 2, 3):
        signature = party[place].sign_survivors(told)
        party.server.add_signature(signature)
    signed = party.server.close_signatures()["client-1"]
    revealed = party[1].reveal_shares(signed)
    messages += [advertised[0], roster, shared[0], delivered["client-0"], masked, told]
    return [*messages, signature, signed, revealed]


MESSAGES = _all_messages()
KINDS = [type(message).__name__ for message in MESSAGES]


@pytest.mark.parametrize("message", MESSAGES, ids=KINDS)
def test_a_message_comes_back_from_its_bytes(message: Message) -> None:
    again = type(message).from_bytes(message.to_bytes())
    assert again.to_bytes() == message.to_bytes()
    if isinstance(message, MaskedInput) and isinstance(again, MaskedInput):
        assert np.array_equal(again.values, message.values)
    else:
        assert again == message


@pytest.mark.parametrize("message", MESSAGES, ids=KINDS)
def test_cut_and_lengthened_messages_are_refused(message: Message) -> None:
    content = message.to_bytes()
    for end in {*range(0, len(content), 7), len(content) - 1}:
        with pytest.raises(DataError):
            type(message).from_bytes(content[:end])
    with pytest.raises(DataError, match="after the end"):
        type(message).from_bytes(content + b"\0")


@pytest.mark.parametrize("message", MESSAGES, ids=KINDS)
def test_a_message_is_not_read_as_another_kind(message: Message) -> None:
    for other in MESSAGES:
        if type(other) is not type(message):
            with pytest.raises(DataError, match="this is no"):
                type(other).from_bytes(message.to_bytes())


@given(st.sampled_from(MESSAGES), st.data())
def test_changed_bytes_are_refused_or_give_another_message(
    message: Message, data: st.DataObject
) -> None:
    content = bytearray(message.to_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        again = type(message).from_bytes(bytes(content))
    except DataError:
        return
    assert again.to_bytes() == bytes(content)  # one form only for each message


@given(st.sampled_from([type(message) for message in MESSAGES]), st.binary(max_size=300))
def test_noise_is_refused(kind: type[Message], noise: bytes) -> None:
    with pytest.raises(DataError):
        kind.from_bytes(noise)


def test_shares_outside_the_field_and_unsorted_sets_are_refused() -> None:
    revealed, told = MESSAGES[-1], MESSAGES[5]
    content = revealed.to_bytes()
    wrong = content[:-SHARE_BYTES] + PRIME.to_bytes(SHARE_BYTES, "big")
    with pytest.raises(DataError, match="field"):
        type(revealed).from_bytes(wrong)
    content = told.to_bytes()
    with pytest.raises(DataError, match="rise"):
        type(told).from_bytes(content[:-8] + content[-4:] + content[-8:-4])
