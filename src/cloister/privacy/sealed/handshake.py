"""How a session begins: the sender's ephemeral key, signed, against the recipient's prekey.

Every envelope of a session carries the same opening, so the recipient can open any of them, in any
order, also after a restart. The opening says who sends to whom; the session's keys are bound to it.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from cloister.core.errors import CloisterError, SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.identity import SIGNATURE_BYTES
from cloister.privacy.sealed.aead import Aead
from cloister.privacy.sealed.refusals import MessageRefused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = [
    "Opening",
    "SessionKeys",
    "SessionTranscript",
    "hkdf_sha256",
    "id_bytes",
    "opening_size",
    "shared_secret",
]

MAGIC: Final = b"CLSE"
VERSION: Final = 1
OPENING_PURPOSE: Final = b"sealed session opening"
_KEYS_INFO: Final = b"cloister sealed session keys 1"
_STREAM_INFO: Final = b"cloister sealed stream key 1"
_SESSION_INFO: Final = b"cloister sealed session id 1"
# magic, version, prekey number, begun (ms), ephemeral public key, lengths of the two ids
_FIXED: Final = struct.Struct(">4sBQQ32sHH")


class Opening(NamedTuple):
    """What a session begins with, in the clear: who, to whom, with which keys, since when."""

    sender: str
    recipient: str
    prekey_number: int
    begun_ms: int
    ephemeral: bytes

    def to_bytes(self) -> bytes:
        """Write the opening; the signature follows it on the wire."""
        sender, recipient = id_bytes(self.sender), id_bytes(self.recipient)
        fixed = _FIXED.pack(
            MAGIC,
            VERSION,
            self.prekey_number,
            self.begun_ms,
            self.ephemeral,
            len(sender),
            len(recipient),
        )
        return fixed + sender + recipient

    @classmethod
    def from_bytes(cls, opening: bytes) -> Opening:
        """Read what `to_bytes` wrote; `opening_size` has checked the frame."""
        _, _, number, begun_ms, ephemeral, n_sender, _ = _FIXED.unpack_from(opening)
        names = opening[_FIXED.size :]
        try:
            sender = checked_id(names[:n_sender].decode())
            recipient = checked_id(names[n_sender:].decode())
        except (UnicodeDecodeError, CloisterError):
            raise MessageRefused("the ids in it are not valid", where="envelope") from None
        return cls(sender, recipient, number, begun_ms, ephemeral)


class SessionTranscript(NamedTuple):
    """All that both sides must agree on; the signature and the keys depend on every bit of it."""

    opening: bytes
    sender_identity: bytes
    recipient_identity: bytes
    prekey: bytes

    def to_bytes(self) -> bytes:
        """Join the parts; the opening holds its own lengths, the others have 32 bytes each."""
        return b"".join(self)

    def session_id(self) -> str:
        """Name the session, in 32 hexadecimal digits."""
        return hashlib.sha256(_SESSION_INFO + self.to_bytes()).hexdigest()[:32]


class SessionKeys:
    """The keys of one session, for one direction; ``repr()`` does not show them."""

    __slots__ = ("_stream_secret", "cipher", "session_id")

    def __init__(self, shared: bytes, transcript: SessionTranscript) -> None:
        salt = hashlib.sha256(transcript.to_bytes()).digest()
        both = hkdf_sha256(shared, salt=salt, info=_KEYS_INFO, n_bytes=64)
        self.session_id = transcript.session_id()
        self.cipher = Aead(both[:32])
        self._stream_secret = both[32:]

    def stream_cipher(self, number: int) -> Aead:
        """Return the cipher of the stream whose head has this number: no two share a key."""
        info = _STREAM_INFO + number.to_bytes(8, "big")
        return Aead(hkdf_sha256(self._stream_secret, salt=b"", info=info, n_bytes=32))

    def __repr__(self) -> str:
        return f"<SessionKeys of {self.session_id}>"


def shared_secret(private: X25519PrivateKey, public: bytes) -> bytes:
    """Return X25519(private, public); refuse a public key of low order (RFC 7748, section 6.1)."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise MessageRefused("not a usable X25519 key", where=public.hex()) from None


def hkdf_sha256(secret: bytes, *, salt: bytes, info: bytes, n_bytes: int) -> bytes:
    r"""Derive key bytes (RFC 5869).

    Examples
    --------
    >>> hkdf_sha256(b"\x0b" * 22, salt=b"", info=b"", n_bytes=4).hex()  # appendix A.3
    '8da4e775'
    """
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=n_bytes, salt=salt, info=info).derive(secret)


def opening_size(envelope: bytes) -> int:
    """Return how many bytes of an envelope the opening and its signature take."""
    if len(envelope) < _FIXED.size:
        raise MessageRefused("too short for an envelope", where="envelope")
    if envelope[: len(MAGIC)] != MAGIC:
        raise MessageRefused("not a sealed envelope", where="envelope")
    if envelope[len(MAGIC)] != VERSION:
        raise MessageRefused(
            f"version {envelope[len(MAGIC)]}, where version {VERSION} is known",
            where="envelope",
            remedy="let both parties run the same release",
        )
    n_sender, n_recipient = struct.unpack_from(">HH", envelope, _FIXED.size - 4)
    return int(_FIXED.size + n_sender + n_recipient + SIGNATURE_BYTES)


def id_bytes(name: str) -> bytes:
    """Return an id in UTF-8."""
    try:
        return checked_id(name).encode()
    except UnicodeEncodeError:
        raise SettingsError("an id must be valid Unicode", where=ascii(name[:80])) from None
