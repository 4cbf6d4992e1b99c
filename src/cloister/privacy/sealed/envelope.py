"""The bytes of one message: opening and signature, kind, number, then ciphertext with its tag.

All that stands before the ciphertext is its associated data. Topic, content and padding are inside
the ciphertext: a relay sees neither the topic nor the exact length.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from cloister.core.errors import SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.contents import as_bytes
from cloister.privacy.sealed.aead import TAG_BYTES, Aead
from cloister.privacy.sealed.handshake import opening_size
from cloister.privacy.sealed.padding import padme
from cloister.privacy.sealed.refusals import MessageRefused

__all__ = ["Content", "Envelope", "Kind", "padded_size", "seal_envelope", "unseal_envelope"]

MAX_NUMBERS: Final = 2**32  # of one session
MIN_PADDED_BYTES: Final = 256  # so that short queries all look alike
_TAIL: Final = struct.Struct(">BQ")  # kind, number
_LENGTHS: Final = struct.Struct(">QH")  # of the content and of the topic


class Kind(IntEnum):
    """What an envelope holds."""

    MESSAGE = 1
    STREAM = 2  # the head of a stream; its chunks follow


class Envelope(NamedTuple):
    """An envelope taken apart; nothing of it has been verified."""

    opening: bytes  # with its signature
    kind: int
    number: int
    header: bytes  # all that is authenticated but not encrypted
    ciphertext: memoryview

    @classmethod
    def parse(cls, envelope: bytes) -> Envelope:
        """Take an envelope apart."""
        envelope = as_bytes(envelope, where="envelope")
        n_opening = opening_size(envelope)
        n_header = n_opening + _TAIL.size
        if len(envelope) < n_header + MIN_PADDED_BYTES + TAG_BYTES:
            raise MessageRefused("the envelope is cut off", where="envelope")
        kind, number = _TAIL.unpack_from(envelope, n_opening)
        if number >= MAX_NUMBERS:
            raise MessageRefused("its number is too high", where="envelope")
        view = memoryview(envelope)[n_header:]
        return cls(envelope[:n_opening], kind, number, envelope[:n_header], view)


class Content(NamedTuple):
    """What an envelope carries."""

    topic: str
    content: bytes


def padded_size(n_topic: int, n_content: int) -> int:
    """Return how many bytes are encrypted for a topic and a content of these lengths.

    Examples
    --------
    >>> [padded_size(6, n_bytes) for n_bytes in (0, 200, 1_000)]
    [256, 256, 1024]
    """
    return max(MIN_PADDED_BYTES, padme(_LENGTHS.size + n_topic + n_content))


def seal_envelope(
    cipher: Aead, opening: bytes, kind: Kind, number: int, topic: bytes, content: bytes
) -> bytes:
    """Encrypt one message under a number that was never used with this cipher."""
    header = opening + _TAIL.pack(kind, number)
    lengths = _LENGTHS.pack(len(content), len(topic))
    n_used = _LENGTHS.size + len(topic) + len(content)
    padding = bytes(padded_size(len(topic), len(content)) - n_used)
    return cipher.seal(_nonce(number), header, (content, padding, topic, lengths))


def unseal_envelope(cipher: Aead, envelope: Envelope, *, where: str) -> Content:
    """Decrypt one message and take the padding off."""
    from cryptography.exceptions import InvalidTag

    topics: list[bytes] = []

    def read_end(plain: memoryview) -> int:
        n_content, n_topic = _LENGTHS.unpack_from(plain, len(plain) - _LENGTHS.size)
        if len(plain) != padded_size(n_topic, n_content):
            raise MessageRefused("the lengths inside do not fit", where=where)
        topics.append(bytes(plain[-_LENGTHS.size - n_topic : -_LENGTHS.size]))
        return int(n_content)

    nonce = _nonce(envelope.number)
    try:
        content = cipher.open(nonce, envelope.header, envelope.ciphertext, read_end)
        return Content(checked_id(topics[0].decode()), content)
    except InvalidTag:
        raise MessageRefused(
            "altered on its way, or not sealed for this key", where=where
        ) from None
    except (UnicodeDecodeError, SettingsError):
        raise MessageRefused("the topic is not valid", where=where) from None


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
