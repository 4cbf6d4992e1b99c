"""Each lie of a server or a client, and how it is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloister.core.errors import CloisterError, SettingsError
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.secure_aggregation import (
    AggregationClient,
    AggregationFailed,
    FixedPoint,
    Session,
    Stage,
    run_round,
)
from cloister.privacy.secure_aggregation.keys import KeyPair
from cloister.privacy.secure_aggregation.messages import (
    AdvertisedKeys,
    DeliveredShares,
    RevealedShares,
    Roster,
    SharedKeys,
    SurvivorSet,
    SurvivorSignatures,
)
from cloister.privacy.secure_aggregation.transcript import ADVERTISING
from privacy.secure_aggregation.parties import Party, identities_of, session_of


def swapped(roster: Roster, place: int, entry: AdvertisedKeys) -> Roster:
    return replace(roster, entries=(*roster.entries[:place], entry, *roster.entries[place + 1 :]))


def stopped(client: AggregationClient) -> bool:
    return client.stage is Stage.STOPPED


# --- stage 0: keys


@pytest.mark.parametrize("field", ["encryption_key", "mask_key", "seed_commitment"])
def test_a_swapped_key_is_found_by_the_neighbours(field: str) -> None:
    party = Party()
    roster = party.advertise()
    forged = replace(roster.entries[2], **{field: KeyPair.generate().public})
    with pytest.raises(AggregationFailed, match="client-2: keys are not signed"):
        party[0].share_keys(swapped(roster, 2, forged))
    assert stopped(party[0])


def test_a_client_finds_that_its_own_keys_were_swapped_or_left_out() -> None:
    for change in ("swapped", "left out"):
        party = Party()
        roster = party.advertise()
        entry = replace(roster.entries[0], mask_key=KeyPair.generate().public)
        told = (
            swapped(roster, 0, entry)
            if change == "swapped"
            else replace(roster, entries=roster.entries[1:])
        )
        with pytest.raises(AggregationFailed, match="does not have this client's keys"):
            party[0].share_keys(told)


def test_keys_of_an_old_session_are_refused_by_server_and_clients() -> None:
    old, new = Party(), Party()
    old_roster, roster = old.advertise(), new.advertise()
    replayed = replace(old_roster.entries[2], context=new.session.context)
    with pytest.raises(AggregationFailed, match="client-2: keys are not signed"):
        new[0].share_keys(swapped(roster, 2, replayed))
    with pytest.raises(AggregationFailed, match="another session"):
        new[1].share_keys(old_roster)
    fresh = Party(session=new.session)
    with pytest.raises(AggregationFailed, match="not signed"):
        fresh.server.add_keys(replayed)


def test_keys_replayed_inside_one_session_do_not_fit_the_owner() -> None:
    """A client that begins the same session again has new keys; the old ones are not its own."""
    party = Party()
    roster = party.advertise()
    again = Party(session=party.session)
    again.advertise()
    with pytest.raises(AggregationFailed, match="does not have this client's keys"):
        again[0].share_keys(roster)


def test_an_impersonated_client_is_refused() -> None:
    party = Party()
    impostor = AggregationClient(
        party.session, "client-1", SigningIdentity.generate(), party.directory
    )
    message = impostor.advertise_keys()
    with pytest.raises(AggregationFailed, match="client-1: keys are not signed"):
        party.server.add_keys(message)
    roster = party.advertise()
    with pytest.raises(AggregationFailed, match="client-1: keys are not signed"):
        party[0].share_keys(swapped(roster, 1, message))


def test_strangers_and_repeated_clients_are_refused() -> None:
    party = Party()
    message = party[0].advertise_keys()
    party.server.add_keys(message)
    with pytest.raises(AggregationFailed, match="there already"):
        party.server.add_keys(message)
    with pytest.raises(AggregationFailed, match="no member"):
        AggregationClient(party.session, "x", SigningIdentity.generate(), party.directory)
    roster = Roster(party.session.context, (message,) * 5)
    with pytest.raises(AggregationFailed, match="there twice"):
        party[0].share_keys(roster)


def test_a_key_of_low_order_is_refused_by_the_server_at_once() -> None:
    party = Party()
    unsigned = AdvertisedKeys(
        party.session.context, "client-0", bytes(32), bytes(32), bytes(32), b""
    )
    signature = party.identities["client-0"].sign(ADVERTISING, unsigned.signed_bytes())
    with pytest.raises(AggregationFailed, match="not usable"):
        party.server.add_keys(replace(unsigned, signature=signature))


def test_a_roster_below_the_threshold_is_refused() -> None:
    party = Party(5, 4)
    roster = party.advertise()
    with pytest.raises(AggregationFailed, match="3 clients advertised"):
        party[0].share_keys(replace(roster, entries=roster.entries[:3]))


# --- stage 1: shares and the graph


def test_a_changed_ciphertext_or_hash_is_found_and_enough_others_do() -> None:
    for field in ("ciphertext", "seed_share_digest", "key_share_digest"):
        party = Party(5, 4)
        assert party[0].unreadable == ()
        delivered = party.share()
        for name, client in party.clients.items():
            told = delivered[name]
            if name == "client-0":
                packet = told.packets[1]
                bad = packet._replace(**{field: flipped(getattr(packet, field))})
                told = replace(told, packets=(told.packets[0], bad, *told.packets[2:]))
            client.receive_shares(told)
        assert party[0].unreadable == ("client-2",)
        assert party[1].unreadable == ()


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


@pytest.mark.parametrize("how", ["dropped", "changed", "exchanged"])
def test_shares_that_too_few_holders_can_read_stop_the_client(how: str) -> None:
    party = Party(5, 4)
    told = party.share()["client-0"]
    first, second, *rest = told.packets
    packets = {
        "dropped": tuple(rest),
        "changed": tuple(p._replace(ciphertext=flipped(p.ciphertext)) for p in told.packets),
        "exchanged": (
            first._replace(ciphertext=second.ciphertext),
            second._replace(ciphertext=first.ciphertext),
            *rest,
        ),
    }[how]
    with pytest.raises(AggregationFailed, match="holders' shares can be read"):
        party[0].receive_shares(replace(told, packets=packets))
    assert stopped(party[0])


def test_shares_for_another_client_are_refused() -> None:
    party = Party()
    delivered = party.share()
    with pytest.raises(AggregationFailed, match="somebody else"):
        party[0].receive_shares(delivered["client-1"])


def test_clients_told_different_rosters_cannot_read_each_others_shares() -> None:
    """A changed roster changes the graph; keys and associated data depend on all of it."""
    party = Party(7, 6)
    roster = party.advertise()
    smaller = replace(roster, entries=roster.entries[:6])
    messages = [party[i].share_keys(roster if i % 2 else smaller) for i in range(6)]
    packets = tuple(message.packets[0]._replace(peer=message.sender) for message in messages[1:])
    told = DeliveredShares(party.session.context, 0, tuple(range(6)), packets)
    with pytest.raises(AggregationFailed, match="3 holders' shares can be read; 6 are needed"):
        party[0].receive_shares(told)


def test_shares_that_do_not_follow_the_graph_are_refused() -> None:
    n = 40
    session = session_of(n, 36, n_colluders=1)
    party = Party(n, 36, session=session)
    roster = party.advertise()
    message = party[0].share_keys(roster)
    with pytest.raises(AggregationFailed, match="for each holder"):
        party.server.add_shares(replace(message, packets=message.packets[1:]))
    holders = {packet.peer for packet in message.packets}
    stranger = next(place for place in range(n) if place not in holders)
    packet = message.packets[0]._replace(peer=stranger)
    told = DeliveredShares(session.context, 0, tuple(range(n)), (packet,))
    with pytest.raises(AggregationFailed, match="no neighbour"):
        party[0].receive_shares(told)


@pytest.mark.parametrize(
    ("sharers", "match"),
    [
        ((1, 2, 3, 4), "leaves this client out"),
        ((0, 1, 2), "3 clients are in U2; 4 are needed"),
        ((0, 1, 2, 9), "no set of clients"),
        ((0, 1, 1, 2, 3), "no set of clients"),
    ],
)
def test_a_false_set_of_sharers_stops_the_client(sharers: tuple[int, ...], match: str) -> None:
    party = Party(5, 4)
    told = replace(party.share()["client-0"], sharers=sharers)
    with pytest.raises(AggregationFailed, match=match):
        party[0].receive_shares(told)


# --- a client that sends shares that cannot be read


UNREADABLE = "it is in U3, and its shares could not be read"


def spoilt_shares(message: SharedKeys, peers: set[int]) -> SharedKeys:
    return replace(
        message,
        packets=tuple(
            packet._replace(ciphertext=flipped(packet.ciphertext))
            if packet.peer in peers
            else packet
            for packet in message.packets
        ),
    )


def refusals_with_spoilt_shares(party: Party, spoilt: dict[int, set[int]], silent: set[int]) -> int:
    """Spoil some clients' shares for some others; check the sum, return how many refused."""
    clients = [party.clients[name] for name in party.session.members]
    roster = party.advertise()
    for place, client in enumerate(clients):
        message = spoilt_shares(client.share_keys(roster), spoilt.get(place, set()))
        party.server.add_shares(message)
    delivered = party.server.close_shares()
    for place, client in enumerate(clients):
        client.receive_shares(delivered[party.session.members[place]])
        if place not in silent:
            party.server.add_input(client.mask_input(party.vector(place)))
    told, n_refused = party.server.close_inputs(), 0
    for place in told.survivors:
        try:
            party.server.add_signature(clients[place].sign_survivors(told))
        except AggregationFailed as error:
            n_refused += error.what == UNREADABLE and stopped(clients[place])
    for name, signed in party.server.close_signatures().items():
        party.server.add_revealed(party.clients[name].reveal_shares(signed))
    found = party.server.close()
    literal = sum(party.vector(place) for place in told.survivors)
    assert np.array_equal(found.total.view(np.int64), literal)
    return n_refused


