"""Stage 4 at the server: from revealed shares to the sum without masks.

Bonawitz et al. (2017), figure 4, round 4, server. Every share is checked against the hash that its
owner gave in stage 1, so that a holder who reveals another one is named; every secret is checked
against what its owner advertised in stage 0, so that an owner who shared out something else is
named. A wrong secret never goes into the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import SEED_BYTES, MaskStream
from cloister.privacy.secure_aggregation.messages import RevealedShares, SealedShares
from cloister.privacy.secure_aggregation.shamir import SHARE_BYTES, reconstruct
from cloister.privacy.secure_aggregation.share_packets import KEY_SHARE, SEED_SHARE
from cloister.privacy.secure_aggregation.transcript import Transcript, commitment_to_seed

__all__ = ["Unmasking"]


class Unmasking:
    """Gathers revealed shares, and takes the masks away that did not cancel.

    Parameters
    ----------
    transcript
        The roster, and what follows from it.
    holders
        Who holds each client's shares.
    shared
        What the clients of U2 sent in stage 1.
    """

    def __init__(
        self,
        transcript: Transcript,
        holders: Sequence[tuple[int, ...]],
        shared: Mapping[int, tuple[SealedShares, ...]],
    ) -> None:
        self._transcript = transcript
        self._holders = holders
        self._given = {  # of each owner, by holder: the point and the hashes of its shares
            owner: {packet.peer: (point, *packet[2:]) for point, packet in enumerate(packets, 1)}
            for owner, packets in shared.items()
        }
        self._shares: dict[int, dict[int, int]] = {owner: {} for owner in shared}
        self.openers: set[int] = set()
        self.liars: set[int] = set()

    def add(self, message: RevealedShares, survivors: set[int]) -> None:
        """Keep the shares that are what their owner gave; raise if any is not."""
        holder = message.sender
        self.openers.add(holder)
        for kind, shares in ((SEED_SHARE, message.seed_shares), (KEY_SHARE, message.key_shares)):
            for owner, value in shares:
                point = self._point_if_right(kind, owner, holder, value, survivors)
                if point is None:
                    self.liars.add(holder)
                else:
                    self._shares[owner][point] = value
        if holder in self.liars:
            raise AggregationFailed(
                "a revealed share is not the one that was given",
                where=self._transcript.client_id(holder),
                remedy="go on without these shares; enough others may do",
            )

    def remove_masks(self, total: NDArray[np.uint64], survivors: set[int]) -> None:
        """Take from the sum the self-masks of U3, and the masks with those that dropped out."""
        opened = {owner: self._open(owner, owner in survivors) for owner in self._shares}
        stream = MaskStream(len(total))
        for owner, secret in opened.items():
            if owner in survivors:
                stream.subtract(total, secret)
            else:
                self._remove_pairwise(stream, total, owner, secret, survivors)

    def _point_if_right(
        self, kind: bytes, owner: int, holder: int, value: int, survivors: set[int]
    ) -> int | None:
        """Compare a share with its hash; only one of the two kinds may be revealed of an owner."""
        given = self._given.get(owner, {}).get(holder)
        if given is None or (kind is SEED_SHARE) != (owner in survivors):
            return None
        point, seed_digest, key_digest = given
        content = value.to_bytes(SHARE_BYTES, "big")
        found = self._transcript.share_digest(kind, owner, holder, content)
        return point if found == (seed_digest if kind is SEED_SHARE else key_digest) else None

    def _open(self, owner: int, survived: bool) -> bytes:
        """Return a client's self-mask seed, or its mask key if it dropped out, checked."""
        shares = self._shares[owner]
        threshold = self._transcript.plan.threshold
        client_id = self._transcript.client_id(owner)
        if len(shares) < threshold:
            raise AggregationFailed(
                f"{len(shares)} of its shares were revealed; {threshold} are needed",
                where=client_id,
                remedy="begin a new session",
            )
        first = dict(sorted(shares.items())[:threshold])
        try:
            secret = reconstruct(first, threshold).to_bytes(SEED_BYTES, "big")
        except (OverflowError, DataError):
            secret = b""
        if not secret or not self._fits(owner, secret, survived):
            self.liars.add(owner)
            raise AggregationFailed("it shared out another secret than its own", where=client_id)
        return secret

    def _fits(self, owner: int, secret: bytes, survived: bool) -> bool:
        entry = self._transcript.entries[owner]
        if survived:
            found = commitment_to_seed(entry.context, entry.client_id, secret)
            return found == entry.seed_commitment
        return KeyPair.from_private_bytes(secret).public == entry.mask_key

    def _remove_pairwise(
        self,
        stream: MaskStream,
        total: NDArray[np.uint64],
        dropped: int,
        secret: bytes,
        survivors: set[int],
    ) -> None:
        pair = KeyPair.from_private_bytes(secret)
        for peer in self._holders[dropped]:
            if peer in survivors:
                low, high = sorted((dropped, peer))
                key = self._transcript.entries[peer].mask_key
                seed = pair.agree(key, MASK, self._transcript.digest, low, high)
                # The survivor added it where its place is the lower one; undo that.
                undo = stream.subtract if peer < dropped else stream.add
                undo(total, seed)
