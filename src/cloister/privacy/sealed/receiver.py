"""The receiving side: who sent it, what is in it, and whether it was accepted before."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from cloister.core.errors import AccessDenied
from cloister.privacy.identity import SIGNATURE_BYTES, Directory
from cloister.privacy.sealed.envelope import Content, Envelope, Kind, unseal_envelope
from cloister.privacy.sealed.handshake import (
    OPENING_PURPOSE,
    Opening,
    SessionKeys,
    SessionTranscript,
    shared_secret,
)
from cloister.privacy.sealed.prekeys import Prekeys, SignedPrekey
from cloister.privacy.sealed.refusals import MessageRefused
from cloister.privacy.sealed.replay import SeenNumbers, SessionName
from cloister.privacy.sealed.settings import SealedSettings
from cloister.privacy.sealed.stream import IncomingStream, chunk_size, opened_chunks

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Message", "Receiver"]


class Message(NamedTuple):
    """A message as it was opened; ``repr()`` leaves the content out."""

    sender: str
    topic: str
    content: bytes
    session_id: str
    number: int

    def __repr__(self) -> str:
        return f"<Message {self.number} of {self.sender}, {len(self.content)} bytes>"


class _Session(NamedTuple):
    keys: SessionKeys
    name: SessionName
    sender_identity: bytes


class Receiver:
    """Opens messages to one party; threads may share it.

    Nothing about accepted messages is kept in memory: that is in the caller's database, and
    changes when the caller commits. `schema` makes the table.

    Parameters
    ----------
    prekeys
        The party's prekeys.
    directory
        The identities that are known; messages of others are refused.
    clock
        The time in seconds since 1970.
    """

    schema = SeenNumbers.schema

    def __init__(
        self,
        prekeys: Prekeys,
        directory: Directory,
        *,
        settings: SealedSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.party_id = prekeys.party_id
        self._prekeys = prekeys
        self._directory = directory
        self._settings = settings or SealedSettings()
        self._clock = clock
        self._seen = SeenNumbers(
            self.party_id,
            width=self._settings.window,
            sessions_per_sender=self._settings.sessions_per_sender,
        )
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def open(self, connection: Connection, envelope: bytes) -> Message:
        """Open a message and count it as seen, in the caller's transaction.

        Do what the message asks for in the same transaction: then both happen or neither, and a
        message that comes again after a crash is processed once. Acknowledge it to the relay after
        the commit.

        Raises
        ------
        Replayed
            The message was accepted before.
        MessageRefused
            It was altered, is for somebody else, or its keys are gone. Nothing was changed.
        """
        session, message = self._opened(envelope)
        self._seen.mark(connection, session.name, message.number)
        return message

    def open_without_replay_check(self, envelope: bytes) -> Message:
        """Open a message as often as it comes; whoever acts on it may act twice."""
        return self._opened(envelope)[1]

    def open_stream(self, pieces: Iterable[bytes]) -> IncomingStream:
        """Begin to open what `Sender.seal_stream` made; `IncomingStream.accept` ends it."""
        remaining: Iterator[bytes] = iter(pieces)
        envelope = Envelope.parse(next(remaining, b""))
        session, content = self._unsealed(envelope, Kind.STREAM)
        number = envelope.number
        where = _where(session.name.sender, number)
        chunk_bytes = chunk_size(content.content, where=where)
        cipher = session.keys.stream_cipher(number)
        parts = opened_chunks(cipher, remaining, chunk_bytes, where=where)
        return IncomingStream(content.topic, session.name, number, parts, self._seen)

    def forget_old(self, connection: Connection) -> int:
        """Destroy expired prekeys, drop their keys, and forget their sessions; return how many.

        Call it from time to time: until then old messages stay readable with the old prekeys.
        """
        self._prekeys.destroy_expired()
        held = self._prekeys.numbers()
        with self._lock:
            for opening, session in list(self._sessions.items()):
                if session.name.prekey_number not in held:
                    del self._sessions[opening]
        return self._seen.forget_before(connection, held[0] if held else None)

    def __repr__(self) -> str:
        return f"<Receiver {self.party_id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a receiver is not pickled or copied")

    def _opened(self, envelope: bytes) -> tuple[_Session, Message]:
        parsed = Envelope.parse(envelope)
        session, content = self._unsealed(parsed, Kind.MESSAGE)
        name = session.name
        return session, Message(
            name.sender, content.topic, content.content, name.session_id, parsed.number
        )

    def _unsealed(self, envelope: Envelope, kind: Kind) -> tuple[_Session, Content]:
        session = self._session(envelope.opening)
        where = _where(session.name.sender, envelope.number)
        content = unseal_envelope(session.keys.cipher, envelope, where=where)
        if envelope.kind != kind:
            raise MessageRefused(
                f"of kind {envelope.kind}, not {kind} ({kind.name.lower()})",
                where=where,
                remedy="use open for messages and open_stream for streams",
            )
        return session, content

    def _session(self, signed_opening: bytes) -> _Session:
        """Return the session of an opening, from memory if its keys may still be used."""
        with self._lock:
            session = self._sessions.get(signed_opening)
            if session:
                self._sessions.move_to_end(signed_opening)
        if session:
            self._prekeys.find(session.name.prekey_number)
            if self._identity_of(session.name.sender) == session.sender_identity:
                return session
        session = self._accepted(signed_opening)
        with self._lock:
            self._sessions[signed_opening] = session
            while len(self._sessions) > self._settings.cached_sessions:
                self._sessions.popitem(last=False)
        return session

    def _accepted(self, signed_opening: bytes) -> _Session:
        """Check an opening and derive the keys of its session."""
        signed, signature = signed_opening[:-SIGNATURE_BYTES], signed_opening[-SIGNATURE_BYTES:]
        opening = Opening.from_bytes(signed)
        if opening.recipient != self.party_id:
            raise MessageRefused(
                f"addressed to {opening.recipient}", where=self.party_id, remedy="pass it on"
            )
        sender_identity = self._identity_of(opening.sender)
        prekey, private = self._prekeys.find(opening.prekey_number)
        transcript = SessionTranscript(
            signed, sender_identity, self._prekeys.identity_public, prekey.public
        )
        try:
            self._directory.verify(
                opening.sender, OPENING_PURPOSE, transcript.to_bytes(), signature
            )
        except AccessDenied as error:
            raise MessageRefused(error.what, where=error.where, remedy=error.remedy) from None
        self._check_time(opening, prekey)
        keys = SessionKeys(shared_secret(private, opening.ephemeral), transcript)
        name = SessionName(keys.session_id, opening.sender, opening.prekey_number)
        return _Session(keys, name, sender_identity)

    def _identity_of(self, sender: str) -> bytes:
        try:
            return self._directory.public(sender)
        except AccessDenied as error:
            raise MessageRefused(error.what, where=error.where, remedy=error.remedy) from None

    def _check_time(self, opening: Opening, prekey: SignedPrekey) -> None:
        begun_s, skew_s = opening.begun_ms / 1000, self._settings.clock_skew_s
        latest_s = min(prekey.valid_until_s, self._clock()) + skew_s
        if not prekey.valid_from_s - skew_s <= begun_s <= latest_s:
            raise MessageRefused(
                "its session began at a time when the prekey was not valid, or later than now",
                where=opening.sender,
                remedy="compare the clocks of the two parties and send again",
            )


def _where(sender: str, number: int) -> str:
    return f"message {number} of {sender}"
