"""Every message of the four stages, as a frozen record and as bytes.

After the roster is known, a client is named by its place in it. Sets of clients are rising tuples
of places. ``context`` stands for the session and all its parameters (`Session.context`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cloister.privacy.identity import SIGNATURE_BYTES
from cloister.privacy.secure_aggregation.keys import KEY_BYTES
from cloister.privacy.secure_aggregation.shamir import PRIME, SHARE_BYTES
from cloister.privacy.secure_aggregation.wire import (
    MessageReader,
    MessageWriter,
    check_rising,
    malformed,
)

__all__ = [
    "AdvertisedKeys",
    "DeliveredShares",
    "MaskedInput",
    "Message",
    "RevealedShares",
    "Roster",
    "SealedShares",
    "SharedKeys",
    "SurvivorSet",
    "SurvivorSignature",
    "SurvivorSignatures",
]

_FORMAT: Final = b"CSA1"
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class Message:
    """What every message has: the session that it belongs to."""

    kind: ClassVar[int] = 0
    context: bytes

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        head = MessageWriter().raw(_FORMAT).number(self.kind).raw(self.context)
        self._write(head)
        return head.done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a message of this kind; raise `DataError` at anything else."""
        reader = MessageReader(content)
        if reader.raw(len(_FORMAT)) != _FORMAT or reader.number() != cls.kind:
            raise malformed(f"this is no {cls.__name__}")
        message = cls._read(reader.raw(_DIGEST_BYTES), reader)
        reader.end()
        return message

    @abstractmethod
    def _write(self, writer: MessageWriter) -> None: ...

    @classmethod
    @abstractmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self: ...


@dataclass(frozen=True)
class AdvertisedKeys(Message):
    """Stage 0, client to server: two public keys and a commitment, signed."""

    kind = 1
    client_id: str
    encryption_key: bytes  # c_u^PK of the paper
    mask_key: bytes  # s_u^PK
    seed_commitment: bytes  # a hash of b_u: not in the paper, lets the server check shares of it
    signature: bytes

    def signed_bytes(self) -> bytes:
        """Return what the signature is of."""
        writer = MessageWriter().raw(self.context).sized(self.client_id.encode())
        return writer.raw(self.encryption_key + self.mask_key + self.seed_commitment).done()

    def _write(self, writer: MessageWriter) -> None:
        writer.raw(self.signed_bytes()[_DIGEST_BYTES:]).raw(self.signature)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        client_id = reader.text()
        keys = (reader.raw(KEY_BYTES), reader.raw(KEY_BYTES), reader.raw(_DIGEST_BYTES))
        return cls(context, client_id, *keys, reader.raw(SIGNATURE_BYTES))


@dataclass(frozen=True)
class Roster(Message):
    """Stage 0, server to all: U1, everybody who advertised keys, in the order of their ids."""

    kind = 2
    entries: tuple[AdvertisedKeys, ...]

    def _write(self, writer: MessageWriter) -> None:
        writer.number(len(self.entries))
        for entry in self.entries:
            entry._write(writer)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        n_entries = reader.number()
        return cls(context, tuple(AdvertisedKeys._read(context, reader) for _ in range(n_entries)))


class SealedShares(NamedTuple):
    """One client's shares for another: readable by it alone, with hashes of both shares."""

    peer: int
    ciphertext: bytes
    seed_share_digest: bytes
    key_share_digest: bytes


def _write_sealed(packets: tuple[SealedShares, ...], writer: MessageWriter) -> None:
    writer.number(len(packets))
    for packet in packets:
        writer.number(packet.peer).sized(packet.ciphertext)
        writer.raw(packet.seed_share_digest + packet.key_share_digest)


def _read_sealed(reader: MessageReader) -> tuple[SealedShares, ...]:
    packets = tuple(
        SealedShares(
            reader.number(), reader.sized(), reader.raw(_DIGEST_BYTES), reader.raw(_DIGEST_BYTES)
        )
        for _ in range(reader.number())
    )
    check_rising([packet.peer for packet in packets])
    return packets


