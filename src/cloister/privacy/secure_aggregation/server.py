"""The server of secure aggregation: takes messages one by one, closes each stage, has no network.

Bonawitz et al. (2017), figure 4, server's part. Vectors are added up as they come and never kept.
Each stage is closed by the method that returns what is sent out; who was not heard by then has
dropped out. Messages of stages 1, 2 and 4 carry no signature: as in the paper, the connection that
brings them tells the server who speaks.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import AccessDenied
from cloister.privacy.identity import Directory
from cloister.privacy.secure_aggregation.client import Stage
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.messages import (
    AdvertisedKeys,
    DeliveredShares,
    MaskedInput,
    Message,
    RevealedShares,
    Roster,
    SealedShares,
    SharedKeys,
    SurvivorSet,
    SurvivorSignature,
    SurvivorSignatures,
)
from cloister.privacy.secure_aggregation.session import Session
from cloister.privacy.secure_aggregation.transcript import ADVERTISING, SURVIVING, Transcript
from cloister.privacy.secure_aggregation.unmasking import Unmasking

__all__ = ["Aggregate", "AggregationServer"]


class Aggregate(NamedTuple):
    """The sum over the clients that survived, as integers modulo 2^64."""

    total: NDArray[np.uint64]
    client_ids: tuple[str, ...]
    liars: tuple[str, ...]  # clients whose revealed shares were not those that they were given


class AggregationServer:
    """The server's part in one session.

    A message that cannot be right raises and is left out; the stage goes on without its sender.
    Too few clients at the end of a stage end the session.

    Parameters
    ----------
    session
        The public parameters.
    directory
        The public signing keys of all members.
    """

    def __init__(self, session: Session, directory: Directory) -> None:
        self._session = session
        self._directory = directory
        self._stage = Stage.ADVERTISE_KEYS
        self._advertised: dict[str, AdvertisedKeys] = {}
        self._probe = KeyPair.generate()
        self._shared: dict[int, tuple[SealedShares, ...]] = {}
        self._survivors: set[int] = set()
        self._total = np.zeros(session.n_values, np.uint64)
        self._signatures: dict[int, bytes] = {}

    def add_keys(self, message: AdvertisedKeys) -> None:
        """Stage 0: take a client's keys, if it is a member and signed them."""
        self._expect(Stage.ADVERTISE_KEYS, message)
        client_id = message.client_id
        if client_id not in self._session.member_set or client_id in self._advertised:
            raise AggregationFailed("no member, or there already", where=client_id)
        try:
            self._directory.verify(
                client_id, ADVERTISING, message.signed_bytes(), message.signature
            )
        except AccessDenied as error:
            raise AggregationFailed(
                f"keys are not signed by their owner: {error.what}", where=client_id
            ) from None
        for key in (message.encryption_key, message.mask_key):
            self._probe.agree(key, MASK, b"is the key usable?", 0, 0)
        self._advertised[client_id] = message

    def close_keys(self) -> Roster:
        """Stage 0, end: return U1 for all clients."""
        self._close(Stage.ADVERTISE_KEYS, len(self._advertised), "advertised keys")
        entries = tuple(self._advertised[client_id] for client_id in sorted(self._advertised))
        roster = Roster(self._session.context, entries)
        self._transcript = Transcript(self._session, roster)
        self._holders = [self._transcript.holders(c) for c in range(len(entries))]
        return roster

    def add_shares(self, message: SharedKeys) -> None:
        """Stage 1: take the encrypted shares of one client."""
        self._expect(Stage.SHARE_KEYS, message)
        self._expect_sender(message.sender, self._shared.keys(), range(len(self._holders)))
        if tuple(packet.peer for packet in message.packets) != self._holders[message.sender]:
            raise AggregationFailed(
                "not one pair of shares for each holder", where=self._name(message.sender)
            )
        self._shared[message.sender] = message.packets

    def close_shares(self) -> dict[str, DeliveredShares]:
        """Stage 1, end: return U2 and the shares of its neighbours for each client in U2."""
        self._close(Stage.SHARE_KEYS, len(self._shared), "shared keys")
        sharers = tuple(sorted(self._shared))
        inbox: dict[int, list[SealedShares]] = {sharer: [] for sharer in sharers}
        for sender in sharers:
            for packet in self._shared[sender]:
                if packet.peer != sender and packet.peer in inbox:
                    inbox[packet.peer].append(packet._replace(peer=sender))
        self._unmasking = Unmasking(self._transcript, self._holders, self._shared)
        self._sharers = sharers
        context = self._session.context
        return {
            self._name(receiver): DeliveredShares(context, receiver, sharers, tuple(packets))
            for receiver, packets in inbox.items()
        }

    def add_input(self, message: MaskedInput) -> None:
        """Stage 2: add a masked vector to the sum."""
        self._expect(Stage.MASK_INPUT, message)
        self._expect_sender(message.sender, self._survivors, self._shared.keys())
        if message.values.shape != self._total.shape or message.values.dtype != np.uint64:
            raise AggregationFailed(
                f"not {len(self._total)} values", where=self._name(message.sender)
            )
        self._total += message.values
        self._survivors.add(message.sender)

    def close_inputs(self) -> SurvivorSet:
        """Stage 2, end: return U3 for all clients in it."""
        self._close(Stage.MASK_INPUT, len(self._survivors), "sent a vector")
        self._told = SurvivorSet(self._session.context, tuple(sorted(self._survivors)))
        return self._told

    def add_signature(self, message: SurvivorSignature) -> None:
        """Stage 3: take a client's signature of U2 and U3."""
        self._expect(Stage.SIGN_SURVIVORS, message)
        self._expect_sender(message.sender, self._signatures.keys(), self._survivors)
        name = self._name(message.sender)
        sets = self._transcript.signed_sets(self._sharers, self._told.survivors)
        try:
            self._directory.verify(name, SURVIVING, sets, message.signature)
        except AccessDenied:
            raise AggregationFailed("the signature of the survivors is wrong", where=name) from None
        self._signatures[message.sender] = message.signature

    def close_signatures(self) -> dict[str, SurvivorSignatures]:
        """Stage 3, end: return its holders' signatures for each client that signed."""
        self._close(Stage.SIGN_SURVIVORS, len(self._signatures), "signed the survivors")
        return {
            self._name(signer): SurvivorSignatures(
                self._session.context,
                tuple(
                    (holder, self._signatures[holder])
                    for holder in self._holders[signer]
                    if holder in self._signatures
                ),
            )
            for signer in sorted(self._signatures)
        }

    def add_revealed(self, message: RevealedShares) -> None:
        """Stage 4: take the shares that a client reveals; raise if one is not what it was given.

        The shares of that client that are right are kept all the same.
        """
        self._expect(Stage.REVEAL_SHARES, message)
        self._expect_sender(message.sender, self._unmasking.openers, self._signatures.keys())
        self._unmasking.add(message, self._survivors)

    def close(self) -> Aggregate:
        """Stage 4, end: open the masks that are left, take them away, return the sum."""
        self._close(Stage.REVEAL_SHARES, len(self._unmasking.openers), "revealed shares")
        try:
            self._unmasking.remove_masks(self._total, self._survivors)
        except AggregationFailed:
            self._stage = Stage.STOPPED
            raise
        names = tuple(self._name(survivor) for survivor in sorted(self._survivors))
        return Aggregate(self._total, names, self.liars())

    def liars(self) -> tuple[str, ...]:
        """Return who revealed shares, or shared out a secret, that cannot be right."""
        if not self._survivors:
            return ()  # nothing was revealed yet
        return tuple(self._name(liar) for liar in sorted(self._unmasking.liars))

    def _expect(self, stage: Stage, message: Message) -> None:
        if self._stage is not stage:
            raise AggregationFailed(
                f"a message of {stage.name} when {self._stage.name} is next", where="server"
            )
        if message.context != self._session.context:
            raise AggregationFailed("a message of another session", where="server")

    def _expect_sender(self, sender: int, heard: Container[int], allowed: Container[int]) -> None:
        if sender not in allowed or sender in heard:
            raise AggregationFailed(
                "not expected to speak in this stage, or heard already", where=f"client {sender}"
            )

    def _close(self, stage: Stage, n_heard: int, what: str) -> None:
        if self._stage is not stage:
            raise AggregationFailed(
                f"asked to close {stage.name} when {self._stage.name} is next", where="server"
            )
        if n_heard < self._session.min_survivors:
            self._stage = Stage.STOPPED
            raise AggregationFailed(
                f"{n_heard} clients {what}; {self._session.min_survivors} are needed",
                where="server",
            )
        self._stage = _AFTER[stage]

    def _name(self, place: int) -> str:
        return self._transcript.client_id(place)


_AFTER = {
    Stage.ADVERTISE_KEYS: Stage.SHARE_KEYS,
    Stage.SHARE_KEYS: Stage.MASK_INPUT,
    Stage.MASK_INPUT: Stage.SIGN_SURVIVORS,
    Stage.SIGN_SURVIVORS: Stage.REVEAL_SHARES,
    Stage.REVEAL_SHARES: Stage.DONE,
}
