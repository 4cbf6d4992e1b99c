"""How long keys live, and how much they carry."""

from __future__ import annotations

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["SealedSettings"]


class SealedSettings(Settings):
    """Settings of senders and receivers.

    Parameters
    ----------
    session_messages, session_bytes, session_age_s
        A sender draws a new ephemeral key for a recipient after so many messages, padded bytes or
        seconds, whichever comes first.
    prekey_lifetime_s
        How long senders may begin sessions with a prekey. A new one is made at half this age.
    prekey_grace_s
        How much longer the recipient keeps a prekey, for messages that are still under way.
    clock_skew_s
        By how much the clocks of two parties may differ.
    window
        How far behind the highest number of a session a message may come. With the default, no
        message of a session at its default length comes too late.
    sessions_per_sender
        How many sessions one sender may begin with one prekey; a limit on what is stored.
    cached_sessions
        How many sessions a receiver keeps ready; the keys of others are derived again.
    message_bytes
        The most content that one envelope carries; longer content goes as a stream.
    chunk_bytes
        The size of a stream's chunks.

    Examples
    --------
    >>> SealedSettings(session_messages=100).session_messages
    100
    """

    session_messages: int = Field(default=4096, ge=1, le=2**32)  # numbers end there
    session_bytes: int = Field(default=2**34, ge=1, le=2**36)  # 2^32 blocks of AES under one key
    session_age_s: float = Field(default=3600.0, gt=0)
    prekey_lifetime_s: int = Field(default=86_400, ge=2)
    prekey_grace_s: int = Field(default=86_400, ge=0)
    clock_skew_s: float = Field(default=300.0, ge=0)
    window: int = Field(default=4096, ge=1, le=2**20)
    sessions_per_sender: int = Field(default=10_000, ge=1)
    cached_sessions: int = Field(default=1024, ge=1)
    message_bytes: int = Field(default=2**26, ge=1, le=2**32)
    chunk_bytes: int = Field(default=2**18, ge=64, le=2**24)
