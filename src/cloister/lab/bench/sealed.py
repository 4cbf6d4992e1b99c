"""Sealed messages: sealing and opening, against AES-GCM alone on the same bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cloister.lab.bench import Advance, Figures, timed
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.prekeys import Prekeys
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.sender import Sender
from cloister.store.database import Database

__all__ = ["run"]

SIZES: Final = {"200_b": (200, 20_000), "1_mb": (1_000_000, 400)}  # bytes, messages
N_SESSIONS: Final = 500
N_STORED: Final = 2_000
STREAM_BYTES: Final = 128_000_000
TOPIC: Final = "bench"


class _Parties:
    """One sender and one recipient in this process."""

    def __init__(self) -> None:
        self.ann, self.bob = SigningIdentity.generate(), SigningIdentity.generate()
        self.directory = Directory({"ann": self.ann.public, "bob": self.bob.public})
        self.prekeys = Prekeys("bob", self.bob)
        self.receiver = Receiver(self.prekeys, self.directory)
        self.sender = self.new_sender()

    def new_sender(self) -> Sender:
        sender = Sender("ann", self.ann, self.directory)
        sender.learn(self.prekeys.current())
        return sender

    def sealed(self, content: bytes) -> bytes:
        return self.sender.seal("bob", TOPIC, content)


def run(advance: Advance) -> Figures:
    """Time messages of two sizes, new sessions, messages with their transaction, and a stream."""
    parties = _Parties()
    steps: list[Callable[[], Figures]] = [
        *(partial(_messages, parties, name) for name in SIZES),
        partial(_sessions, parties),
        partial(_stored, parties),
        partial(_stream, parties),
    ]
    figures: Figures = {}
    for done, step in enumerate(steps, start=1):
        figures.update(step())
        advance(done, len(steps))
    return figures


def _messages(parties: _Parties, name: str) -> Figures:
    """Seal and open in sessions that are under way; AES-GCM has a ready key and counts nonces."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    n_bytes, n_messages = SIZES[name]
    content = os.urandom(n_bytes)
    cipher = AESGCM(AESGCM.generate_key(256))
    numbers = count()
    nonce = bytes(12)
    bare = cipher.encrypt(nonce, content, None)
    envelope = parties.sealed(content)
    rates = {
        "seal": _per_core_s(n_messages, lambda: parties.sealed(content)),
        "aes_gcm_encrypt": _per_core_s(
            n_messages, lambda: cipher.encrypt(next(numbers).to_bytes(12, "big"), content, None)
        ),
        "open": _per_core_s(
            n_messages, lambda: parties.receiver.open_without_replay_check(envelope)
        ),
        "aes_gcm_decrypt": _per_core_s(n_messages, lambda: cipher.decrypt(nonce, bare, None)),
    }
    figures = {f"{what}_{name}_per_core_s": rate for what, rate in rates.items()}
    figures[f"envelope_{name}_bytes"] = len(envelope)
    return figures


def _sessions(parties: _Parties) -> Figures:
    """Time the first message of a session, on both sides."""
    senders = [parties.new_sender() for _ in range(N_SESSIONS)]
    with timed() as sealing:
        envelopes = [sender.seal("bob", TOPIC, b"first") for sender in senders]
    with timed() as opening:
        for envelope in envelopes:
            parties.receiver.open_without_replay_check(envelope)
    return {
        "begin_session_per_core_s": N_SESSIONS / sealing.cpu_s,
        "accept_session_per_core_s": N_SESSIONS / opening.cpu_s,
    }


def _stored(parties: _Parties) -> Figures:
    """Time what a recipient does: open, refuse replays, commit to SQLite, 1 or 100 at a time."""
    figures: Figures = {}
    with TemporaryDirectory() as folder, Database.open(Path(folder, "state.db")) as database:
        database.migrate(Receiver.schema)
        for n_together in (1, 100):
            envelopes = [parties.sealed(bytes(200)) for _ in range(N_STORED)]
            with timed() as timing:
                for first in range(0, N_STORED, n_together):
                    with database.transaction() as connection:
                        for envelope in envelopes[first : first + n_together]:
                            parties.receiver.open(connection, envelope)
            figures[f"commit_by_{n_together}_200_b_per_core_s"] = N_STORED / timing.cpu_s
            figures[f"commit_by_{n_together}_200_b_per_wall_s"] = N_STORED / timing.wall_s
    return figures


def _stream(parties: _Parties) -> Figures:
    """Seal one long content, and seal and open it, piece by piece."""
    content = os.urandom(STREAM_BYTES)
    with timed() as sealing:
        n_sealed = sum(map(len, parties.sender.seal_stream("bob", TOPIC, BytesIO(content))))
    with timed() as both:
        pieces = parties.sender.seal_stream("bob", TOPIC, BytesIO(content))
        for _ in parties.receiver.open_stream(pieces):
            pass
    return {
        "seal_stream_mb_per_core_s": STREAM_BYTES / 1e6 / sealing.cpu_s,
        "seal_and_open_stream_mb_per_core_s": STREAM_BYTES / 1e6 / both.cpu_s,
        "stream_expansion": n_sealed / STREAM_BYTES,
    }


def _per_core_s(n_times: int, work: Callable[[], Any]) -> float:
    for _ in range(max(1, n_times // 20)):  # memory and caches as in the long run
        work()
    with timed() as timing:
        for _ in range(n_times):
            work()
    return n_times / timing.cpu_s