@pytest.mark.parametrize(
    ("spoilt", "silent", "n_refused"),
    [
        ({5: {0}}, set(), 1),  # the liar is in the sum, and its one reader opens nothing
        ({5: {0}}, {5}, 0),  # it dropped out: the others open its mask key
        ({5: {0, 1}}, set(), 2),
        ({5: {0, 1}}, {5}, 0),
        ({5: {0}, 4: {0}}, {4}, 1),
    ],
)
def test_a_sum_stays_exact_with_shares_that_cannot_be_read(
    spoilt: dict[int, set[int]], silent: set[int], n_refused: int
) -> None:
    assert refusals_with_spoilt_shares(Party(7, 4), spoilt, silent) == n_refused


@pytest.mark.parametrize("silent", [set(), {5}])
def test_too_many_unreadable_shares_give_an_error_and_no_sum(silent: set[int]) -> None:
    with pytest.raises(AggregationFailed, match=r"3 clients signed|client-5: 2 of its"):
        refusals_with_spoilt_shares(Party(7, 4), {5: {0, 1, 2, 3}}, silent)


def test_a_sum_on_a_ring_stays_exact_with_shares_that_cannot_be_read() -> None:
    session = session_of(40, 36, n_colluders=1)
    for silent in (set(), {7}):
        party = Party(40, 36, session=session)
        n_refused = refusals_with_spoilt_shares(party, {7: {8, 10}}, silent)
        assert n_refused <= (0 if silent else 2)


