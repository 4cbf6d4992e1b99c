"""What an engine carries: a call to a site, and the site's reply.

Both have a version and a largest size, and are checked on receipt. A reply names the call that it
answers, so that one that comes late, or twice, is never taken for another's. Neither is signed or
encrypted here: the transport tells who speaks, and keeps others from listening.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, NamedTuple, NewType, Self

from cloister.core.errors import DataError
from cloister.privacy.secure_aggregation.wire import MessageReader, MessageWriter

__all__ = [
    "MAX_CALL_BYTES",
    "NO_CALL",
    "PROTOCOL_VERSION",
    "SiteCall",
    "SiteId",
    "SiteMethod",
    "SiteReply",
    "call_id_of",
    "reading_message",
]

SiteId = NewType("SiteId", str)  # a node of a federation; it hosts many users

PROTOCOL_VERSION: Final = 4  # change it when a message changes its form or its meaning
MAX_CALL_BYTES: Final = 1 << 26  # eight million parameters
_CALL: Final = b"CSC2"
_REPLY: Final = b"CSR2"
_DIGEST_BYTES: Final = 32
_LONGEST_FAULT: Final = 100
NO_CALL: Final = bytes(_DIGEST_BYTES)  # of a reply to what could not be read


class SiteMethod(StrEnum):
    """What a site can be asked for: training in the open, or a stage of secure aggregation.

    ``hello`` asks for nothing but an answer: whether the site is there, and by which agreement.
    ``end_session`` asks a site to promise that it reveals nothing more in a session.
    """

    HELLO = "hello"
    TRAIN = "train"
    ADVERTISE_KEYS = "advertise_keys"
    SHARE_KEYS = "share_keys"
    MASK_INPUT = "mask_input"
    SIGN_SURVIVORS = "sign_survivors"
    REVEAL_SHARES = "reveal_shares"
    END_SESSION = "end_session"


class SiteCall(NamedTuple):
    """One question to one site.

    Parameters
    ----------
    method
        What is asked for.
    round_number
        Which round, from 0.
    version
        Of the messages; a site refuses another than its own.
    payload
        The message of that method.

    Examples
    --------
    >>> call = SiteCall(SiteMethod.TRAIN, 3, PROTOCOL_VERSION, b"a ranker")
    >>> SiteCall.from_bytes(call.to_bytes()) == call
    True
    """

    method: SiteMethod
    round_number: int
    version: int
    payload: bytes

    def to_bytes(self) -> bytes:
        """Return the call as bytes."""
        writer = MessageWriter().raw(_CALL).number(self.version).number(self.round_number)
        return _with_checksum(writer.sized(self.method.encode()).sized(self.payload).done())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a call; raise `DataError` at anything else, or at a version that is not known."""
        with reading_message("call", _checked("call", content), _CALL) as reader:
            version, round_number = reader.number(), reader.number()
            _check_version(version)
            return cls(_method(reader.text()), round_number, version, reader.sized())


class SiteReply(NamedTuple):
    """One answer of one site.

    Parameters
    ----------
    call_id
        The call that it answers, by `call_id_of`.
    payload
        The answer; empty where the site refused.
    fault
        The kind of error where the site refused, as `CloisterError` has them; else empty. What
        exactly was wrong stays at the site, as it may tell of its data.
    """

    call_id: bytes
    payload: bytes
    fault: str = ""

    def to_bytes(self) -> bytes:
        """Return the reply as bytes."""
        writer = MessageWriter().raw(_REPLY).raw(self.call_id)
        return _with_checksum(writer.sized(self.fault.encode()).sized(self.payload).done())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a reply; raise `DataError` at anything else."""
        with reading_message("reply", _checked("reply", content), _REPLY) as reader:
            call_id, fault = reader.raw(_DIGEST_BYTES), reader.text()
            if len(fault) > _LONGEST_FAULT or not (fault == "" or fault.isidentifier()):
                raise DataError("a fault is the name of a kind of error")
            return cls(call_id, reader.sized(), fault)

    @classmethod
    def received(cls, content: bytes) -> Self:
        """Read whatever a site has sent: what is no reply answers no call, and is a fault."""
        try:
            return cls.from_bytes(content)
        except DataError:
            return cls(NO_CALL, b"", DataError.__name__)


def call_id_of(call: SiteCall) -> bytes:
    """Return the 32 bytes by which a call is known: equal calls are one call, sent again."""
    return hashlib.sha256(call.to_bytes()).digest()


@contextmanager
def reading_message(what: str, content: bytes, form: bytes) -> Iterator[MessageReader]:
    """Give a reader of a message that begins with ``form``; see that nothing is left at the end."""
    reader = MessageReader(content)
    try:
        if len(content) > MAX_CALL_BYTES:
            raise DataError(f"more than {MAX_CALL_BYTES} bytes")
        if reader.raw(len(form)) != form:
            raise DataError("another kind of message")
        yield reader
        reader.end()
    except DataError as error:
        raise DataError(
            error.what, where=what, remedy="refuse the message and its sender"
        ) from None


def _with_checksum(content: bytes) -> bytes:
    """Return a message with its SHA-256 at the end.

    A masked sum looks like noise: without it, nobody would see that a byte of one was lost. It
    finds accidents; against somebody who changes messages on purpose there is the transport's TLS.
    """
    return content + hashlib.sha256(content).digest()


def _checked(what: str, content: bytes) -> bytes:
    """Return a message without its checksum; raise `DataError` where the two do not fit."""
    if len(content) > MAX_CALL_BYTES:
        wrong = f"more than {MAX_CALL_BYTES} bytes"
    elif hashlib.sha256(content[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]:
        wrong = "damaged on its way"
    else:
        return content[:-_DIGEST_BYTES]
    raise DataError(wrong, where=what, remedy="refuse the message and its sender")


def _check_version(version: int) -> None:
    if version != PROTOCOL_VERSION:
        raise DataError(f"version {version}; this program speaks {PROTOCOL_VERSION}")


def _method(name: str) -> SiteMethod:
    try:
        return SiteMethod(name)
    except ValueError:
        raise DataError("no such method") from None
