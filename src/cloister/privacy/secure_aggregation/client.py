"""A client of secure aggregation: one method a stage, no network.

Bonawitz et al. (2017), figure 4, with the parts that it underlines (signatures and the consistency
check), on the graph of Bell et al. (2020). A client serves one session. Each stage happens once; an
error in a stage ends the client's part in the session, with nothing revealed by that stage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from cloister.core.errors import AccessDenied
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import SEED_BYTES, MaskStream
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
from cloister.privacy.secure_aggregation.share_packets import SharePackets
from cloister.privacy.secure_aggregation.transcript import (
    ADVERTISING,
    SURVIVING,
    Transcript,
    commitment_to_seed,
)

__all__ = ["AggregationClient", "Stage"]


class Stage(IntEnum):
    """How far a client, or the server, has come."""

    ADVERTISE_KEYS = 0
    SHARE_KEYS = 1
    RECEIVE_SHARES = 2
    MASK_INPUT = 3
    SIGN_SURVIVORS = 4
    REVEAL_SHARES = 5
    DONE = 6
    STOPPED = 7


class AggregationClient:
    """One client's part in one session.

    Against a server that lies and up to ``n_colluders`` colluding clients, the server learns of
    this client's vector only the sum over one set of at least ``min_survivors`` clients. It does
    learn who took part and when; and nothing keeps it from publishing another sum. The caller sees
    to it that a client begins each session once, also after a restart (see `Session`).

    Parameters
    ----------
    session
        The public parameters.
    client_id, identity
        Who this is, and its signing key, known to the others by their directories.
    directory
        The public signing keys of all members.
    """

    def __init__(
        self, session: Session, client_id: str, identity: SigningIdentity, directory: Directory
    ) -> None:
        if client_id not in session.member_set:
            raise AggregationFailed("no member of the session", where=client_id)
        self._session = session
        self._client_id = client_id
        self._identity = identity
        self._directory = directory
        self._stage = Stage.ADVERTISE_KEYS
        self._unreadable: tuple[int, ...] = ()

    @property
    def stage(self) -> Stage:
        """The stage that comes next."""
        return self._stage

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The peers whose shares did not arrive, or not as they were sent."""
        return tuple(self._transcript.client_id(peer) for peer in self._unreadable)

    @property
    def holders(self) -> tuple[str, ...]:
        """Who holds shares of this client's seed, itself among them; known from stage 1 on."""
        return tuple(self._transcript.client_id(holder) for holder in self._holders)

    @property
    def n_to_abort(self) -> int:
        """How many of them must promise to reveal nothing, until its seed can never be opened."""
        return self._session.n_to_abort(self._transcript.n_clients)

    @property
    def survivors(self) -> tuple[str, ...]:
        """The holders' set U3 as this client signed it: whose seeds it gives shares of."""
        return tuple(self._transcript.client_id(peer) for peer in self._near(self._survivors))

    def advertise_keys(self) -> AdvertisedKeys:
        """Stage 0: draw two key pairs and the self-mask's seed; sign the public part."""
        with self._step(Stage.ADVERTISE_KEYS):
            self._encryption = KeyPair.generate()  # c_u of the paper
            self._mask = KeyPair.generate()  # s_u
            self._seed = os.urandom(SEED_BYTES)  # b_u, in the paper drawn in round 1
            context = self._session.context
            public = (
                self._encryption.public,
                self._mask.public,
                commitment_to_seed(context, self._client_id, self._seed),
            )
            unsigned = AdvertisedKeys(context, self._client_id, *public, b"")
            signature = self._identity.sign(ADVERTISING, unsigned.signed_bytes())
            self._advertised = AdvertisedKeys(context, self._client_id, *public, signature)
            return self._advertised

    def share_keys(self, roster: Roster) -> SharedKeys:
        """Stage 1: check who is there; give each holder its shares of both secrets."""
        with self._step(Stage.SHARE_KEYS, roster):
            transcript = self._transcript = Transcript(self._session, roster)
            self._place = transcript.place_of(self._advertised)
            self._holders = transcript.holders(self._place)
            transcript.keep(self._holders)
            self._check_signatures(transcript)
            self._packets = SharePackets(transcript, self._place, self._encryption, self._holders)
            packets = self._packets.seal(self._seed, self._mask.private_bytes())
            return SharedKeys(self._session.context, self._place, packets)

    def receive_shares(self, delivered: DeliveredShares) -> int:
        """Stage 1, end: take the others' shares; return the size of U2, all who shared keys.

        A peer whose shares cannot be read stays in U2, and is listed in `unreadable`. Masks with it
        are added all the same, as it may add its own; they cancel, or go when its key is opened by
        holders that could read their shares.
        """
        with self._step(Stage.RECEIVE_SHARES, delivered):
            if delivered.receiver != self._place:
                raise AggregationFailed("shares for somebody else", where=self._client_id)
            self._check_set("U2", delivered.sharers)
            self._sharers = delivered.sharers
            self._open_packets(delivered.packets)
            return len(self._sharers)

    def mask_input(self, values: ArrayLike) -> MaskedInput:
        """Stage 2: add the self-mask and a mask with each neighbour in U2 to the vector."""
        with self._step(Stage.MASK_INPUT):
            masked = self._session.fixed_point.encode(values)
            if masked.shape != (self._session.n_values,):
                raise AggregationFailed(
                    f"the vector is not of length {self._session.n_values}", where=self._client_id
                )
            masked = np.array(masked, np.uint64)  # never the caller's own array
            stream = MaskStream(self._session.n_values)
            stream.add(masked, self._seed)  # p_u = PRG(b_u)
            for peer in self._peers(self._sharers):  # p_uv = +-PRG(s_uv); they cancel in the sum
                apply = stream.add if self._place < peer else stream.subtract
                apply(masked, self._mask_with(peer))
            return MaskedInput(self._session.context, self._place, masked)

    def sign_survivors(self, told: SurvivorSet) -> SurvivorSignature:
        """Stage 3: sign U2 and U3 as they were told, once.

        Each neighbour in U3 must have sent shares that this client could read. That proves that it
        was shown the same roster: keys and associated data depend on it.
        """
        with self._step(Stage.SIGN_SURVIVORS, told):
            self._check_set("U3", told.survivors)
            if not set(self._sharers).issuperset(told.survivors):
                raise AggregationFailed("U3 has clients that are not in U2", where="server")
            self._check_same_roster(told.survivors)
            self._survivors = told.survivors
            sets = self._transcript.signed_sets(self._sharers, self._survivors)
            signature = self._identity.sign(SURVIVING, sets)
            return SurvivorSignature(self._session.context, self._place, signature)

    def reveal_shares(self, signed: SurvivorSignatures) -> RevealedShares:
        """Stage 4: once t holders have signed the same sets, give one share of each peer.

        Of a peer in U3 the share of its self-mask's seed, of one that dropped out the share of its
        mask key: never both.
        """
        with self._step(Stage.REVEAL_SHARES, signed):
            self._check_agreement(signed)
            survivors = set(self._survivors)
            dropped = [peer for peer in self._sharers if peer not in survivors]
            return RevealedShares(
                self._session.context,
                self._place,
                self._packets.seed_shares(self._survivors),
                self._packets.key_shares(dropped),
            )

    @contextmanager
    def _step(self, stage: Stage, message: Message | None = None) -> Iterator[None]:
        """Let each stage happen once and in order; whatever goes wrong ends the session."""
        if self._stage is not stage:
            raise AggregationFailed(
                f"asked for {stage.name} when {self._stage.name} is next", where=self._client_id
            )
        self._stage = Stage.STOPPED
        try:
            if message is not None and message.context != self._session.context:
                raise AggregationFailed("a message of another session", where=self._client_id)
            yield
            self._stage = Stage(stage + 1)
        finally:
            if self._stage in (Stage.DONE, Stage.STOPPED):
                self._forget()

    def _forget(self) -> None:
        """Drop all secrets and shares: this client has nothing more to say."""
        for name in ("_seed", "_mask", "_encryption", "_packets"):
            self.__dict__.pop(name, None)

    def _check_signatures(self, transcript: Transcript) -> None:
        """Figure 4, round 1: check that the keys of all neighbours are signed by them."""
        for peer in self._holders:
            if peer != self._place:
                entry = transcript.entries[peer]
                try:
                    self._directory.verify(
                        entry.client_id, ADVERTISING, entry.signed_bytes(), entry.signature
                    )
                except AccessDenied as error:
                    raise AggregationFailed(
                        f"keys are not signed by their owner: {error.what}", where=entry.client_id
                    ) from None

    def _open_packets(self, packets: tuple[SealedShares, ...]) -> None:
        expected = set(self._peers(self._sharers))
        if not expected.issuperset(packet.peer for packet in packets):
            raise AggregationFailed("shares from no neighbour in U2", where="server")
        self._unreadable = self._packets.open(packets, expected)
        self._need(len(expected) - len(self._unreadable) + 1, "holders' shares can be read")

    def _check_set(self, name: str, places: tuple[int, ...]) -> None:
        """Check a set as the server tells it: this client in it, enough in all and near by."""
        known = set(places)
        if len(known) != len(places) or any(
            not 0 <= p < self._transcript.n_clients for p in places
        ):
            raise AggregationFailed(f"{name} is no set of clients", where="server")
        if self._place not in known:
            raise AggregationFailed(f"{name} leaves this client out", where=self._client_id)
        if len(known) < self._session.min_survivors:
            raise AggregationFailed(
                f"{len(known)} clients are in {name}; {self._session.min_survivors} are needed",
                where=self._client_id,
            )
        self._need(len(known.intersection(self._holders)), f"holders are in {name}")

    def _check_same_roster(self, survivors: tuple[int, ...]) -> None:
        """Refuse a neighbour in U3 that may have been shown another roster.

        In that other roster it may count as dropped out, and its mask key be opened: the server
        could then take the masks with it away here, and have a sum that it is not in.
        """
        doubtful = set(survivors).intersection(self._unreadable)
        if doubtful:
            raise AggregationFailed(
                "it is in U3, and its shares could not be read",
                where=self._transcript.client_id(min(doubtful)),
            )

    def _check_agreement(self, signed: SurvivorSignatures) -> None:
        """Figure 4, round 4: check t signatures, this client's own among them."""
        sets = self._transcript.signed_sets(self._sharers, self._survivors)
        signatures = dict(signed.signatures)
        agreed = 1  # this client
        for peer in self._peers(self._survivors):
            if agreed == self._transcript.plan.threshold:
                break
            if peer in signatures:
                agreed += self._signed(peer, sets, signatures[peer])
        self._need(agreed, "holders signed the sets that this client was told")

    def _signed(self, peer: int, sets: bytes, signature: bytes) -> bool:
        try:
            self._directory.verify(self._transcript.client_id(peer), SURVIVING, sets, signature)
        except AccessDenied:
            return False
        return True

    def _need(self, n_found: int, what: str) -> None:
        threshold = self._transcript.plan.threshold
        if n_found < threshold:
            raise AggregationFailed(
                f"{n_found} {what}; {threshold} are needed", where=self._client_id
            )

    def _peers(self, places: tuple[int, ...]) -> list[int]:
        """Return this client's neighbours among some clients."""
        return [peer for peer in self._near(places) if peer != self._place]

    def _near(self, places: tuple[int, ...]) -> list[int]:
        """Return those of some clients whose shares this client holds, itself among them."""
        present = set(places)
        return [holder for holder in self._holders if holder in present]

    def _mask_with(self, peer: int) -> bytes:
        low, high = sorted((self._place, peer))
        key = self._transcript.entries[peer].mask_key
        return self._mask.agree(key, MASK, self._transcript.digest, low, high)