# --- stages 2 to 4


def signatures_by(party: Party, told: dict[int, SurvivorSet]) -> SurvivorSignatures:
    signed = [party[place].sign_survivors(message) for place, message in told.items()]
    return SurvivorSignatures(
        party.session.context, tuple((message.sender, message.signature) for message in signed)
    )


def test_different_survivors_told_to_different_clients_are_found() -> None:
    party = Party(6, 5)
    everybody = party.mask()
    fewer = SurvivorSet(everybody.context, (0, 1, 2, 3, 4))
    told = {place: fewer if place < 3 else everybody for place in range(6)}
    signed = signatures_by(party, told)
    for place in range(6):
        with pytest.raises(AggregationFailed, match="3 holders signed the sets"):
            party[place].reveal_shares(signed)
        assert stopped(party[place])


def test_different_sharers_told_to_different_clients_are_found() -> None:
    party = Party(6, 5)
    delivered = party.share()
    for place, (name, client) in enumerate(party.clients.items()):
        told = delivered[name]
        if place == 0:
            packets = tuple(packet for packet in told.packets if packet.peer != 5)
            told = replace(told, sharers=(0, 1, 2, 3, 4), packets=packets)
        client.receive_shares(told)
        party.server.add_input(client.mask_input(party.vector(place)))
    survivors = SurvivorSet(party.session.context, (0, 1, 2, 3, 4))
    signed = signatures_by(party, dict.fromkeys(range(5), survivors))
    with pytest.raises(AggregationFailed, match="1 holders signed"):
        party[0].reveal_shares(signed)


