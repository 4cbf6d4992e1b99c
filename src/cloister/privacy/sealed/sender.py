"""The sending side: one session at a time for each recipient, renewed before it is worn out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, NoReturn

from cloister.core.errors import AccessDenied, NotFound, SettingsError
from cloister.core.ids import checked_id
from cloister.privacy.contents import as_bytes
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.envelope import Kind, padded_size, seal_envelope
from cloister.privacy.sealed.handshake import (
    OPENING_PURPOSE,
    Opening,
    SessionKeys,
    SessionTranscript,
    id_bytes,
    shared_secret,
)
from cloister.privacy.sealed.prekeys import SignedPrekey
from cloister.privacy.sealed.settings import SealedSettings
from cloister.privacy.sealed.stream import head_content, sealed_chunks

__all__ = ["Sender"]


class _Session:
    """One session: keys that exist in this process only, and the next number."""

    __slots__ = (
        "begun_s",
        "identity",
        "keys",
        "n_bytes",
        "next_number",
        "opening",
        "prekey",
        "process",
    )

    def __init__(
        self,
        opening: bytes,
        keys: SessionKeys,
        prekey: SignedPrekey,
        identity: bytes,
        begun_s: float,
    ) -> None:
        self.opening = opening  # with its signature
        self.keys = keys
        self.prekey = prekey
        self.identity = identity  # the recipient's
        self.begun_s = begun_s
        self.process = os.getpid()
        self.next_number = 0
        self.n_bytes = 0


class _Slot(NamedTuple):
    """A number of a session, taken for one message."""

    session: _Session
    number: int


class Sender:
    """Seals messages of one party; threads may share it.

    A session, with its ephemeral key and its count of messages, lives in this object only. It is
    never stored, and a forked process begins its own, so no number is used twice with one key.

    Parameters
    ----------
    party_id, identity
        Who sends, and the long-term key that shows it.
    directory
        The identities that are known; the recipients must be among them.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> from cloister.privacy.sealed.prekeys import Prekeys
    >>> clinic, lab = SigningIdentity.generate(), SigningIdentity.generate()
    >>> directory = Directory({"clinic": clinic.public, "lab": lab.public})
    >>> sender = Sender("clinic", clinic, directory)
    >>> sender.learn(Prekeys("lab", lab).current())
    >>> len(sender.seal("lab", "search", b"cough")), len(sender.seal("lab", "search", b"fever"))
    (411, 411)
    """

    def __init__(
        self,
        party_id: str,
        identity: SigningIdentity,
        directory: Directory,
        *,
        settings: SealedSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.party_id = checked_id(party_id)
        self._identity = identity
        self._directory = directory
        self._settings = settings or SealedSettings()
        self._clock = clock
        self._lock = threading.Lock()
        self._prekeys: dict[str, SignedPrekey] = {}
        self._sessions: dict[str, _Session] = {}

    def learn(self, prekey: SignedPrekey) -> None:
        """Take a recipient's published prekey, if the recipient signed it and it is valid now.

        An older prekey than the one known is refused: a relay may not bring it back.
        """
        prekey.verify(self._directory)
        self._check_valid(prekey, self._clock())
        with self._lock:
            known = self._prekeys.get(prekey.party_id)
            if known and known != prekey and known.number >= prekey.number:
                raise AccessDenied(
                    f"prekey {prekey.number} is older than {known.number}, which is known",
                    where=prekey.party_id,
                    remedy="fetch the recipient's current prekey",
                )
            if known != prekey:
                self._prekeys[prekey.party_id] = prekey

    def seal(self, recipient: str, topic: str, content: bytes) -> bytes:
        """Return an envelope that only the recipient can open.

        Parameters
        ----------
        topic
            What the message is about, for the recipient's program; the relay does not see it.
        content
            Bytes, or an object that holds some.
        """
        content = as_bytes(content, where=f"content for {recipient}")
        if len(content) > self._settings.message_bytes:
            raise SettingsError(
                f"{len(content)} bytes in one message, of {self._settings.message_bytes} allowed",
                where=f"{self.party_id} to {recipient}",
                remedy="use seal_stream",
            )
        name = id_bytes(topic)
        session, number = self._take(recipient, padded_size(len(name), len(content)))
        return seal_envelope(
            session.keys.cipher, session.opening, Kind.MESSAGE, number, name, content
        )

    def seal_stream(self, recipient: str, topic: str, source: BinaryIO) -> Iterator[bytes]:
        """Seal a long content piece by piece: an envelope, then chunks, to be kept in order."""
        chunk_bytes = self._settings.chunk_bytes
        name, head = id_bytes(topic), head_content(chunk_bytes)
        session, number = self._take(recipient, padded_size(len(name), len(head)))
        yield seal_envelope(session.keys.cipher, session.opening, Kind.STREAM, number, name, head)
        yield from sealed_chunks(session.keys.stream_cipher(number), source, chunk_bytes)

    def forget_old(self) -> None:
        """Drop the keys of sessions that are worn out and were not renewed by a message."""
        with self._lock:
            now_s = self._clock()
            self._sessions = {
                recipient: session
                for recipient, session in self._sessions.items()
                if not self._worn_out(session, now_s)
            }

    def __repr__(self) -> str:
        return f"<Sender {self.party_id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sender is not pickled or copied: its numbers would be used twice")

    def _take(self, recipient: str, n_bytes: int) -> _Slot:
        """Take the next number; nothing gives it back, whatever becomes of the message."""
        with self._lock:
            now_s = self._clock()
            session = self._sessions.get(recipient)
            if session is None or self._worn_out(session, now_s):
                session = self._sessions[recipient] = self._begin(recipient, now_s)
            number = session.next_number
            session.next_number += 1
            session.n_bytes += n_bytes
            return _Slot(session, number)

    def _worn_out(self, session: _Session, now_s: float) -> bool:
        limits = self._settings
        return (
            session.next_number >= limits.session_messages
            or session.n_bytes >= limits.session_bytes
            or not 0 <= now_s - session.begun_s < limits.session_age_s
            or now_s > session.prekey.valid_until_s
            or session.process != os.getpid()
            or self._keys_changed(session)
        )

    def _keys_changed(self, session: _Session) -> bool:
        """Say whether a newer prekey is known, or the recipient's identity has gone or changed."""
        recipient = session.prekey.party_id
        return (
            session.prekey is not self._prekeys[recipient]
            or recipient not in self._directory
            or session.identity != self._directory.public(recipient)
        )

    def _begin(self, recipient: str, now_s: float) -> _Session:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        prekey = self._prekey(recipient, now_s)
        private = X25519PrivateKey.generate()
        ephemeral = private.public_key().public_bytes_raw()
        opening = Opening(
            self.party_id, recipient, prekey.number, int(now_s * 1000), ephemeral
        ).to_bytes()
        identity = self._directory.public(recipient)
        transcript = SessionTranscript(opening, self._identity.public, identity, prekey.public)
        signature = self._identity.sign(OPENING_PURPOSE, transcript.to_bytes())
        keys = SessionKeys(shared_secret(private, prekey.public), transcript)
        return _Session(opening + signature, keys, prekey, identity, now_s)

    def _prekey(self, recipient: str, now_s: float) -> SignedPrekey:
        prekey = self._prekeys.get(recipient)
        if prekey is None:
            raise NotFound(
                "no prekey of this recipient is known",
                where=recipient[:80],
                remedy="fetch the recipient's current prekey and give it to learn()",
            )
        prekey.verify(self._directory)  # the recipient's identity may have been replaced
        self._check_valid(prekey, now_s)
        return prekey

    def _check_valid(self, prekey: SignedPrekey, now_s: float) -> None:
        skew_s = self._settings.clock_skew_s
        if not prekey.valid_from_s - skew_s <= now_s <= prekey.valid_until_s:
            raise AccessDenied(
                f"prekey {prekey.number} is not valid now",
                where=prekey.party_id,
                remedy="fetch the recipient's current prekey, and compare the clocks",
            )
