"""Two rosters, so that a client counts as dropped out in one and as a survivor in the other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation import (
    AggregationClient,
    AggregationFailed,
    FixedPoint,
    Session,
)
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import MaskStream
from cloister.privacy.secure_aggregation.messages import (
    DeliveredShares,
    MaskedInput,
    RevealedShares,
    Roster,
    SurvivorSet,
    SurvivorSignatures,
)
from cloister.privacy.secure_aggregation.shamir import reconstruct
from cloister.privacy.secure_aggregation.transcript import Transcript

UNREADABLE = "it is in U3, and its shares could not be read"


class SplitRosters:
    """A server that opens mask keys in side rosters and takes those masks away in the main one.

    On a ring a few neighbours suffice to open a mask key. It shows a side roster to thirteen
    clients in a row there, and says that the one in the middle dropped out. In the main roster that
    client is told to have survived; nobody there has heard of it but by the server.
    """

    N, MIN_SURVIVORS, N_NEAR = 110, 88, 13

    def __init__(self) -> None:
        names = [f"c{place:03}" for place in range(self.N)]
        identities = {name: SigningIdentity.generate() for name in names}
        directory = Directory({name: key.public for name, key in identities.items()})
        self.session = Session.new(
            names,
            n_values=2,
            fixed_point=FixedPoint(bound=1000.0, scale_bits=0),
            min_survivors=self.MIN_SURVIVORS,
            n_colluders=0,
        )
        self.clients = {
            name: AggregationClient(self.session, name, identities[name], directory)
            for name in names
        }
        self.keys = {name: client.advertise_keys() for name, client in self.clients.items()}
        self.rng = np.random.default_rng(1)
        self.unused = set(names)
        self.refusals: list[str] = []

    def transcript(self, names: Iterable[str]) -> Transcript:
        entries = tuple(self.keys[name] for name in sorted(names))
        return Transcript(self.session, Roster(self.session.context, entries))

    def ring(self, transcript: Transcript) -> list[str]:
        return [transcript.client_id(place) for place in transcript._order]

    def open_a_mask_key(self) -> tuple[str, KeyPair]:
        """Return a client and its mask key, opened by its neighbours in a side roster."""
        while True:
            chosen = self.rng.permutation(sorted(self.keys))[: self.MIN_SURVIVORS + 1].tolist()
            side = self.transcript(chosen)
            ring = self.ring(side)
            for begin in range(len(ring) - self.N_NEAR):
                near = ring[begin : begin + self.N_NEAR]
                if self.unused.issuperset(near):
                    victim = near[self.N_NEAR // 2]
                    self.unused.difference_update(near)
                    _, revealed = self.drive(side, near, sharers=chosen, dropped=victim)
                    (key,) = self.opened(side, revealed, "key_shares").values()
                    return victim, KeyPair.from_private_bytes(key)

    def drive(
        self, shown: Transcript, present: list[str], *, sharers: list[str], dropped: str = ""
    ) -> tuple[dict[str, MaskedInput], dict[str, RevealedShares]]:
        """Take those who are present through all stages; the rest is only told to be there."""
        context = self.session.context
        roster = Roster(context, tuple(shown.entries.values()))
        place = {entry.client_id: number for number, entry in shown.entries.items()}
        shared = {name: self.clients[name].share_keys(roster) for name in sorted(present)}
        u2 = tuple(sorted(place[name] for name in sharers))
        u3 = tuple(number for number in u2 if number != place.get(dropped))
        inputs, signed, revealed = {}, {}, {}
        for name in present:
            packets = tuple(
                packet._replace(peer=message.sender)
                for message in shared.values()
                for packet in message.packets
                if packet.peer == place[name] != message.sender
            )
            try:
                told = DeliveredShares(context, place[name], u2, packets)
                self.clients[name].receive_shares(told)
                inputs[name] = self.clients[name].mask_input([1, int(name[1:])])
                if name != dropped:
                    signed[name] = self.clients[name].sign_survivors(SurvivorSet(context, u3))
            except AggregationFailed as error:
                self.refusals.append(error.what)
        signatures = tuple(sorted((m.sender, m.signature) for m in signed.values()))
        for name in signed:
            try:
                told_signed = SurvivorSignatures(context, signatures)
                revealed[name] = self.clients[name].reveal_shares(told_signed)
            except AggregationFailed as error:
                self.refusals.append(error.what)
        return inputs, revealed

    def opened(
        self, shown: Transcript, revealed: dict[str, RevealedShares], kind: str
    ) -> dict[str, bytes]:
        shares: dict[int, dict[int, int]] = {}
        for message in revealed.values():
            for owner, value in getattr(message, kind):
                point = shown.holders(owner).index(message.sender) + 1
                shares.setdefault(owner, {})[point] = value
        threshold = shown.plan.threshold
        return {
            shown.client_id(owner): reconstruct(
                dict(sorted(found.items())[:threshold]), threshold
            ).to_bytes(32, "big")
            for owner, found in shares.items()
            if len(found) >= threshold
        }

    def main_roster(self, stolen: set[str]) -> tuple[Transcript, list[str]]:
        """Return a roster with one client outside U2, far from the stolen ones, and the others."""
        n_others = self.MIN_SURVIVORS + 1 - len(stolen)
        while True:
            others = self.rng.permutation(sorted(self.unused))[:n_others].tolist()
            main = self.transcript([*others, *stolen])
            ring = self.ring(main)
            doubled = ring + ring
            for begin in range(len(ring)):
                if not stolen.intersection(doubled[begin : begin + self.N_NEAR]):
                    outside = doubled[begin + self.N_NEAR // 2]
                    return main, [name for name in others if name != outside]

    def sum_without(self, stolen: dict[str, KeyPair]) -> tuple[list[str], list[int] | None]:
        """Return who is in the sum, told to have the stolen clients in it, and that sum."""
        main, present = self.main_roster(set(stolen))
        inputs, revealed = self.drive(main, present, sharers=[*present, *stolen])
        seeds = self.opened(main, revealed, "seed_shares")
        if not seeds.keys() >= set(present):
            return present, None
        stream, total = MaskStream(2), np.zeros(2, np.uint64)
        for name in present:
            total += inputs[name].values
            stream.subtract(total, seeds[name])
        place = {entry.client_id: number for number, entry in main.entries.items()}
        for name, pair in stolen.items():
            for holder in main.holders(place[name]):
                peer = main.client_id(holder)
                if peer in inputs:
                    low, high = sorted((place[name], holder))
                    seed = pair.agree(self.keys[peer].mask_key, MASK, main.digest, low, high)
                    (stream.subtract if holder < place[name] else stream.add)(total, seed)
        return present, total.view(np.int64).tolist()


def test_a_server_that_shows_two_rosters_gets_no_sum() -> None:
    server = SplitRosters()
    stolen = dict([server.open_a_mask_key()])
    server.refusals.clear()
    _, found = server.sum_without(stolen)
    assert found is None
    n_neighbours = server.session.plan(server.MIN_SURVIVORS + 1).n_holders - 1
    assert server.refusals.count(UNREADABLE) == n_neighbours


def test_two_rosters_would_give_a_smaller_sum_if_unreadable_peers_could_survive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AggregationClient, "_check_same_roster", lambda *_: None)
    server = SplitRosters()
    present, found = server.sum_without(dict([server.open_a_mask_key()]))
    assert len(present) < server.MIN_SURVIVORS
    assert found == [len(present), sum(int(name[1:]) for name in present)]