def test_a_forged_signature_of_survivors_does_not_count() -> None:
    party = Party(5, 4)
    told = party.mask()
    own = party[0].sign_survivors(told)
    forged = SurvivorSignatures(
        party.session.context, tuple((place, own.signature) for place in range(5))
    )
    with pytest.raises(AggregationFailed, match="1 holders signed"):
        party[0].reveal_shares(forged)
    with pytest.raises(AggregationFailed, match="client-1: the signature of the survivors"):
        party.server.add_signature(replace(own, sender=1))


@pytest.mark.parametrize("survivors", [(1, 2, 3, 4), (0, 1, 2), (0, 1, 2, 3, 7)])
def test_a_false_set_of_survivors_stops_the_client(survivors: tuple[int, ...]) -> None:
    party = Party(5, 4)
    told = party.mask()
    with pytest.raises(AggregationFailed):
        party[0].sign_survivors(replace(told, survivors=survivors))
    assert stopped(party[0])


def test_a_survivor_that_never_shared_keys_stops_the_client() -> None:
    party = Party(6, 4)
    roster = party.advertise()
    for place in range(5):
        party.server.add_shares(party[place].share_keys(roster))
    delivered = party.server.close_shares()
    party[0].receive_shares(delivered["client-0"])
    party[0].mask_input([1, 2, 3])
    with pytest.raises(AggregationFailed, match="not in U2"):
        party[0].sign_survivors(SurvivorSet(party.session.context, (0, 1, 2, 3, 4, 5)))


def test_asking_for_the_other_share_of_a_client_is_refused() -> None:
    """After U3 with everybody, the server asks again as if client 4 had dropped out."""
    party = Party(5, 4)
    everybody = party.mask()
    signed = signatures_by(party, dict.fromkeys(range(5), everybody))
    revealed = party[0].reveal_shares(signed)
    assert [owner for owner, _ in revealed.seed_shares] == [0, 1, 2, 3, 4]
    assert revealed.key_shares == ()
    with pytest.raises(AggregationFailed, match="DONE is next"):
        party[0].sign_survivors(SurvivorSet(everybody.context, (0, 1, 2, 3)))
    with pytest.raises(AggregationFailed, match="DONE is next"):
        party[0].reveal_shares(signed)
    assert not {"_seed", "_mask", "_encryption", "_packets"} & vars(party[0]).keys()


def test_a_client_reveals_one_share_of_each_peer_and_never_both() -> None:
    party = Party(6, 4)
    told = party.mask(silent=(2, 5))
    signed = signatures_by(party, dict.fromkeys((0, 1, 3, 4), told))
    revealed = party[0].reveal_shares(signed)
    assert [owner for owner, _ in revealed.seed_shares] == [0, 1, 3, 4]
    assert [owner for owner, _ in revealed.key_shares] == [2, 5]


def revealed_by_all(party: Party, silent: tuple[int, ...]) -> list[RevealedShares]:
    told = party.mask(silent)
    for place in told.survivors:
        party.server.add_signature(party[place].sign_survivors(told))
    signed = party.server.close_signatures()
    return [party.clients[name].reveal_shares(message) for name, message in signed.items()]


@pytest.mark.parametrize("field", ["seed_shares", "key_shares"])
def test_a_wrong_share_names_its_holder_and_the_others_suffice(field: str) -> None:
    party = Party(6, 4)
    messages = revealed_by_all(party, silent=(5,))
    (owner, value), *rest = getattr(messages[0], field)
    wrong = replace(messages[0], **{field: ((owner, value ^ 1), *rest)})
    with pytest.raises(AggregationFailed, match="client-0: a revealed share"):
        party.server.add_revealed(wrong)
    for message in messages[1:]:
        party.server.add_revealed(message)
    found = party.server.close()
    assert found.liars == ("client-0",)
    literal = sum(party.vector(place) for place in range(5))
    assert np.array_equal(found.total.view(np.int64), literal)


def test_wrong_shares_from_too_many_give_an_error_and_no_sum() -> None:
    party = Party(5, 4)
    for number, message in enumerate(revealed_by_all(party, silent=())):
        if number < 2:
            (owner, value), *rest = message.seed_shares
            message = replace(message, seed_shares=((owner, value ^ 1), *rest))
            with pytest.raises(AggregationFailed, match="not the one that was given"):
                party.server.add_revealed(message)
        else:
            party.server.add_revealed(message)
    with pytest.raises(AggregationFailed, match="client-0: 3 of its shares"):
        party.server.close()
    with pytest.raises(AggregationFailed, match="STOPPED"):
        party.server.close()


