"""What is inside a sealed request and a sealed answer."""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from cloister.core.errors import DataError

__all__ = ["AskFrame", "ReplyFrame", "ReplyKind", "signed_content"]

_ASK_MAGIC: Final = b"CLQ1"
_REPLY_MAGIC: Final = b"CLA1"
_LENGTHS: Final = struct.Struct(">HHHI")  # of token, proof, return prekey and question
_TAG_BYTES: Final = 16
_REPLY_HEAD: Final = struct.Struct(f">4sB{_TAG_BYTES}s")


class AskFrame(NamedTuple):
    """A request as it travels: who asks, the proof, where the answer is sealed to, and what."""

    token: str
    proof: str
    return_prekey: bytes
    question: bytes

    def signed_part(self) -> bytes:
        """Return the bytes that the proof covers."""
        return signed_content(self.return_prekey, self.question)

    def to_bytes(self) -> bytes:
        """Write the frame."""
        parts = (self.token.encode(), self.proof.encode(), self.return_prekey, self.question)
        try:
            return b"".join((_ASK_MAGIC, _LENGTHS.pack(*map(len, parts)), *parts))
        except struct.error:
            raise DataError("too long for a request", where="request") from None

    @classmethod
    def from_bytes(cls, content: bytes) -> AskFrame:
        """Read a frame; raise `DataError` where it is not exactly one.

        Examples
        --------
        >>> frame = AskFrame("token", "proof", b"prekey", b"question")
        >>> AskFrame.from_bytes(frame.to_bytes()) == frame
        True
        """
        begin = len(_ASK_MAGIC) + _LENGTHS.size
        if len(content) < begin or content[: len(_ASK_MAGIC)] != _ASK_MAGIC:
            raise DataError("not a request", where="request")
        lengths = _LENGTHS.unpack_from(content, len(_ASK_MAGIC))
        if len(content) != begin + sum(lengths):
            raise DataError("not a request", where="request")
        parts = []
        for length in lengths:
            parts.append(content[begin : begin + length])
            begin += length
        try:
            return cls(parts[0].decode("ascii"), parts[1].decode("ascii"), parts[2], parts[3])
        except UnicodeDecodeError:
            raise DataError("not a request", where="request") from None


class ReplyKind(IntEnum):
    """What a node says."""

    UNCHANGED = 1  # the version that the searcher has is the current one
    ANSWER = 2


class ReplyFrame(NamedTuple):
    """An answer as it travels, tied to the nonce of its request."""

    kind: ReplyKind
    nonce: str
    content: bytes = b""

    def to_bytes(self) -> bytes:
        """Write the frame."""
        return _REPLY_HEAD.pack(_REPLY_MAGIC, self.kind, _tag(self.nonce)) + self.content

    @classmethod
    def from_bytes(cls, content: bytes, nonce: str) -> ReplyFrame:
        """Read the answer to the request with this nonce; raise `DataError` for any other."""
        if len(content) < _REPLY_HEAD.size:
            raise DataError("not an answer", where="answer")
        magic, kind, tag = _REPLY_HEAD.unpack_from(content)
        if magic != _REPLY_MAGIC or tag != _tag(nonce) or kind not in tuple(ReplyKind):
            raise DataError("not the answer to this request", where="answer")
        return cls(ReplyKind(kind), nonce, content[_REPLY_HEAD.size :])


def signed_content(return_prekey: bytes, question: bytes) -> bytes:
    """Join what a proof covers, so that no two pairs give the same bytes."""
    return struct.pack(">I", len(return_prekey)) + return_prekey + question


def _tag(nonce: str) -> bytes:
    return hashlib.sha256(b"cloister reply 1" + nonce.encode()).digest()[:_TAG_BYTES]
