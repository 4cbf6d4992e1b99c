"""The shares that one client gives to its holders, and those that it holds of them.

Bonawitz et al. (2017), figure 4, rounds 1 and 4. Each pair of shares is encrypted with AES-256-GCM
under a key that only the two clients know; sender, receiver, session, roster and the hashes of both
shares are in the associated data. A key encrypts one message in each direction, and the nonce says
which direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cloister.privacy.secure_aggregation.keys import ENCRYPTION, KeyPair
from cloister.privacy.secure_aggregation.messages import SealedShares
from cloister.privacy.secure_aggregation.shamir import PRIME, SHARE_BYTES, share
from cloister.privacy.secure_aggregation.transcript import Transcript

__all__ = ["KEY_SHARE", "SEED_SHARE", "SharePackets"]

SEED_SHARE: Final = b"share of a self-mask seed"
KEY_SHARE: Final = b"share of a mask key"


class SharePackets:
    """Seals a client's own shares, opens the others', and hands out one share of each."""

    def __init__(
        self, transcript: Transcript, place: int, encryption: KeyPair, holders: Sequence[int]
    ) -> None:
        self._transcript = transcript
        self._place = place
        self._encryption = encryption
        self._holders = holders
        self._keys: dict[int, bytes] = {}
        self._held: dict[int, tuple[int, int]] = {}  # owner: (seed share, key share)

    def seal(self, seed: bytes, mask_key: bytes) -> tuple[SealedShares, ...]:
        """Share both secrets out among the holders, this client itself among them.

        The shares lie at 1, 2, ... on the polynomials, in the order of the holders.
        """
        points = range(1, len(self._holders) + 1)
        threshold = self._transcript.plan.threshold
        seed_shares = share(seed, threshold, points)
        key_shares = share(mask_key, threshold, points)
        shares = zip(self._holders, seed_shares, key_shares, strict=True)
        return tuple(self._sealed(holder, (b, s)) for holder, b, s in shares)

    def open(self, packets: Iterable[SealedShares], expected: set[int]) -> tuple[int, ...]:
        """Take the shares of ``expected`` owners; return those whose shares cannot be read."""
        for packet in packets:
            opened = self._opened(packet)
            if opened is not None:
                self._held[packet.peer] = opened
        self._keys.clear()
        return tuple(sorted(expected - self._held.keys()))

    def seed_shares(self, owners: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return the shares held of these owners' self-mask seeds."""
        return tuple((owner, self._held[owner][0]) for owner in owners if owner in self._held)

    def key_shares(self, owners: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return the shares held of these owners' mask keys."""
        return tuple((owner, self._held[owner][1]) for owner in owners if owner in self._held)

    def _sealed(self, holder: int, shares: tuple[int, int]) -> SealedShares:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        plain = [value.to_bytes(SHARE_BYTES, "big") for value in shares]
        digests = self._digests(self._place, holder, *plain)
        if holder == self._place:
            self._held[holder] = shares
            return SealedShares(holder, b"", *digests)
        key = self._keys[holder] = self._key_with(holder)
        sealed_for = self._transcript.sealed_for(self._place, holder, *digests)
        ciphertext = AESGCM(key).encrypt(_nonce(self._place, holder), b"".join(plain), sealed_for)
        return SealedShares(holder, ciphertext, *digests)

    def _opened(self, packet: SealedShares) -> tuple[int, int] | None:
        """Return the pair of shares, or None if they are not what their owner sent."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        owner, ciphertext, *digests = packet
        sealed_for = self._transcript.sealed_for(owner, self._place, *digests)
        try:
            plain = AESGCM(self._keys[owner]).decrypt(
                _nonce(owner, self._place), ciphertext, sealed_for
            )
        except InvalidTag:
            return None
        seed_share, key_share = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
        if self._digests(owner, self._place, seed_share, key_share) != tuple(digests):
            return None
        pair = int.from_bytes(seed_share, "big"), int.from_bytes(key_share, "big")
        return pair if len(plain) == 2 * SHARE_BYTES and max(pair) < PRIME else None

    def _digests(
        self, owner: int, holder: int, seed_share: bytes, key_share: bytes
    ) -> tuple[bytes, bytes]:
        return (
            self._transcript.share_digest(SEED_SHARE, owner, holder, seed_share),
            self._transcript.share_digest(KEY_SHARE, owner, holder, key_share),
        )

    def _key_with(self, peer: int) -> bytes:
        low, high = sorted((self._place, peer))
        key = self._transcript.entries[peer].encryption_key
        return self._encryption.agree(key, ENCRYPTION, self._transcript.digest, low, high)


def _nonce(sender: int, receiver: int) -> bytes:
    return bytes(11) + (b"\x00" if sender < receiver else b"\x01")