@dataclass(frozen=True)
class SharedKeys(Message):
    """Stage 1, client to server: shares of both secrets for each holder (``peer``).

    The packet for the client itself has no ciphertext: it keeps its own shares.
    """

    kind = 3
    sender: int
    packets: tuple[SealedShares, ...]

    def _write(self, writer: MessageWriter) -> None:
        _write_sealed(self.packets, writer.number(self.sender))

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.number(), _read_sealed(reader))


@dataclass(frozen=True)
class DeliveredShares(Message):
    """Stage 1, server to one client: U2, all who shared keys, and the shares from its peers."""

    kind = 4
    receiver: int
    sharers: tuple[int, ...]
    packets: tuple[SealedShares, ...]

    def _write(self, writer: MessageWriter) -> None:
        _write_sealed(self.packets, writer.number(self.receiver).rising(self.sharers))

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.number(), reader.rising(), _read_sealed(reader))


@dataclass(frozen=True, eq=False)
class MaskedInput(Message):
    """Stage 2, client to server: the vector under all its masks."""

    kind = 5
    sender: int
    values: NDArray[np.uint64]

    def _write(self, writer: MessageWriter) -> None:
        writer.number(self.sender).words(self.values)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.number(), reader.words())


@dataclass(frozen=True)
class SurvivorSet(Message):
    """Stage 2, server to all: U3, everybody whose vector is in the sum."""

    kind = 6
    survivors: tuple[int, ...]

    def _write(self, writer: MessageWriter) -> None:
        writer.rising(self.survivors)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.rising())


@dataclass(frozen=True)
class SurvivorSignature(Message):
    """Stage 3, client to server: its signature of the sets U2 and U3 that it was told."""

    kind = 7
    sender: int
    signature: bytes

    def _write(self, writer: MessageWriter) -> None:
        writer.number(self.sender).raw(self.signature)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.number(), reader.raw(SIGNATURE_BYTES))


@dataclass(frozen=True)
class SurvivorSignatures(Message):
    """Stage 3, server to one client: the signatures of its holders, by place."""

    kind = 8
    signatures: tuple[tuple[int, bytes], ...]

    def _write(self, writer: MessageWriter) -> None:
        writer.number(len(self.signatures))
        for signer, signature in self.signatures:
            writer.number(signer).raw(signature)

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        signatures = tuple(
            (reader.number(), reader.raw(SIGNATURE_BYTES)) for _ in range(reader.number())
        )
        check_rising([signer for signer, _ in signatures])
        return cls(context, signatures)


@dataclass(frozen=True)
class RevealedShares(Message):
    """Stage 4, client to server: of each client whose shares it holds, one share.

    That of the self-mask's seed where the client is in U3, of the mask key where it dropped out.
    """

    kind = 9
    sender: int
    seed_shares: tuple[tuple[int, int], ...]  # (owner, share)
    key_shares: tuple[tuple[int, int], ...]

    def _write(self, writer: MessageWriter) -> None:
        writer.number(self.sender)
        for shares in (self.seed_shares, self.key_shares):
            writer.number(len(shares))
            for owner, share in shares:
                writer.number(owner).raw(share.to_bytes(SHARE_BYTES, "big"))

    @classmethod
    def _read(cls, context: bytes, reader: MessageReader) -> Self:
        return cls(context, reader.number(), _read_shares(reader), _read_shares(reader))


def _read_shares(reader: MessageReader) -> tuple[tuple[int, int], ...]:
    shares = tuple(
        (reader.number(), int.from_bytes(reader.raw(SHARE_BYTES), "big"))
        for _ in range(reader.number())
    )
    check_rising([owner for owner, _ in shares])
    if any(share >= PRIME for _, share in shares):
        raise malformed("a share is no element of the field")
    return shares