@pytest.mark.parametrize("secret", ["seed", "mask key"])
def test_a_client_that_shares_out_another_secret_is_named(secret: str) -> None:
    party = Party(5, 4)
    liar = party[4]
    true_keys = liar.share_keys

    def lie(roster: Roster) -> object:
        seed, pair = liar._seed, liar._mask
        if secret == "seed":
            liar._seed = bytes(32)
        else:
            liar._mask = KeyPair.generate()
        message = true_keys(roster)
        liar._seed, liar._mask = seed, pair
        return message

    liar.share_keys = lie  # type: ignore[method-assign, assignment]
    for message in revealed_by_all(party, silent=() if secret == "seed" else (4,)):
        party.server.add_revealed(message)
    with pytest.raises(AggregationFailed, match="client-4: it shared out another secret"):
        party.server.close()
    assert party.server.liars() == ("client-4",)


# --- order, repetition, foreign sessions


def test_every_stage_happens_once_and_in_order() -> None:
    party = Party(5, 4)
    with pytest.raises(AggregationFailed, match="ADVERTISE_KEYS is next"):
        party[0].mask_input([1, 2, 3])
    with pytest.raises(AggregationFailed, match="asked to close"):
        party.server.close_inputs()
    told = party.mask()
    with pytest.raises(AggregationFailed, match="SIGN_SURVIVORS is next"):
        party[0].mask_input([1, 2, 3])
    with pytest.raises(AggregationFailed, match="SIGN_SURVIVORS is next"):
        party[0].advertise_keys()
    party[0].sign_survivors(told)  # what was asked out of order did no harm
    with pytest.raises(AggregationFailed, match="REVEAL_SHARES is next"):
        party[0].sign_survivors(told)


def test_a_vector_counts_once_and_not_after_the_stage() -> None:
    party = Party(5, 4)
    delivered = party.share()
    messages = []
    for place, (name, client) in enumerate(party.clients.items()):
        client.receive_shares(delivered[name])
        messages.append(client.mask_input(party.vector(place)))
    for message in messages[:4]:
        party.server.add_input(message)
    with pytest.raises(AggregationFailed, match="heard already"):
        party.server.add_input(messages[0])
    with pytest.raises(AggregationFailed, match="not 3 values"):
        party.server.add_input(replace(messages[4], values=messages[4].values[:2]))
    party.server.close_inputs()
    with pytest.raises(AggregationFailed, match="SIGN_SURVIVORS is next"):
        party.server.add_input(messages[4])


def test_messages_of_another_session_are_refused_at_every_stage() -> None:
    party, foreign = Party(5, 4), session_of(5, 4).context
    roster = party.advertise()
    messages = {name: c.share_keys(roster) for name, c in party.clients.items()}
    with pytest.raises(AggregationFailed, match="another session"):
        party.server.add_shares(replace(messages["client-0"], context=foreign))
    for message in messages.values():
        party.server.add_shares(message)
    told = party.server.close_shares()["client-0"]
    with pytest.raises(AggregationFailed, match="another session"):
        party[0].receive_shares(replace(told, context=foreign))


def test_a_session_with_other_parameters_is_another_session() -> None:
    party = Party(5, 4)
    weaker = party.session.model_copy(update={"min_survivors": 3})
    assert weaker.context != party.session.context


@pytest.mark.parametrize("values", [[1, 2], [[1, 2, 3]], [1, 2, 2**41], [np.nan, 0, 0]])
def test_a_vector_of_another_length_or_out_of_range_never_leaves(values: list[object]) -> None:
    with pytest.raises(CloisterError):
        run_round(session_of(3, 2), identities_of(3), lambda n, _: np.array(values))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"min_survivors": 6}, "6 survivors of 5"),
        ({"min_survivors": 2}, "at least 3 survivors"),
        ({"min_survivors": 4, "n_colluders": 3}, "one honest client"),
        ({"members": ("b", "a")}, "sorted"),
        ({"members": ("a", "a b", "c")}, "blank"),
        ({"session_id": "00"}, "pattern"),
        ({"fixed_point": FixedPoint(bound=2.0**61, scale_bits=0)}, "2\\^63"),
    ],
)
def test_a_session_that_cannot_be_safe_is_refused(change: dict[str, object], match: str) -> None:
    fields = {name: getattr(session_of(5, 4), name) for name in Session.model_fields}
    with pytest.raises(SettingsError, match=match):
        Session(**{**fields, **change})
